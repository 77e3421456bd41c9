#include "daemon/engine/mps_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "base/try.h"
#include "daemon/engine/mps_client_check.h"
#include "daemon/loop/alarm.h"
#include "daemon/loop/background_worker.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using task::MpsControl;
using task::MpsServer;

constexpr int kMostDoublings = 5;
constexpr auto kCloseLimit = std::chrono::seconds(3);
// Extra time to kill processes that do not exit on their own.
constexpr auto kCloseSpare = std::chrono::seconds(2);
// Extra time for a response that is sent just before the limit.
constexpr auto kSpare = std::chrono::milliseconds(500);
constexpr const char* kNoAnswer = "the MPS control daemon does not respond";

std::string Full(std::size_t most) {
  return fmt::format("the MPS server already has {} clients", most);
}

using Key = MpsClients::Key;
using Looked = Result<std::optional<MpsServer>>;

// An MPS server and its clients.
struct Entry {
  Entry(const std::shared_ptr<asio::io_context>& loop, MpsControl made)
      : control(std::make_shared<const MpsControl>(std::move(made))),
        linger(*loop),
        probe(*loop),
        worker(loop, BackgroundWorker::AtEnd::kLeave) {}
  // Shared with the worker's jobs.
  std::shared_ptr<const MpsControl> control;
  std::shared_ptr<MpsPartitions> partitions = std::make_shared<MpsPartitions>();
  MpsClients clients;
  std::set<Key> divided;  // clients that may have a partition
  std::set<Key> adopted;  // clients of an earlier carmad whose server process is not yet known
  MpsClientCheck check;
  std::optional<base::ProcessId> server;  // as found last
  std::string told;                       // the last problem that was logged
  std::set<std::string> refusals;         // why a working server refused clients, as logged
  int failures = 0;
  Clock::time_point not_before{};
  bool probing = false;
  Alarm linger, probe;
  BackgroundWorker worker;
};

class RealMpsServers : public MpsServers {
 public:
  RealMpsServers(std::shared_ptr<asio::io_context> loop, MpsServersOptions options)
      : loop_(std::move(loop)),
        options_(std::move(options)),
        finder_(loop_, BackgroundWorker::AtEnd::kLeave) {}

  void Attach(const MpsClient& client, Attached answer) override;
  void Adopt(const MpsClient& client) override;
  void Detach(core::TaskId id, int attempt) override;
  void TerminateClients(core::TaskId id, int attempt, std::function<bool(pid_t)> its,
                        std::function<void()> done) override;
  void AskEvidence(core::TaskId id, int attempt, std::function<void(MpsEvidence)> answer) override;
  void Blame(core::TaskId id, int attempt) override;
  void Seen(core::TaskId id, int attempt, const std::vector<pid_t>& pids) override;
  std::vector<std::string> Troubles() const override;
  void EndOnClosedGpus() override;
  void TakeOver(const std::vector<std::string>& gpus) override;
  void Close() override;

 private:
  using ServerKey = std::pair<std::uint32_t, std::string>;  // the server's UID and name

  Entry& EntryOf(const task::MpsServerId& server);
  Entry* Find(const Key& client);
  // Runs the job on the server's worker, then calls `then` on the loop with the job's result.
  template <class T>
  void Do(Entry& entry, std::function<T(const MpsControl&)> job,
          std::function<void(Entry&, T)> then);
  void TakeLooked(Entry& entry, const Key& who, Result<MpsLook> looked, const Attached& answer);
  void Refused(Entry& entry, const Key& who, const base::Error& why, bool back_off,
               const Attached& answer);
  void Note(Entry& entry, const std::optional<MpsServer>& server);
  static void CheckClients(Entry& entry, const MpsClientCheck::Processes& before,
                           const std::vector<pid_t>& clients);
  void KeepLooking(Entry& entry);
  void Probe(Entry& entry);
  bool IsClosed(const Entry& entry) const;
  void EndUnused(Entry& entry);
  void EndSoon(Entry& entry);
  void EndNow(Entry& entry);
  static ServerKey KeyOf(const Entry& entry);

