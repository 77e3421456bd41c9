// The kernel's memory killer: carmad and its shims are protected from it, what they start for users
// is not.
#pragma once

#include <string>

namespace carma::task {

// Of this process and what it becomes: a protection (a negative value) that it has inherited ends;
// a value that makes it a likelier victim stays. file: another in tests.
void GiveUpMemoryProtection(const std::string& file = "/proc/self/oom_score_adj");

}  // namespace carma::task
