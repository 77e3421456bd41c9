// Pure functions that parse the values of the plug-in's options and arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace carma::slurm {

// Parses a size such as "12G", "500M", "1.5G", "12GiB", "2T" or "700" (MiB). Returns at least 1
// MiB.
std::optional<std::int64_t> MemoryMib(std::string_view text);
// Parses a whole number between `low` and `high`.
std::optional<std::int64_t> Whole(std::string_view text, std::int64_t low, std::int64_t high);
// Parses "30", "30%" or "0.3" into a fraction from 0.01 to 1.
std::optional<double> Share(std::string_view text);
// Returns the text as one line of printable ASCII, truncated to `most` bytes. Other characters
// become '?'.
std::string OneLine(std::string_view text, std::size_t most);
// Replaces %n with the node's name, as in "/run/%n.sock".
std::string WithNode(std::string_view path, std::string_view node);

// Makes a relative path absolute by appending it to `folder`, because carmad has a different
// working directory. Empty if that is impossible.
std::optional<std::string> AbsolutePath(std::string_view path, std::string_view folder);

}  // namespace carma::slurm
