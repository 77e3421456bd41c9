#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace carma::base {

std::uint64_t RaiseOpenFiles(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max<rlim_t>(before, std::min<rlim_t>(limit.rlim_max, wanted));
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace carma::base
