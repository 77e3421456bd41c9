// Protection from the kernel's out-of-memory killer. carmad and its shims have it; users' processes
// must not.
#pragma once

#include <string>

namespace carma::task {

// Resets an inherited protection (a negative value) of this process. A value that makes it a
// likelier victim stays. file: only set in tests.
void GiveUpMemoryProtection(const std::string& file = "/proc/self/oom_score_adj");

}  // namespace carma::task
