#include "base/text.h"
#include "entries.h"
#include "slurm/job.h"
#include "slurm/job_return.h"

namespace carma::fuzz {

void FuzzSqueue(std::string_view bytes) {
  const auto found = slurm::FindJob(bytes, 2);
  if (!found) {
    CARMA_CHECK(found.error().message.find('\n') == std::string::npos,
                "an error message is one line");
    return;
  }
  if (!*found) return;
  const slurm::Job& job = **found;
  CARMA_CHECK(job.id == 2 && job.restarts >= 0 && job.carma_gib >= 0, "numbers are counts");
  const slurm::NextStep next =
      slurm::Next({.job = 2, .restart = 0, .retries = 3, .claim_gib = 3, .comment = "carma"}, job);
  for (const std::string& word : next.words)
    CARMA_CHECK(!word.empty() && !base::HasControls(word), "words are words");
}

}  // namespace carma::fuzz
