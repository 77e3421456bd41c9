#include "model/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "base/try.h"
#include "model/op.h"
#include "model/reading.h"

namespace carma::model {
namespace {

struct Reader {
  SummaryFormat format;
  std::string_view name;  // as shown to users
  Result<LayerList> (*read)(Lines& lines);
};
constexpr std::array kReaders{
    Reader{SummaryFormat::kTorchSummary, "torchsummary", ReadTorchSummary},
    Reader{SummaryFormat::kTorchInfo, "torchinfo", ReadTorchInfo},
    Reader{SummaryFormat::kTorchTree, "a printed module tree", ReadTorchTree},
    Reader{SummaryFormat::kKeras, "Keras", ReadKeras},
};

const Reader* ReaderOf(SummaryFormat format) {
  return std::ranges::find(kReaders, format, &Reader::format);
}

// True if the line is a row such as "Conv2d-1   [-1, 64, 112, 112]   9,408".
bool IsTorchSummaryRow(std::string_view row) {
  const std::size_t open = row.find('[');
  return open != std::string_view::npos && !TypeInLabel(base::Trim(row.substr(0, open))).empty();
}

bool IsBranch(std::string_view row) {
  return row.starts_with("├─") || row.starts_with("└─") || row.starts_with("+ ");
}

// The format of the table that begins at line `at`, derived from this line and the lines that
// follow.
const Reader* TableAt(const Lines& lines, std::size_t at) {
  const std::string_view line = lines.At(at);
  if (!line.contains("Layer (type")) return nullptr;
  if (line.contains("depth-idx") || line.contains("var_name"))
    return ReaderOf(SummaryFormat::kTorchInfo);
  // torchsummary, Keras, and torchinfo without indices have the same header, so the first rows
  // determine the format. The first row of torchinfo may be the model itself, which has no branch.
  int rows = 0;
  for (std::size_t next = at + 1; next < lines.size() && rows < 2; ++next) {
    const std::string_view row = base::Trim(lines.At(next));
    if (row.empty() || IsRule(row)) continue;
    ++rows;
    if (IsBranch(row)) return ReaderOf(SummaryFormat::kTorchInfo);
    if (IsTorchSummaryRow(row)) return ReaderOf(SummaryFormat::kTorchSummary);
  }
  return ReaderOf(rows > 0 ? SummaryFormat::kKeras : SummaryFormat::kTorchSummary);
}

// True if the line begins a printed module tree, such as "ResNet(" without indentation.
bool IsTreeRoot(std::string_view line) {
  line = line.substr(0, line.find_last_not_of(" \t") + 1);
  if (line.size() < 2 || line.size() > kMaxNameBytes || !line.ends_with('(')) return false;
  line.remove_suffix(1);
  return std::isdigit(static_cast<unsigned char>(line.front())) == 0 &&
         std::ranges::all_of(line, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
         });
}

// True if the line is a complete model with a single layer: "Linear(in_features=4, out_features=2,
// bias=True)".
bool IsSingleModule(std::string_view line) {
  const std::size_t open = line.find('(');
  return open != std::string_view::npos && line.ends_with(')') && line.front() != '(' &&
         OpOf(line.substr(0, open)) != Op::kOther;
}

const Reader* SummaryAt(const Lines& lines, std::size_t at) {
  if (const Reader* table = TableAt(lines, at)) return table;
  return IsTreeRoot(lines.At(at)) ? ReaderOf(SummaryFormat::kTorchTree) : nullptr;
}

bool IsBlank(std::string_view line) {
  return base::Trim(line).empty();
}

// True if the line is part of the title that Keras prints above its table.
bool IsTitle(std::string_view line) {
  return IsRule(line) || base::Trim(line).starts_with("Model: \"");
}

Result<LayerList> ReadText(Lines& lines) {
  const Reader* reader = nullptr;
  std::size_t passed_over = 0;
  while (!lines.AtEnd()) {
    reader = SummaryAt(lines, lines.next());
    if (reader != nullptr) break;
    if (!IsBlank(lines.Peek()) && passed_over == 0 && IsSingleModule(base::Trim(lines.Peek()))) {
      reader = ReaderOf(SummaryFormat::kTorchTree);
      break;
    }
    passed_over += !IsBlank(lines.Peek()) && !IsTitle(lines.Peek());
    lines.Take();
  }
  if (reader == nullptr) {
    return lines.FailAt(1,
                        "no model summary found, expected the output of torchsummary, torchinfo, "
                        "print(model), Keras summary() or a CARMA layer list in JSON");
  }
  LayerList list = CARMA_TRY(reader->read(lines));
  for (; !lines.AtEnd(); lines.Take()) {
    if (const Reader* second = SummaryAt(lines, lines.next())) {
      return lines.FailAt(
          lines.next() + 1,
          fmt::format("a second summary ({}) after the first ({}), expected one model per file",
                      second->name, reader->name));
    }
    passed_over += !IsBlank(lines.Peek());
  }
  if (passed_over > 0) {
    AddNote(list, Note::Kind::kOther,
            fmt::format("lines ignored before or after the summary: {}", passed_over));
  }
  return list;
}

}  // namespace

Result<LayerList> ParseSummary(std::string_view text, std::string_view path) {
  if (text.size() > kMaxSummaryBytes) {
    return Invalid("{}:1: the summary is {} bytes long, expected at most {}", base::Printable(path),
                   text.size(), kMaxSummaryBytes);
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return ReadLayerList(text, path);
  Lines lines = CARMA_TRY(Lines::Split(text, path));
  return ReadText(lines);
}

}  // namespace carma::model
