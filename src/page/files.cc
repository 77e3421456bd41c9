#include "page/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/sha256.h"
#include "page/gzip.h"

namespace carma::page {

// CMakeLists.txt generates these strings from files/.
extern const std::string_view kIndexHtml, kPageCss, kIconSvg, kMainJs, kDomJs, kWordsJs, kPartsJs,
    kLinkJs, kServerJs, kTaskJs, kTasksJs, kUsersJs, kHistoryJs, kWhoJs;

namespace {

constexpr std::string_view kScript = "text/javascript; charset=utf-8";

File Packed(std::string_view name, std::string_view content_type, std::string_view text) {
  base::Sha256 hash;
  hash.Add(text);
  return {name, content_type, text, Gzip(text, Effort::kOnce),
          fmt::format("\"{}\"", hash.FinishHex().substr(0, 16))};
}

std::vector<File> PackAll() {
  return {
      Packed(kIndex, "text/html; charset=utf-8", kIndexHtml),
      Packed("page.css", "text/css; charset=utf-8", kPageCss),
      Packed("icon.svg", "image/svg+xml", kIconSvg),
      Packed("main.js", kScript, kMainJs),
      Packed("dom.js", kScript, kDomJs),
      Packed("words.js", kScript, kWordsJs),
      Packed("parts.js", kScript, kPartsJs),
      Packed("link.js", kScript, kLinkJs),
      Packed("server.js", kScript, kServerJs),
      Packed("task.js", kScript, kTaskJs),
      Packed("tasks.js", kScript, kTasksJs),
      Packed("users.js", kScript, kUsersJs),
      Packed("history.js", kScript, kHistoryJs),
      Packed("who.js", kScript, kWhoJs),
  };
}

}  // namespace

const File* Find(std::string_view name) {
  static const std::vector<File> kFiles = PackAll();
  const auto found =
      std::ranges::find_if(kFiles, [&](const File& file) { return file.name == name; });
  return found == kFiles.end() ? nullptr : &*found;
}

}  // namespace carma::page
