#include <string>

#include "base/result.h"
#include "cli/slurm/site.h"
#include "entries.h"
#include "slurm/spank/http.h"
#include "slurm/spank/json.h"
#include "slurm/spank/words.h"

namespace carma::fuzz {

void FuzzSpank(std::string_view bytes) {
  const slurm::Reply reply = slurm::ParseReply(bytes);
  slurm::Document document;
  const bool good = document.Parse(reply.status == 0 ? bytes : std::string_view(reply.body));
  if (good) {
    (void)document.Texts("environment");
    (void)document.Number("id");
  }
  // Quoted text must be ASCII and must parse back.
  slurm::Document again;
  CARMA_CHECK(again.Parse("{\"a\":" + slurm::Quoted(bytes.substr(0, 4096)) + "}"),
              "quoted text is valid JSON");
  (void)slurm::MemoryMib(bytes);
  (void)slurm::Share(bytes);
  const std::string line = slurm::OneLine(bytes, 100);
  CARMA_CHECK(line.size() <= 100 && line.find('\n') == std::string::npos, "one line");
}

void FuzzSite(std::string_view bytes) {
  (void)cli::ReadLines(bytes);
  const auto words = cli::ReadWords(bytes);
  const auto gres = words.find("Gres");
  (void)cli::CarmaCount(gres == words.end() ? bytes : std::string_view(gres->second));
  (void)cli::FindPlugin(bytes);
  (void)cli::ReleaseOf(bytes);
  const std::string release = cli::PluginRelease(bytes);
  CARMA_CHECK(release.find_first_not_of("0123456789.") == std::string::npos, "digits and points");
}

}  // namespace carma::fuzz
