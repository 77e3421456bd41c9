#include "slurm/spank/lease.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "slurm/spank/http.h"
#include "slurm/spank/json.h"
#include "slurm/spank/words.h"

namespace carma::slurm {
namespace {

constexpr int kAnswerS = 5;
constexpr int kAgainMs = 250;
constexpr std::size_t kMostWords = 1000;
constexpr std::size_t kMostName = 200;
constexpr std::size_t kMostReason = 500;

std::string Number(std::int64_t number) {
  return std::to_string(number);
}

// Error message for an unexpected response.
std::string TroubleOf(const Reply& reply, const Document& body) {
  if (reply.status == 0) return reply.trouble;
  const std::string said = body.Text("error/message").value_or("");
  return OneLine(said.empty() ? "carmad answered " + Number(reply.status) : said, kMostReason);
}

// Returns true if the call should be repeated, because carmad is restarting or its response was
// lost.
bool IsAway(const Reply& reply) {
  return reply.status == 0 || reply.status == 503;
}

std::string SpecText(const Step& step, const Wanted& wanted) {
  std::string text = "{\"name\":" + Quoted(OneLine(step.job_name, kMostName));
  text += ",\"command\":[";
  for (std::size_t i = 0; i < step.command.size() && i < kMostWords; ++i)
    text += (i == 0 ? "" : ",") + Quoted(step.command[i]);
  if (step.command.empty()) text += Quoted(OneLine(step.job_name, kMostName));
  text += "],\"workdir\":" + Quoted(step.folder) + ",\"gpus\":" + Number(wanted.gpus);
  if (wanted.memory_mib) text += ",\"memory_mib\":" + Number(*wanted.memory_mib);
  if (wanted.exclusive) text += ",\"exclusive\":true";
  if (wanted.sm_share) text += ",\"sm_share\":" + std::to_string(*wanted.sm_share);
  if (!wanted.summary.empty()) text += ",\"model_summary\":" + Quoted(wanted.summary);
  if (wanted.batch_size) text += ",\"batch_size\":" + Number(*wanted.batch_size);
  if (wanted.retries) text += ",\"lease_retries\":" + Number(*wanted.retries);
  return text + "}";
}

// Writes a file that is owned by the folder's owner and readable only by that user.
void Leave(const std::string& folder, std::int64_t id, const std::string& text) {
  struct stat info {};
  const int fd = ::open((folder + "/" + Number(id)).c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (::stat(folder.c_str(), &info) == 0 && ::fchown(fd, info.st_uid, info.st_gid) == 0)
    (void)!::write(fd, text.data(), text.size());
  ::close(fd);
}

}  // namespace

std::string AskText(const Step& step, const Wanted& wanted) {
  std::string text = "{\"key\":{\"cluster\":" + Quoted(step.cluster);
  text += ",\"job\":" + Number(step.job) + ",\"step\":" + Quoted(step.name);
  text += ",\"rank\":" + Number(step.rank) + ",\"restart\":" + Number(step.restart);
  text += "},\"owner\":{\"uid\":" + Number(step.uid) + ",\"gid\":" + Number(step.gid);
  text += "},\"pid\":" + Number(step.keeper);
  return text + ",\"spec\":" + SpecText(step, wanted) + "}";
}

std::string SummaryWarning(const Wanted& wanted) {
  if (wanted.summary.empty() || ::access(wanted.summary.c_str(), R_OK) == 0) return "";
  return "cannot read the model summary " + OneLine(wanted.summary, kMostReason) + ": " +
         std::strerror(errno) + "; correct --carma-summary or give --carma-mem";
}

Standing Carmad::StandingOf(std::string_view method, const std::string& target,
                            const std::string& body, int seconds) const {
  const Reply reply = CallCarmad(socket_, method, target, body, seconds);
  Document document;
  const bool good = document.Parse(reply.body);
  Standing standing;
  standing.away = IsAway(reply);
  standing.gone = reply.gone;
  if (!good || reply.status / 100 != 2) {
    standing.trouble = TroubleOf(reply, document);
    return standing;
  }
  standing.id = document.Number("id").value_or(0);
  standing.state = document.Text("state").value_or("");
  standing.step = document.Text("step").value_or("");
  standing.follows = document.Text("follows").value_or("");
  standing.reason = OneLine(document.Text("reason").value_or(""), kMostReason);
  standing.reason_text = OneLine(document.Text("reason_text").value_or(""), kMostReason);
  for (auto& [index, output] : document.Texts("outputs"))
    standing.outputs.push_back(std::move(output));
  if (standing.id == 0) standing.trouble = "carmad's response does not contain a lease";
  return standing;
}

Standing Carmad::Ask(const Step& step, const Wanted& wanted, int patience_s) const {
  const std::string text = AskText(step, wanted);
  const std::int64_t end = MonotonicMs() + patience_s * std::int64_t{1000};
  for (;;) {
    Standing standing = StandingOf("POST", "/v1/leases", text, kAnswerS);
    if (!standing.away || MonotonicMs() >= end) return standing;
    ::poll(nullptr, 0, kAgainMs);
  }
}

bool Carmad::HasBase(std::uint32_t job, int patience_s) const {
  const std::int64_t end = MonotonicMs() + patience_s * std::int64_t{1000};
  Reply reply;
  for (;;) {
    reply = CallCarmad(socket_, "GET", "/v1/leases?job=" + Number(job), "", kAnswerS);
    if (!IsAway(reply) || MonotonicMs() >= end) break;
    ::poll(nullptr, 0, kAgainMs);
  }
  Document document;
  if (reply.status != 200 || !document.Parse(reply.body)) return false;
  for (std::size_t i = 0;; ++i) {
    const std::optional<std::string> step = document.Text("leases/" + std::to_string(i) + "/step");
    if (!step) return false;
    if (*step == "batch" || *step == "interactive") return true;
  }
}

Standing Carmad::Await(std::int64_t id, int seconds) const {
  return StandingOf("GET", "/v1/leases/" + Number(id) + "?wait_s=" + Number(seconds), "",
                    seconds + kAnswerS);
}

std::vector<std::pair<std::string, std::string>> Carmad::Adopt(std::int64_t id,
                                                               Standing& standing) const {
  const Reply reply =
      CallCarmad(socket_, "POST", "/v1/leases/" + Number(id) + "/adopt", "", kAnswerS);
  Document document;
  const bool good = document.Parse(reply.body);
  standing.away = IsAway(reply);
  if (good && reply.status == 200) return document.Texts("environment");
  standing.trouble = TroubleOf(reply, document);
  return {};
}

bool Carmad::End(std::int64_t id, const Ending& ending) const {
  std::string body = "{\"exit_code\":";
  body += Number(WIFEXITED(ending.status) ? WEXITSTATUS(ending.status) : 0);
  body += ",\"signal\":" + Number(WIFSIGNALED(ending.status) ? WTERMSIG(ending.status) : 0);
  if (!ending.stderr_tail.empty()) body += ",\"stderr_tail\":" + Quoted(ending.stderr_tail);
  // The response does not matter, because carmad also notices on its own when the processes exit.
  const Reply reply =
      CallCarmad(socket_, "POST", "/v1/leases/" + Number(id) + "/end", body + "}", kAnswerS);
  if (!IsAway(reply)) return true;
  Leave(socket_ + ".ends", id, body + ",\"pid\":" + Number(::getpid()) + "}");
  return false;
}

// Slurm starts dependent jobs as soon as this job has ended, so this job must be requeued before it
// ends.
void Carmad::AwaitVerdict(std::int64_t id, const Ending& ending, bool told, int seconds) const {
  const std::int64_t restarted = MonotonicMs() + kRestartS * std::int64_t{1000};
  bool gone = !told;
  std::int64_t end = MonotonicMs() + seconds * std::int64_t{1000};
  while (MonotonicMs() < (gone ? restarted : end)) {
    told = told || End(id, ending);
    const Standing now = StandingOf("GET", "/v1/leases/" + Number(id), "", kAnswerS);
    if (gone && !now.gone) end = MonotonicMs() + seconds * std::int64_t{1000};
    gone = now.gone;
    const bool unknown = now.id == 0 && !now.away;
    const bool never_ran = now.state == "waiting" || now.state == "granted";
    if (unknown || never_ran || (now.state == "ended" && now.follows.empty())) return;
    ::poll(nullptr, 0, 100);
  }
}

}  // namespace carma::slurm
