#include "task/notify/send.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "task/describe/notify.h"
#include "task/notify/forms.h"
#include "task/process/bounded_run.h"
#include "task/process/process_tree.h"
#include "task/process/user.h"

namespace carma::task {
namespace {

constexpr std::size_t kMaxOrderBytes = 1 << 20;
constexpr std::size_t kMaxSaid = 300;
constexpr std::uint32_t kNobody = 65'534;
constexpr const char* kPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

SendResult Failed(std::string text) {
  return {kNoticeFailed, base::Printable(text, kMaxSaid)};
}
SendResult Again(std::string text) {
  return {kNoticeAgain, base::Printable(text, kMaxSaid)};
}

std::string LastLine(std::string_view text) {
  text = base::Trim(text);
  return std::string(text.substr(text.rfind('\n') + 1));
}

UserInfo OwnUser() {
  const Result<UserInfo> user = LookUpUser(::getuid(), ::getgid());
  return user ? *user : UserInfo{.uid = ::getuid(), .gid = ::getgid()};
}

std::vector<std::string> EnvironmentFor(const NoticeOrder& order, const UserInfo& user) {
  std::vector<std::string> block{fmt::format("PATH={}", kPath), "HOME=" + user.home,
                                 "CARMA_EVENT=" + order.event, "CARMA_NOTICE=" + order.key};
  if (!user.name.empty()) block.push_back("USER=" + user.name);
  for (const auto& [name, value] : order.environment) block.push_back(name + "=" + value);
  return block;
}

RunRequest RequestFor(const NoticeOrder& order, const UserInfo& user) {
  return {.environment = EnvironmentFor(order, user),
          .limit = std::chrono::duration_cast<std::chrono::milliseconds>(order.limit)};
}

// Describes how the program failed; empty if it succeeded.
std::string TroubleOf(const RunResult& ran, const NoticeOrder& order) {
  if (ran.late) return fmt::format("took more than {}", base::FormatSpan(order.limit));
  if (ran.flood) return "wrote more than 64 MiB";
  const std::string said = LastLine(ran.errors);
  const std::string tail = said.empty() ? "" : ": " + said;
  if (ran.signal != 0) return fmt::format("killed by signal {}{}", ran.signal, tail);
  if (ran.exit_code != 0) return fmt::format("exit status {}{}", ran.exit_code, tail);
  return "";
}

// Returns the end of the output file, read with the privileges of the task's user, or "" if it
// cannot be read.
std::string EndOfOutput(const NoticeOrder& order) {
  constexpr off_t kBytes = 8192;
  const std::string path = OutputNamed(order);
  // Rejects pipes, because reading from one could block until there is a writer.
  const base::UniqueFd fd(path.empty() ? -1
                                       : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) return "";
  std::string text(static_cast<std::size_t>(std::min<off_t>(kBytes, st.st_size)), '\0');
  const ssize_t count =
      ::pread(fd.get(), text.data(), text.size(), std::max<off_t>(0, st.st_size - kBytes));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  return text;
}

SendResult SendMail(const NoticeOrder& order, const NotifyTarget& target, const UserInfo& user) {
  const std::string& address = target.address.empty() ? user.name : target.address;
  if (address.empty())
    return Failed(fmt::format("cannot send mail to UID {}: it has no user name", user.uid));
  RunRequest run = RequestFor(order, user);
  // With -i, a line with a single dot does not end the message. The address never begins with a
  // dash.
  run.words = {order.sendmail, "-i", "--", address};
  run.input =
      MailOf(order, address, base::ShortHostName(), base::SystemClock().Now(), EndOfOutput(order));
  const Result<RunResult> ran = RunBounded(run);
  if (!ran) return Failed("cannot run the mail program: " + ran.error().message);
  const std::string trouble = TroubleOf(*ran, order);
  return trouble.empty() ? SendResult{} : Again(order.sendmail + " " + trouble);
}

// The URL contains secrets, so it must not appear on a command line, where all users could read it.
std::string CurlConfig(const WebhookRequest& request, const NoticeOrder& order) {
  std::string text = fmt::format(
      "url = \"{}\"\nrequest = {}\nproto = \"=http,https\"\nmax-time = {}\nmax-redirs = 0\n"
      "max-filesize = 1048576\nsilent\nshow-error\ngloboff\noutput = \"/dev/null\"\n"
      "write-out = \"%{{http_code}}\"\nuser-agent = \"carma\"\ndata-binary = \"@-\"\n",
      request.url, request.method, std::max<std::int64_t>(1, order.limit.count() / 1000));
  for (const std::string& header : request.headers)
    text += fmt::format("header = \"{}\"\n", header);
  return text;
}

SendResult SendWebhook(const NoticeOrder& order, const NotifyTarget& target, const UserInfo& user) {
  const WebhookRequest request = RequestOf(order, target);
  RunRequest run = RequestFor(order, user);
  run.words = {"curl", "-q", "--config", "/dev/fd/3"};
  run.input = request.body;
  run.more_input = CurlConfig(request, order);
  // Curl's own time limit expires first, because its error message is clearer.
  run.limit += std::chrono::seconds(5);
  const Result<RunResult> ran = RunBounded(run);
  if (!ran && ran.error().code == ErrorCode::kNotFound)
    return Failed("curl, which sends webhooks, is not installed");
  if (!ran) return Again(ran.error().message);
  if (const std::string trouble = TroubleOf(*ran, order); !trouble.empty())
    return Again("curl " + trouble);
  const std::int64_t status = base::ParseInt(base::Trim(ran->output)).value_or(0);
  if (status >= 200 && status < 300) return {};
  const std::string text = fmt::format("{} answered {}", ShownTarget(order.target), status);
  const bool later = status >= 500 || status == 408 || status == 425 || status == 429;
  return later ? Again(text) : Failed(text);
}

SendResult SendToProgram(const NoticeOrder& order, const NotifyTarget& target,
                         const UserInfo& user) {
  RunRequest run = RequestFor(order, user);
  run.words = {target.address};
  run.input = order.message + "\n";
  const Result<RunResult> ran = RunBounded(run);
  if (!ran) return Failed(ran.error().message);
  const std::string trouble = TroubleOf(*ran, order);
  if (trouble.empty()) return {};
  return ran->exit_code == kNoticeAgain || ran->late ? Again(target.address + " " + trouble)
                                                     : Failed(target.address + " " + trouble);
}

// Permanently drops this process's own privileges. Returns kConflict if the UID now belongs to a
// different person, kUnavailable if the user no longer exists, or a system error.
Result<Unit> TakeRights(const NoticeOrder& order, const NotifyTarget& target) {
  if (!CanSwitchUser()) return Unit{};
  const bool nobody = order.uid == 0 && target.kind == NotifyKind::kWebhook;
  if (order.uid == 0 && !nobody) return Unit{};
  const UserInfo user =
      CARMA_TRY(LookUpUser(nobody ? kNobody : order.uid, nobody ? kNobody : order.gid));
  const std::string why = nobody ? "" : WhyNotTheSubmitter(order.uid, order.user, user.name);
  if (!why.empty()) return user.name.empty() ? Unavailable("{}", why) : Conflict("{}", why);
  return BecomeUser(user);
}

// Applies the limits that tasks have. Mail programs are exempt, because they deliver with the
// privileges of their own group and continue in the background.
Result<Unit> TakeLimits(const NoticeOrder& order, const NotifyTarget& target) {
  if (target.kind == NotifyKind::kMail) return Unit{};
  LimitProcesses(order.max_processes);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // every process that leaves its group becomes our child
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return FailErrno(errno, "no_new_privs");
  return Unit{};
}

// Kills all processes that a finished program has left behind.
void EndWhatIsLeft() {
  constexpr int kRounds = 100;
  constexpr int kPauseMs = 10;
  for (int round = 0; round < kRounds; ++round) {
    for (const base::ProcessStat& left : Descendants(::getpid())) Tell(left.id, {SIGKILL});
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (Descendants(::getpid()).empty()) return;
    ::poll(nullptr, 0, kPauseMs);
  }
}

int Say(const SendResult& result) {
  if (!result.text.empty()) std::printf("%s\n", result.text.c_str());
  return result.code;
}

}  // namespace

SendResult Send(const NoticeOrder& order) {
  const Result<NotifyTarget> target = ParseNotifyTarget(order.target);
  if (!target) return Failed(target.error().message);
  const UserInfo user = OwnUser();
  switch (target->kind) {
    case NotifyKind::kMail:
      return SendMail(order, *target, user);
    case NotifyKind::kWebhook:
      return SendWebhook(order, *target, user);
    case NotifyKind::kProgram:
      break;
  }
  return SendToProgram(order, *target, user);
}

int RunNotify() {
  const Result<std::string> text = base::ReadAll(STDIN_FILENO, kMaxOrderBytes);
  if (!text) return Say(Failed(text.error().message));
  const Result<NoticeOrder> order = ParseNoticeOrder(*text);
  if (!order) return Say(Failed(order.error().message));
  const Result<NotifyTarget> target = ParseNotifyTarget(order->target);
  if (!target) return Say(Failed(target.error().message));
  GiveUpMemoryProtection();
  if (const Result<Unit> taken = TakeRights(*order, *target); !taken) {
    const bool again = taken.error().code != ErrorCode::kConflict;
    return Say(again ? Again(taken.error().message) : Failed(taken.error().message));
  }
  if (const Result<Unit> limited = TakeLimits(*order, *target); !limited)
    return Say(Again(limited.error().message));
  const SendResult result = Send(*order);
  if (target->kind != NotifyKind::kMail) EndWhatIsLeft();
  return Say(result);
}

}  // namespace carma::task
