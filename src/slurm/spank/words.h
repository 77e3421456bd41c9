// Parses values of the plug-in's options and arguments. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace carma::slurm {

// "12G", "500M", "1.5G", "12GiB", "2T", "700" (MiB): MiB, at least 1.
std::optional<std::int64_t> MemoryMib(std::string_view text);
// A whole number within these bounds.
std::optional<std::int64_t> Whole(std::string_view text, std::int64_t low, std::int64_t high);
// "30", "30%", "0.3": a fraction from 0.01 to 1.
std::optional<double> Share(std::string_view text);
// One line of printable ASCII, cut to `most` bytes; other characters become '?'.
std::string OneLine(std::string_view text, std::size_t most);
// "/run/%n.sock" with the name of the node in place of %n.
std::string WithNode(std::string_view path, std::string_view node);

// The given path, made absolute with the folder if needed, because carmad works elsewhere; empty:
// impossible.
std::optional<std::string> AbsolutePath(std::string_view path, std::string_view folder);

}  // namespace carma::slurm