  std::shared_ptr<asio::io_context> loop_;
  MpsServersOptions options_;
  std::map<ServerKey, std::unique_ptr<Entry>> servers_;
  std::map<Key, ServerKey> clients_;
  BackgroundWorker finder_;  // for servers of an earlier daemon, and jobs without a server
};

RealMpsServers::ServerKey RealMpsServers::KeyOf(const Entry& entry) {
  return {entry.control->id().uid, task::MpsServerName(entry.control->id())};
}

template <class T>
void RealMpsServers::Do(Entry& entry, std::function<T(const MpsControl&)> job,
                        std::function<void(Entry&, T)> then) {
  // `entry` stays valid while the job runs, because a server with jobs is never removed.
  entry.worker.Ask([control = entry.control, job = std::move(job)] { return job(*control); },
                   [&entry, then = std::move(then)](T answer) { then(entry, std::move(answer)); });
}

Entry& RealMpsServers::EntryOf(const task::MpsServerId& server) {
  std::unique_ptr<Entry>& entry = servers_[{server.uid, task::MpsServerName(server)}];
  if (!entry) entry = std::make_unique<Entry>(loop_, MpsControl(options_.setup, server));
  return *entry;
}

Entry* RealMpsServers::Find(const Key& client) {
  const auto server = clients_.find(client);
  return server == clients_.end() ? nullptr : servers_.at(server->second).get();
}

// ---- attaching clients ----

void RealMpsServers::Attach(const MpsClient& client, Attached answer) {
  const Key who{client.id, client.attempt};
  Entry& entry = EntryOf(client.server);
  entry.linger.Stop();
  clients_[who] = {client.server.uid, task::MpsServerName(client.server)};
  entry.clients.Add(who, Clock::now());
  if (client.sm_share > 0) entry.divided.insert(who);
  const bool full = entry.clients.size() > options_.clients;
  const bool waits = Clock::now() < entry.not_before;
  if (full || waits) {
    // carmad counts the clients itself, because the server's list might not yet include clients
    // that were just attached.
    const std::string why = full ? Full(options_.clients) : entry.told;
    return finder_.Later([this, who, why, answer = std::move(answer)] {
      const base::Error error{ErrorCode::kUnavailable, why};
      Entry* its = Find(who);
      if (its == nullptr) return answer(std::unexpected(error));
      Refused(*its, who, error, false, answer);
    });
  }
  const auto first = entry.worker.Within(options_.timeout + kSpare, [this, who, answer] {
    Entry* its = Find(who);
    if (its == nullptr) return answer(Unavailable(kNoAnswer));
    Refused(*its, who, {ErrorCode::kUnavailable, kNoAnswer}, true, answer);
  });
  Do<Result<MpsLook>>(
      entry,
      [deadline = Clock::now() + options_.timeout, who, share = client.sm_share, gpus = client.gpus,
       readable = options_.readable(entry.control->id().gpus), alone = entry.clients.size() == 1,
       partitions = entry.partitions](const MpsControl& control) -> Result<MpsLook> {
        CARMA_TRY(control.MakeShow(gpus, readable, alone, deadline));
        return partitions->Join(control.Showing(readable), who, share, deadline);
      },
      [this, who, first, answer = std::move(answer)](Entry& its, Result<MpsLook> looked) {
        if (first()) TakeLooked(its, who, std::move(looked), answer);
      });
}

void RealMpsServers::TakeLooked(Entry& entry, const Key& who, Result<MpsLook> looked,
                                const Attached& answer) {
  if (!looked) {
    const bool back_off = looked.error().code != ErrorCode::kConflict;
    return Refused(entry, who, looked.error(), back_off, answer);
  }
  if (looked->clients >= options_.clients)
    return Refused(entry, who, {ErrorCode::kUnavailable, Full(options_.clients)}, false, answer);
  if (!entry.told.empty()) {
    base::LogInfo("mps_works_again",
                  {{"uid", entry.control->id().uid}, {"gpu", entry.control->id().gpus}});
  }
  entry.told.clear();
  entry.failures = 0;
  entry.not_before = {};
  Note(entry, looked->server);
  if (entry.clients.Seat(who, looked->server.process, Clock::now())) {
    base::LogInfo("mps_seat", {{"task", who.first},
                               {"attempt", who.second},
                               {"uid", entry.control->id().uid},
                               {"gpu", entry.control->id().gpus},
                               {"server", looked->server.process.pid},
                               {"sms", looked->place.sms}});
  } else if (entry.clients.empty()) {
    EndUnused(entry);  // the client has left in the meantime
  }
  KeepLooking(entry);
  answer(std::move(looked->place));
}

