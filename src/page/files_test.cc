#include "page/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <regex>
#include <set>
#include <string>

#include "page/gzip.h"

namespace carma::page {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Unpacked(const std::string& packed) {
  z_stream stream{};
  EXPECT_EQ(::inflateInit2(&stream, 15 + 16), Z_OK);
  std::string text(1 << 20, '\0');
  std::string bytes = packed;
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  ::inflateEnd(&stream);
  return text;
}

// Returns the page's files that the text mentions: "/page/NAME" and, in scripts, "./NAME".
std::set<std::string> Needed(std::string_view text) {
  static const std::regex kName(R"re(["'](?:/page|\.)/([a-z]+\.(?:js|css|svg))["'])re");
  const std::string all(text);
  std::set<std::string> names;
  for (std::sregex_iterator each(all.begin(), all.end(), kName), end; each != end; ++each)
    names.insert((*each)[1]);
  return names;
}

TEST(Gzip, KeepsTheText) {
  for (const std::string& text : {std::string(), std::string("a"), std::string(100'000, 'x')}) {
    EXPECT_EQ(Unpacked(Gzip(text, Effort::kOnce)), text);
    EXPECT_EQ(Unpacked(Gzip(text, Effort::kEvery)), text);
  }
}

TEST(Files, AreCompleteAndCompressed) {
  const File* index = Find(kIndex);
  ASSERT_NE(index, nullptr);
  std::set<std::string> seen{std::string(kIndex)}, open = Needed(index->text);
  ASSERT_FALSE(open.empty());
  while (!open.empty()) {
    const std::string name = open.extract(open.begin()).value();
    if (!seen.insert(name).second) continue;
    const File* file = Find(name);
    ASSERT_NE(file, nullptr) << name;
    EXPECT_EQ(Unpacked(file->gzip), file->text) << name;
    open.merge(Needed(file->text));
  }
  EXPECT_EQ(Find("passwd"), nullptr);
  EXPECT_EQ(Find(""), nullptr);
}

TEST(Files, NeededForTheFirstViewAreSmall) {
  std::size_t bytes = Find(kIndex)->gzip.size();
  for (const std::string& name : Needed(Find(kIndex)->text)) bytes += Find(name)->gzip.size();
  EXPECT_LT(bytes, 40'000U);  // the limit is 60 KB; the rest is for data
}

TEST(Files, LoadNothingFromElsewhereAndHaveNoScriptInThePage) {
  for (const char* name :
       {"index.html", "page.css", "main.js", "dom.js", "words.js", "parts.js", "link.js",
        "server.js", "task.js", "tasks.js", "users.js", "history.js", "who.js"}) {
    const File* file = Find(name);
    ASSERT_NE(file, nullptr) << name;
    const std::string text(file->text);
    EXPECT_THAT(text, Not(HasSubstr("https://"))) << name;
    EXPECT_THAT(text, Not(HasSubstr("innerHTML"))) << name;
    EXPECT_THAT(text, Not(HasSubstr("eval("))) << name;
    EXPECT_THAT(text, Not(ContainsRegex("\n *//"))) << name;  // comments are not sent
    EXPECT_THAT(text, Not(HasSubstr(" style=\""))) << name;
  }
  EXPECT_FALSE(
      std::regex_search(std::string(Find(kIndex)->text), std::regex("<script(?![^>]*src=)")));
  EXPECT_THAT(std::string(kPagePolicy), Not(HasSubstr("unsafe")));
}

}  // namespace
}  // namespace carma::page
