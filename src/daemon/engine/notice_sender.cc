#include "daemon/engine/notice_sender.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>

#include "base/host.h"
#include "base/json.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/text.h"
#include "task/describe/notify.h"
#include "task/describe/spec.h"
#include "task/notify/order.h"

namespace carma::daemon {
namespace {

constexpr std::size_t kMostRead = 2'000;
constexpr std::size_t kMostAtOnce = 8;
// Limit on one user's simultaneous notices, so that a hung mail or web server does not delay
// other users.
constexpr std::ptrdiff_t kMostOfOneUser = 2;
// Real time that carma-notify may take beyond the time limit.
constexpr base::Duration kOwnTime{15'000};
constexpr std::size_t kMaxSaid = 1'000;
// Delays between attempts to send a notice, in server time (which may be simulated).
constexpr std::array<base::Duration, 5> kBackOff{base::Duration(10'000), base::Duration(60'000),
                                                 base::Duration(300'000), base::Duration(1'800'000),
                                                 base::Duration(7'200'000)};
constexpr const char* kPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// The proxy variables that webhooks take from the task's environment.
constexpr std::array<std::string_view, 8> kProxies{"http_proxy", "https_proxy", "all_proxy",
                                                   "no_proxy",   "HTTP_PROXY",  "HTTPS_PROXY",
                                                   "ALL_PROXY",  "NO_PROXY"};

}  // namespace

struct NoticeSender::Sending {
  explicit Sending(boost::asio::io_context& loop) : process(loop), limit(loop) {}
  store::Notice notice;
  pid_t pid = 0;
  boost::asio::posix::stream_descriptor process;  // its pidfd
  base::UniqueFd said;
  Alarm limit;
};

NoticeSender::NoticeSender(boost::asio::io_context& loop, store::Store& store, base::Clock& clock,
                           NoticeSenderOptions options, Take take)
    : loop_(loop),
      store_(store),
      clock_(clock),
      options_(std::move(options)),
      take_(std::move(take)),
      next_(loop) {}

// Running carma-notify processes continue, but their results are lost, so the next carmad sends
// their notices again.
NoticeSender::~NoticeSender() = default;

bool NoticeSender::MayStart(const store::Notice& notice) const {
  return sending_.size() < kMostAtOnce && std::ranges::count_if(sending_, [&](const auto& each) {
                                            return each.second->notice.uid == notice.uid;
                                          }) < kMostOfOneUser;
}

void NoticeSender::Look() {
  const Result<std::vector<store::Notice>> waiting = store_.WaitingNotices(kMostRead);
  if (!waiting) return base::LogWarn("notices_not_read", {{"why", waiting.error().message}});
  std::set<std::int64_t> there;
  std::optional<base::Time> next;
  const base::Time now = clock_.Now();
  for (const store::Notice& notice : *waiting) {
    there.insert(notice.id);
    const auto tried = tries_.find(notice.id);
    const bool durable = tried == tries_.end() || tried->second <= notice.tries;
    if (!durable || sending_.contains(notice.id)) continue;
    if (notice.next > now) {
      next = std::min(next.value_or(notice.next), notice.next);
    } else if (MayStart(notice)) {
      Start(notice);
    }
  }
  if (waiting->size() < kMostRead)
    std::erase_if(tries_, [&](const auto& each) { return !there.contains(each.first); });
  if (next) next_.Set(clock_.RealSpan(*next - now), [this] { Look(); });
}

void NoticeSender::Start(store::Notice notice) {
  task::NoticeOrder order{.target = notice.target,
                          .event = notice.event,
                          .message = notice.message,
                          .key = fmt::format("carma-{}-{}-{}", base::ShortHostName(),
                                             base::ToMs(notice.made), notice.id),
                          .uid = notice.uid,
                          .gid = ::getgid(),
                          .sendmail = options_.sendmail,
                          .limit = options_.limit,
                          .max_processes = options_.max_processes};
  if (const Result<base::Json> json = base::ParseJson(notice.message); json && json->is_object())
    order.text = json->value("text", "");
  if (notice.task) {
    const Result<store::StoredTask> stored = store_.Get(*notice.task);
    if (!stored) return TakeResult(std::move(notice), task::kNoticeFailed, stored.error().message);
    order.gid = stored->gid;
    order.user = stored->user;
    if (const Result<task::TaskSpec> spec = task::SpecFromJsonText(stored->spec_json)) {
      for (const auto& [name, value] : spec->environment) {
        if (std::ranges::find(kProxies, name) != kProxies.end()) order.environment[name] = value;
      }
    }
  }
  auto sending = std::make_unique<Sending>(loop_);
  const Result<base::UniqueFd> input = base::MemoryFile(task::ToText(order));
  Result<base::UniqueFd> said = base::MemoryFile("");
  if (!input || !said)
    return TakeResult(std::move(notice), task::kNoticeAgain,
                      (input ? said : input).error().message);
  sending->said = *std::move(said);
  auto child =
      base::Spawn({options_.program}, {.files = {input->get(), sending->said.get(), STDERR_FILENO},
                                       .environment = std::vector<std::string>{kPath},
                                       .folder = "/"});
  if (!child)
    return TakeResult(std::move(notice), task::kNoticeAgain, std::strerror(child.error()));
  if (!child->process) {  // its exit can be detected only with a pidfd
    ::kill(-child->pid, SIGKILL);
    ::waitpid(child->pid, nullptr, 0);
    return TakeResult(std::move(notice), task::kNoticeAgain, "no free file descriptor");
  }
  const std::int64_t id = notice.id;
  sending->notice = std::move(notice);
  sending->pid = child->pid;
  sending->process.assign(child->process.release());
  sending->process.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                              [this, id](const boost::system::error_code& error) {
                                if (!error) Finish(id);
                              });
  sending->limit.Set(options_.limit + kOwnTime, [pid = sending->pid] { ::kill(-pid, SIGKILL); });
  sending_.emplace(id, std::move(sending));
}

void NoticeSender::Finish(std::int64_t id) {
  auto sending = std::move(sending_.extract(id).mapped());
  int status = 0;
  while (::waitpid(sending->pid, &status, 0) < 0 && errno == EINTR) {
  }
  std::string said(kMaxSaid, '\0');
  const ssize_t read = ::pread(sending->said.get(), said.data(), said.size(), 0);
  said.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : task::kNoticeAgain;
  if (said.empty() && WIFSIGNALED(status))
    said = fmt::format("killed by signal {}", WTERMSIG(status));
  TakeResult(std::move(sending->notice), code, said);
  Look();
}

void NoticeSender::TakeResult(store::Notice notice, int code, const std::string& text) {
  notice.text = base::Printable(base::Trim(text), 300);
  const auto tries = static_cast<std::size_t>(notice.tries++);
  if (code == task::kNoticeSent) {
    notice.state = store::NoticeState::kSent;
  } else if (code == task::kNoticeAgain && tries < kBackOff.size()) {
    notice.next = clock_.Now() + kBackOff[tries];
  } else {
    notice.state = store::NoticeState::kFailed;
  }
  if (notice.state != store::NoticeState::kSent) {
    base::LogWarn("notice_not_sent", {{"task", notice.task ? core::Number(*notice.task) : 0},
                                      {"event", notice.event},
                                      {"to", task::ShownTarget(notice.target)},
                                      {"try", notice.tries},
                                      {"why", notice.text}});
  }
  tries_[notice.id] = notice.tries;
  take_(std::move(notice));
}

}  // namespace carma::daemon
