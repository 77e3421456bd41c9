#include "task/verdict/allocator_words.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "core/values/task_request.h"

namespace carma::task {
namespace {

struct SizeUnit {
  std::string_view word;
  double mib;
};
constexpr SizeUnit kSizeUnits[] = {
    {"GiB", 1024}, {"MiB", 1}, {"KiB", 1.0 / 1024}, {"B", 1.0 / (1 << 20)}};

// One wording of the line that reports the allocated and the reserved memory. Each phrase is
// directly before or after its size.
struct Form {
  std::string_view allocated;
  std::string_view reserved;
  bool before = false;  // the sizes come before the phrases
  bool beside = false;  // the reserved size does not include the allocated size
};
constexpr Form kForms[] = {
    // PyTorch 2.1 and newer
    {" is allocated by PyTorch", " is reserved by PyTorch but unallocated", true, true},
    // PyTorch 2.0 and older
    {" already allocated", " reserved in total by PyTorch", true, false},
    // printed by python/carma_summary/told.py
    {"carma_summary: allocated ", "reserved ", false, false},
};

// Parses the two-word size that ends at position `end`, such as "500.00 MiB".
std::int64_t SizeBefore(std::string_view line, std::size_t end) {
  const std::string_view text = line.substr(0, end);
  const std::size_t unit = text.rfind(' ');
  if (unit == std::string_view::npos || unit == 0) return 0;
  const std::size_t number = text.rfind(' ', unit - 1);
  return SizeInMib(text.substr(number == std::string_view::npos ? 0 : number + 1));
}

std::int64_t SizeOf(std::string_view line, std::string_view phrase, bool before) {
  const std::size_t at = line.find(phrase);
  if (at == std::string_view::npos) return -1;
  return before ? SizeBefore(line, at) : SizeInMib(line.substr(at + phrase.size()));
}

std::optional<AllocatorWords> WordsIn(std::string_view line) {
  for (const Form& form : kForms) {
    const std::int64_t allocated_mib = SizeOf(line, form.allocated, form.before);
    const std::int64_t reserved_mib = SizeOf(line, form.reserved, form.before);
    if (allocated_mib <= 0 || reserved_mib < 0) continue;
    const AllocatorWords words{allocated_mib,
                               form.beside ? allocated_mib + reserved_mib : reserved_mib};
    if (words.reserved_mib >= words.allocated_mib) return words;
  }
  return std::nullopt;
}

}  // namespace

std::optional<AllocatorWords> FindAllocatorWords(std::string_view stderr_tail) {
  std::optional<AllocatorWords> last;
  for (const std::string_view line : base::Split(stderr_tail, '\n')) {
    if (const std::optional<AllocatorWords> words = WordsIn(line)) last = words;
  }
  return last;
}

std::int64_t SizeInMib(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = base::ParseDouble(text.substr(0, digits));
  text.remove_prefix(digits);
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (!number) return 0;
  double mib = text.starts_with("bytes") ? *number / (1 << 20) : 0;
  for (const SizeUnit& unit : kSizeUnits) {
    if (text.starts_with(unit.word)) mib = *number * unit.mib;
  }
  if (mib > static_cast<double>(core::kMaxMemoryMib)) return 0;
  return static_cast<std::int64_t>(std::ceil(mib));
}

}  // namespace carma::task
