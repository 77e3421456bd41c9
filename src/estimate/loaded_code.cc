#include "estimate/loaded_code.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace carma::estimate {
namespace {

struct ShippedCode {
  LoadedCode code;
  double mib = 0;
};
constexpr std::array kShipped{ShippedCode{{Loading::kEager, Libraries::kPlain}, 1455},
                              ShippedCode{{Loading::kEager, Libraries::kSequences}, 1455 + 62},
                              ShippedCode{{Loading::kEager, Libraries::kConvolutions}, 1455 + 257},
                              ShippedCode{{Loading::kLazy, Libraries::kPlain}, 808},
                              ShippedCode{{Loading::kLazy, Libraries::kSequences}, 824},
                              ShippedCode{{Loading::kLazy, Libraries::kConvolutions}, 828}};

// Removes a leading number from the text and returns it, or returns -1 if there is none.
int TakeNumber(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

Loading LoadingOf(std::string_view torch) {
  const int major = TakeNumber(torch);
  if (major >= 2) return Loading::kLazy;
  // PyTorch 1.13 was the first version to request lazy loading, but its wheels for CUDA 11.6 do not
  // support it.
  const bool asks = major == 1 && torch.starts_with(".13.");
  return asks && torch.ends_with("+cu117") ? Loading::kLazy : Loading::kEager;
}

double ShippedMib(LoadedCode code) {
  return std::ranges::find(kShipped, code, &ShippedCode::code)->mib;
}

LoadedCode CodeOf(double shipped_mib) {
  return std::ranges::min_element(
             kShipped, {},
             [&](const ShippedCode& each) { return std::abs(each.mib - shipped_mib); })
      ->code;
}

Loading LoadingOfBase(double base_mib) {
  const double eager_mib = ShippedMib({Loading::kEager, Libraries::kPlain});
  const double lazy_mib = ShippedMib({Loading::kLazy, Libraries::kPlain});
  return base_mib > (eager_mib + lazy_mib) / 2 ? Loading::kEager : Loading::kLazy;
}

double OnBaseMib(double base_mib, Libraries libraries) {
  const Loading loading = LoadingOfBase(base_mib);
  return base_mib + ShippedMib({loading, libraries}) - ShippedMib({loading, Libraries::kPlain});
}

}  // namespace carma::estimate
