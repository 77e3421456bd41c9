// Reads a trace in pieces, as bytes or lines, so files can be larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "base/unique_fd.h"

namespace carma::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads up to `size` bytes into `to` and returns the number of bytes read, 0 at the end. May
  // block on a pipe. Returns kIo if reading fails.
  virtual Result<std::size_t> Read(char* to, std::size_t size) = 0;
};

// The text must outlive the source.
class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  Result<std::size_t> Read(char* to, std::size_t size) override;

 private:
  std::string_view text_;
};

class FileSource : public ByteSource {
 public:
  // Opens the file; "-" is standard input. Returns kNotFound, kDenied or kIo, or kInvalid for a
  // directory.
  static Result<FileSource> Open(const std::string& path);
  Result<std::size_t> Read(char* to, std::size_t size) override;

 private:
  FileSource(base::UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  base::UniqueFd fd_;
  std::string path_;
};

// Longer lines are skipped; no known trace contains any.
inline constexpr std::size_t kMaxLineBytes = 64 << 10;

struct Line {
  std::string_view text;  // without the newline; valid until the next call
  std::int64_t number = 0;
  bool too_long = false;  // `text` is only the beginning of the line
};

// Buffers a source, hashes all its bytes, and splits it into lines.
class LineReader {
 public:
  explicit LineReader(ByteSource& source);

  // Returns the next kMaxLineBytes bytes without consuming them, or fewer if the source ends
  // earlier.
  Result<std::string_view> Peek();
  // Returns the next line; empty at the end. CRLF and a missing newline after the last line are
  // accepted.
  Result<std::optional<Line>> Next();
  // Takes the next buffered bytes, for formats without lines; empty at the end.
  Result<std::string_view> TakeBytes();
  // Hash of all bytes taken, in hexadecimal. No more bytes may be read afterwards.
  std::string Sha256Hex() { return hash_.FinishHex(); }

 private:
  std::string_view Buffered() const { return {buffer_.data() + begin_, end_ - begin_}; }
  // Reads more into the buffer, or sets ended_ at the end of the source.
  Result<Unit> Fill();
  void Take(std::size_t bytes);

  ByteSource& source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool ended_ = false;
  std::int64_t lines_ = 0;
  base::Sha256 hash_;
};

}  // namespace carma::trace