void RealMpsServers::Refused(Entry& entry, const Key& who, const base::Error& why, bool back_off,
                             const Attached& answer) {
  // A refusal by a working server, for example one that is full, is logged only once, because such
  // a server alternately takes and refuses clients.
  if (entry.told != why.message && (back_off || entry.refusals.insert(why.message).second)) {
    base::LogWarn("mps_refused", {{"uid", entry.control->id().uid},
                                  {"gpu", entry.control->id().gpus},
                                  {"why", why.message}});
  }
  if (back_off) {
    entry.told = why.message;
    entry.not_before =
        Clock::now() + options_.backoff * (1 << std::min(entry.failures, kMostDoublings));
    ++entry.failures;
  }
  Detach(who.first, who.second);
  answer(std::unexpected(why));
}

void RealMpsServers::Adopt(const MpsClient& client) {
  const Key who{client.id, client.attempt};
  Entry& entry = EntryOf(client.server);
  entry.linger.Stop();
  clients_[who] = {client.server.uid, task::MpsServerName(client.server)};
  entry.clients.Add(who, Clock::now());
  entry.adopted.insert(who);
  if (!client.partition.empty()) entry.divided.insert(who);
  Do<Looked>(
      entry,
      [limit = options_.timeout, who, partition = client.partition,
       partitions = entry.partitions](const MpsControl& control) {
        if (!partition.empty()) partitions->Adopt(who, partition);
        return control.Look(Clock::now() + limit);
      },
      [this](Entry& its, const Looked& looked) {
        if (looked) Note(its, *looked);
        if (!its.clients.empty()) KeepLooking(its);
      });
}

// ---- detaching clients and stopping servers ----

void RealMpsServers::Detach(core::TaskId id, int attempt) {
  const Key who{id, attempt};
  Entry* entry = Find(who);
  if (entry == nullptr) return;
  entry->clients.Remove(who);
  entry->check.Forget(who);
  clients_.erase(who);
  if (entry->divided.erase(who) > 0) {
    Do<bool>(
        *entry,
        [who, limit = options_.timeout, partitions = entry->partitions](const MpsControl& control) {
          partitions->TakeBack(control, who, Clock::now() + limit);
          return true;
        },
        [](Entry&, bool) {});
  }
  if (entry->clients.empty()) EndUnused(*entry);
}

bool RealMpsServers::IsClosed(const Entry& entry) const {
  const auto is_closed = [this](std::string_view gpu) {
    return options_.is_closed(std::string(gpu));
  };
  return std::ranges::any_of(base::Split(entry.control->id().gpus, ','), is_closed);
}

void RealMpsServers::EndUnused(Entry& entry) {
  EndSoon(entry);
  if (IsClosed(entry)) EndNow(entry);
}

void RealMpsServers::EndSoon(Entry& entry) {
  entry.probe.Stop();
  entry.probing = false;
  entry.linger.Set(options_.linger, [this, &entry] { EndNow(entry); });
}

void RealMpsServers::EndNow(Entry& entry) {
  if (!entry.clients.empty()) return;
  entry.linger.Stop();
  Do<bool>(
      entry,
      [limit = options_.timeout](const MpsControl& control) {
        const bool used = control.HasClients(Clock::now() + limit);
        if (!used) control.Quit(Clock::now() + limit);
        return !used;
      },
      [this](Entry& its, bool ended) {
        if (!ended && its.clients.empty() && its.worker.waiting() == 0) return EndSoon(its);
        // If a task has arrived in the meantime, attaching it restarts the server. During a
        // back-off, the entry is kept because it holds the time of the next start.
        if (!its.clients.empty() || its.worker.waiting() > 0) return;
        if (Clock::now() < its.not_before) return EndSoon(its);
        servers_.erase(KeyOf(its));
      });
}

