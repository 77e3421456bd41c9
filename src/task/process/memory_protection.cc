#include "task/process/memory_protection.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/unique_fd.h"

namespace carma::task {

void GiveUpMemoryProtection(const std::string& file) {
  const Result<std::string> adjustment = base::ReadFile(file, 64);
  if (!adjustment || !adjustment->starts_with('-')) return;
  const base::UniqueFd fd(::open(file.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (fd) (void)base::WriteAll(fd.get(), "0");
}

}  // namespace carma::task
