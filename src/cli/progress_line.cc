#include "cli/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace carma::cli {

ProgressLine::ProgressLine(Context& context, std::optional<std::chrono::seconds> log_every)
    : context_(context), screen_(ScreenOf(context.err)), log_every_(log_every) {}

void ProgressLine::Show(const std::string& text) {
  const auto now = std::chrono::steady_clock::now();
  if (screen_.width > 0) {
    const auto width = static_cast<std::size_t>(screen_.width - 1);
    std::fprintf(context_.err, "\r%s\033[K", CutTo(text, width).c_str());
    open_ = true;
  } else if (log_every_ && (!last_ || now - *last_ >= *log_every_)) {
    std::fprintf(context_.err, "%s\n", text.c_str());
    last_ = now;
  }
  std::fflush(context_.err);
}

void ProgressLine::End() {
  if (open_) std::fputs("\r\033[K", context_.err);
  open_ = false;
}

std::string ProgressBar(double share, std::chrono::milliseconds elapsed) {
  constexpr int kWidth = 30;
  share = std::clamp(share, 0.0, 1.0);
  const int full = static_cast<int>(share * kWidth);
  std::string text = fmt::format("[{:#<{}}{:.<{}}] {:3.0f} %", "", full, "", kWidth - full,
                                 std::floor(share * 100));
  // Shows no remaining time during the first percent, because the prediction would be unreliable.
  if (share > 0.01 && share < 1) {
    const double left_ms = static_cast<double>(elapsed.count()) * (1 - share) / share;
    text += ", " + base::FormatSpan(base::Duration(static_cast<std::int64_t>(left_ms))) + " to go";
  }
  return text;
}

}  // namespace carma::cli