void RealMpsServers::EndOnClosedGpus() {
  for (auto& [key, entry] : servers_) {
    if (IsClosed(*entry)) EndNow(*entry);
  }
}

void RealMpsServers::TakeOver(const std::vector<std::string>& gpus) {
  finder_.Ask([setup = options_.setup, gpus] { return task::FindMpsServers(setup, gpus); },
              [this](const std::vector<task::MpsServerId>& found) {
                for (const task::MpsServerId& server : found) {
                  Entry& entry = EntryOf(server);
                  if (entry.clients.empty()) EndUnused(entry);
                }
              });
}

// The servers exit in parallel on their workers, so a slow one delays neither the others nor
// carmad's exit.
void RealMpsServers::Close() {
  struct Left {
    std::mutex mutex;
    std::condition_variable less;
    int entries = 0;
  };
  const auto left = std::make_shared<Left>();  // shared with workers that hang
  const MpsControl::Deadline deadline = Clock::now() + kCloseLimit;
  std::vector<Entry*> closing;
  for (auto& [key, entry] : servers_) {
    if (entry->clients.empty()) closing.push_back(entry.get());
  }
  left->entries = static_cast<int>(closing.size());
  for (Entry* entry : closing) {
    entry->worker.Tell([left, deadline, control = entry->control] {
      control->Quit(deadline);
      const std::lock_guard lock(left->mutex);
      --left->entries;
      left->less.notify_all();
    });
  }
  std::unique_lock lock(left->mutex);
  const auto all = [&] { return left->entries == 0; };
  if (left->less.wait_until(lock, deadline + kCloseSpare, all)) return;
  for (Entry* entry : closing) entry->worker.Abandon();
}

void RealMpsServers::TerminateClients(core::TaskId id, int attempt, std::function<bool(pid_t)> its,
                                      std::function<void()> done) {
  Entry* entry = Find({id, attempt});
  if (entry == nullptr) return finder_.Later(std::move(done));
  const auto once = [first = entry->worker.Within(options_.terminate_limit, done), done] {
    if (first()) done();
  };
  const MpsControl::Deadline deadline = Clock::now() + options_.terminate_limit;
  Do<Looked>(
      *entry,
      [deadline, known = entry->server](const MpsControl& control) {
        return control.Look(deadline, known);
      },
      [this, its = std::move(its), once, deadline](Entry& there, Looked looked) {
        if (!looked || !*looked || !(*looked)->clients) return once();
        MpsServer server = **std::move(looked);
        std::erase_if(*server.clients, [&](pid_t pid) { return !its(pid); });
        if (server.clients->empty()) return once();
        Do<bool>(
            there,
            [server = std::move(server), deadline](const MpsControl& control) {
              for (const pid_t pid : *server.clients) {
                const Result<Unit> ended = control.TerminateClient(server, pid, deadline);
                if (!ended) base::LogWarn("mps_terminate_failed", {{"why", ended.error().message}});
              }
              return true;
            },
            [once](Entry&, bool) { once(); });
      });
}

// ---- evidence about servers ----

void RealMpsServers::Note(Entry& entry, const std::optional<MpsServer>& server) {
  entry.server = server ? std::optional(server->process) : std::nullopt;
  // A server that can no longer be found counts as broken.
  for (const Key& who : std::exchange(entry.adopted, {}))
    entry.clients.Find(who, entry.server.value_or(base::ProcessId{}));
  for (const auto& [process, how] : entry.clients.NoteServer(server, Clock::now())) {
    base::LogWarn("mps_server_broke", {{"uid", entry.control->id().uid},
                                       {"gpu", entry.control->id().gpus},
                                       {"server", process.pid},
                                       {"how", how}});
  }
}

