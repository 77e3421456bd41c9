// Reads data sets with one layer list per line, optionally compressed with gzip.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <memory>

#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "model/reading.h"
#include "model/summary.h"

namespace carma::model {
namespace {

// Reads a file line by line. zlib decompresses gzipped files and passes plain text through.
class PackedLines {
 public:
  static Result<PackedLines> Open(const std::string& path) {
    base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return FailErrno(errno, base::Printable(path));
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return FailErrno(errno, "stat " + path);
    if (!S_ISREG(info.st_mode)) return Invalid(base::Printable(path) + ": expected a regular file");
    PackedLines lines;
    lines.path_ = base::Printable(path);
    lines.file_.reset(::gzdopen(fd.get(), "rb"));
    if (lines.file_ == nullptr) return FailErrno(ENOMEM, "unpack " + path);
    fd.release();  // gzclose closes it
    return lines;
  }

  // Reads the next line and strips its line ending. Returns false at the end of the file.
  Result<bool> Next(std::string& line) {
    line.clear();
    while (true) {
      const std::string_view rest = std::string_view(buffer_).substr(at_);
      const std::size_t end = rest.find('\n');
      if (line.size() + std::min(end, rest.size()) > kMaxSummaryBytes)
        return Fail(fmt::format("the line exceeds {} bytes", kMaxSummaryBytes));
      line.append(rest.substr(0, end));
      if (end != std::string_view::npos) {
        at_ += end + 1;
        ++number_;
        return true;
      }
      auto more = CARMA_TRY(Fill());
      if (more) continue;
      number_ += !line.empty();
      return !line.empty();
    }
  }
  std::string Place() const { return fmt::format("{}:{}", path_, number_); }

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose(file); }
  };
  static constexpr std::size_t kChunk = 1 << 18;

  std::unexpected<base::Error> Fail(std::string_view what) const {
    return Invalid("{}:{}: {}", path_, number_ + 1, what);
  }

  Result<bool> Fill() {
    buffer_.resize(kChunk);
    at_ = 0;
    const int got = ::gzread(file_.get(), buffer_.data(), kChunk);
    int code = Z_OK;
    const char* text = ::gzerror(file_.get(), &code);
    buffer_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    unpacked_ += buffer_.size();
    if (unpacked_ > kMaxDataSetBytes)
      return Fail(
          fmt::format("the data set exceeds {} bytes after decompression", kMaxDataSetBytes));
    // For a truncated gzip file, gzread fails with Z_BUF_ERROR once all readable data has been
    // returned.
    if (got < 0 || (got == 0 && code != Z_OK))
      return Fail(fmt::format("cannot be decompressed: {}", base::Printable(text)));
    return got > 0;
  }

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::size_t unpacked_ = 0;
  std::size_t number_ = 0;  // number of the last line read
};

}  // namespace

Result<Unit> ForEachModel(const std::string& path, const std::function<void(LayerList)>& take) {
  auto lines = CARMA_TRY(PackedLines::Open(path));
  std::string line;
  while (true) {
    const bool more = CARMA_TRY(lines.Next(line));
    if (!more) return Unit{};
    if (base::Trim(line).empty()) continue;
    LayerList list = CARMA_TRY(ReadLayerList(line, lines.Place()));
    take(std::move(list));
  }
}

}  // namespace carma::model
