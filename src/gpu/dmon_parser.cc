#include "gpu/dmon_parser.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "base/text.h"
#include "gpu/counters.h"
#include "gpu/units.h"

namespace carma::gpu {
namespace {

constexpr std::size_t kMaxRow = 8'192;
constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);
// DCGM reports special values ("not found", "not supported" and so on) as numbers that are at least
// this large, both for doubles and for 64-bit integers.
constexpr double kBlank = 140'737'488'355'328.0;
constexpr double kMaxWatts = 100'000;

// A field requested from `dcgmi`: a counter, the PCI address, the power or, if none of these, the
// energy in mJ.
struct Field {
  int number;
  std::string_view title;
  DmonFields last = DmonFields::kFew;  // the shortest list that includes it
  const Counter* counter = nullptr;
  bool is_pci = false;
  bool is_power = false;  // W
};

DmonFields LastListWith(int counter) {
  if (counter == 1002) return DmonFields::kFew;
  const bool rare = counter == 1006 || counter == 1011 || counter == 1012;
  return rare ? DmonFields::kAll : DmonFields::kCommon;
}

const std::vector<Field>& Fields() {
  static const std::vector<Field> kFields = [] {
    std::vector<Field> fields = {{.number = 57, .title = "PCBID", .is_pci = true}};
    for (const Counter& counter : Counters()) {
      fields.push_back({.number = counter.dcgm,
                        .title = counter.dcgm_title,
                        .last = LastListWith(counter.dcgm),
                        .counter = &counter});
    }
    fields.push_back({.number = 155, .title = "POWER", .is_power = true});
    fields.push_back({.number = 156, .title = "TOTEC"});
    return fields;
  }();
  return kFields;
}

// Indexes into Fields(), in the requested order.
std::vector<std::size_t> Requested(DmonFields list) {
  std::vector<std::size_t> requested;
  for (std::size_t i = 0; i < Fields().size(); ++i) {
    if (Fields()[i].last >= list) requested.push_back(i);
  }
  return requested;
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

// Returns false if the value in the cell is impossible.
bool Keep(const Field& field, std::string_view cell, DmonRow& row) {
  if (cell.empty() || cell == "N/A" || cell.ends_with("...")) return true;
  if (field.is_pci) {
    row.pci = PciKey(cell);
    return true;
  }
  const std::optional<double> said = base::ParseDouble(cell);
  if (!said) return false;
  if (*said >= kBlank) return true;
  if (field.counter) return StoreDcgm(*field.counter, *said, row.values);
  if (!(*said >= 0)) return false;
  if (field.is_power) {
    if (*said > kMaxWatts) return false;
    row.values.power_w = Watts(*said).value();
    return true;
  }
  row.values.energy_j = ToJoules(Millijoules(static_cast<std::uint64_t>(*said))).value();
  return true;
}

std::optional<DmonRow::Kind> ParseKind(std::string_view word) {
  if (word == "GPU") return DmonRow::Kind::kGpu;
  if (word == "GPU-I") return DmonRow::Kind::kGpuInstance;
  if (word == "GPU-CI") return DmonRow::Kind::kComputeInstance;
  return std::nullopt;
}

}  // namespace

std::string PciKey(std::string_view address) {
  const std::vector<std::string_view> parts = base::Split(address, ':');
  if (parts.size() < 2 || parts.size() > 3) return "";
  std::uint32_t domain = 0;
  if (parts.size() == 3) {
    const auto [end, error] =
        std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), domain, 16);
    if (error != std::errc() || end != parts[0].data() + parts[0].size()) return "";
  }
  unsigned bus = 0, device = 0, function = 0;
  const std::string rest = std::string(parts[parts.size() - 2]) + ":" + std::string(parts.back());
  char after = 0;
  if (std::sscanf(rest.c_str(), "%2x:%2x.%1x%c", &bus, &device, &function, &after) != 3) return "";
  char key[32];
  std::snprintf(key, sizeof key, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return key;
}

std::string DmonFieldList(DmonFields fields) {
  std::string list;
  for (const std::size_t i : Requested(fields))
    list += (list.empty() ? "" : ",") + std::to_string(Fields()[i].number);
  return list;
}

std::vector<DmonRow> DmonParser::Feed(std::string_view bytes) {
  std::vector<DmonRow> rows;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > kMaxRow) too_long_ = true;
    if (!too_long_) line_ += piece;
    if (end == std::string_view::npos) break;
    if (!too_long_) TakeLine(line_, rows);
    line_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
  return rows;
}

void DmonParser::TakeTitles(std::string_view line) {
  columns_.clear();
  for (const std::string_view title : base::SplitWords(line)) {
    if (title == "#Entity") continue;
    const auto known = std::ranges::find(Fields(), title, &Field::title);
    const auto at = static_cast<std::size_t>(title.data() - line.data());
    columns_.push_back(
        {known == Fields().end() ? kNoColumn : static_cast<std::size_t>(known - Fields().begin()),
         at});
  }
  // The columns are in the requested order, so a column with an unknown title is identified by its
  // position.
  const std::vector<std::size_t> requested = Requested(fields_);
  if (columns_.size() != requested.size()) return;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool taken = std::ranges::find(columns_, requested[i], &Column::field) != columns_.end();
    if (columns_[i].field == kNoColumn && !taken) columns_[i].field = requested[i];
  }
}

// Splits a line into the entity's kind and number, and one cell per column. Empty if the line can
// be split in more than one way.
std::vector<std::string_view> DmonParser::Cells(std::string_view line) const {
  std::vector<std::string_view> words = base::SplitWords(line);
  if (words.size() == columns_.size() + 2) return words;
  // If a cell is blank, or an instance's long name touches its first value, the cells are split at
  // the title positions.
  const std::size_t first = columns_.front().from;
  words = base::SplitWords(line.substr(0, first));
  if (words.size() != 2) return {};
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t from = columns_[i].from;
    const bool last = i + 1 == columns_.size();
    if (from >= line.size()) {
      words.push_back({});
      continue;
    }
    if (i > 0 && !IsBlank(line[from - 1])) return {};
    const std::string_view cell =
        base::Trim(line.substr(from, last ? std::string_view::npos : columns_[i + 1].from - from));
    if (cell.contains(' ')) return {};
    words.push_back(cell);
  }
  return words;
}

void DmonParser::TakeLine(std::string_view line, std::vector<DmonRow>& rows) {
  const std::vector<std::string_view> words = base::SplitWords(line);
  if (words.empty()) return;
  if (words[0] == "#Entity") return TakeTitles(line);
  if (words[0] == "ID") return;  // line of units
  const std::optional<DmonRow::Kind> kind = ParseKind(words[0]);
  if (!kind || columns_.empty()) {
    remark_ = base::Printable(base::Trim(line));
    return;
  }
  const std::vector<std::string_view> cells = Cells(line);
  const std::optional<std::int64_t> id = cells.empty() ? std::nullopt : base::ParseInt(cells[1]);
  if (!id || *id < 0 || *id > 1'000'000) {
    remark_ = base::Printable(base::Trim(line));
    return;
  }
  DmonRow row{.kind = *kind, .id = static_cast<int>(*id), .pci = "", .values = {}, .objection = ""};
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].field == kNoColumn) continue;
    const Field& field = Fields()[columns_[i].field];
    if (Keep(field, cells[i + 2], row) || !row.objection.empty()) continue;
    row.objection = std::string(field.title) + " is " + base::Printable(cells[i + 2], 40);
  }
  if (row.values.sm_active) row.values.counters = CounterSource::kDcgm;
  rows.push_back(std::move(row));
}

}  // namespace carma::gpu
