// Compiles the parts of fmt that CARMA uses into its programs. Debian ships fmt only as a shared
// library, which in turn needs the shared C++ library; loading both takes longer than submitting a
// task.
#include <fmt/format-inl.h>

template fmt::detail::thousands_sep_result<char> fmt::detail::thousands_sep_impl(
    fmt::detail::locale_ref);
template char fmt::detail::decimal_point_impl(fmt::detail::locale_ref);
template fmt::detail::dragonbox::decimal_fp<float> fmt::detail::dragonbox::to_decimal(
    float) noexcept;
template fmt::detail::dragonbox::decimal_fp<double> fmt::detail::dragonbox::to_decimal(
    double) noexcept;
#if FMT_VERSION >= 100000
template void fmt::detail::vformat_to(buffer<char>&, string_view, typename vformat_args<>::type,
                                      locale_ref);
#endif