void RealMpsServers::KeepLooking(Entry& entry) {
  if (std::exchange(entry.probing, true)) return;
  entry.probe.Set(options_.probe, [this, &entry] { Probe(entry); });
}

void RealMpsServers::Probe(Entry& entry) {
  entry.probing = false;
  if (entry.clients.empty()) return;
  Do<Looked>(
      entry,
      [limit = options_.timeout, partitions = entry.partitions,
       known = entry.server](const MpsControl& control) {
        const MpsControl::Deadline deadline = Clock::now() + limit;
        partitions->Tidy(control, deadline);
        return control.Look(deadline, known);
      },
      [this, before = entry.check.seen()](Entry& its, const Looked& looked) {
        if (looked) {
          Note(its, *looked);
          if (*looked && (*looked)->clients) CheckClients(its, before, *(*looked)->clients);
        } else if (its.told != looked.error().message) {
          its.told = looked.error().message;
          base::LogWarn(
              "mps_silent",
              {{"uid", its.control->id().uid}, {"gpu", its.control->id().gpus}, {"why", its.told}});
        }
        if (!its.clients.empty()) KeepLooking(its);
      });
}

void RealMpsServers::AskEvidence(core::TaskId id, int attempt,
                                 std::function<void(MpsEvidence)> answer) {
  const Key who{id, attempt};
  Entry* entry = Find(who);
  if (entry == nullptr) return finder_.Later([answer = std::move(answer)] { answer({}); });
  // If the server does not respond in time, the result is based on the evidence collected so far.
  const auto first = entry->worker.Within(options_.terminate_limit + kSpare, [this, who, answer] {
    const Entry* its = Find(who);
    answer(its == nullptr ? MpsEvidence{} : its->clients.EvidenceOf(who, Clock::now()));
  });
  Do<Looked>(
      *entry,
      [deadline = Clock::now() + options_.terminate_limit,
       known = entry->server](const MpsControl& control) { return control.Look(deadline, known); },
      [this, who, first, answer = std::move(answer)](Entry& its, const Looked& looked) {
        if (looked) Note(its, *looked);
        if (first()) answer(its.clients.EvidenceOf(who, Clock::now()));
      });
}

void RealMpsServers::Blame(core::TaskId id, int attempt) {
  const Key who{id, attempt};
  Entry* entry = Find(who);
  if (entry == nullptr) return;
  entry->clients.Blame(who, Clock::now());
}

// ---- reporting ----

void RealMpsServers::Seen(core::TaskId id, int attempt, const std::vector<pid_t>& pids) {
  const Key who{id, attempt};
  if (Entry* entry = Find(who)) entry->check.Seen(who, pids);
}

void RealMpsServers::CheckClients(Entry& entry, const MpsClientCheck::Processes& before,
                                  const std::vector<pid_t>& clients) {
  for (const auto& [who, pids] : entry.check.Compare(before, clients)) {
    for (const pid_t pid : pids) {
      base::LogWarn("mps_bypassed",
                    {{"task", who.first}, {"pid", pid}, {"gpu", entry.control->id().gpus}});
    }
  }
}

std::vector<std::string> RealMpsServers::Troubles() const {
  std::vector<std::string> troubles;
  for (const auto& [key, entry] : servers_) {
    if (entry->failures > 0) {
      const std::string whose =
          entry->control->id().shared ? "all users" : fmt::format("user {}", key.first);
      troubles.push_back(fmt::format("MPS: no server for {}, so tasks take turns instead: {}",
                                     whose, entry->told));
    }
    for (const auto& [who, pids] : entry->check.outside()) {
      troubles.push_back(fmt::format(
          "MPS: process {} of task {} does not use the task's MPS server, so no limits apply to it",
          *pids.begin(), who.first));
    }
  }
  return troubles;
}

}  // namespace

std::unique_ptr<MpsServers> OpenMpsServers(std::shared_ptr<asio::io_context> loop,
                                           MpsServersOptions options) {
  return std::make_unique<RealMpsServers>(std::move(loop), std::move(options));
}

}  // namespace carma::daemon
