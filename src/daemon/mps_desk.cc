#include "daemon/mps_desk.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "daemon/alarm.h"
#include "daemon/background_worker.h"

namespace carma::daemon {
namespace {

namespace asio = boost::asio;
using base::ErrorCode;
using base::Fail;
using base::Result;
using base::Unit;
using Clock = std::chrono::steady_clock;
using task::MpsControl;
using task::MpsServer;
using task::MpsServerState;

constexpr int kMostDoublings = 5;
// Clients of one fault are told within moments of each other.
constexpr auto kBlameSpan = std::chrono::seconds(30);
constexpr auto kCloseLimit = std::chrono::seconds(3);
constexpr auto kCloseSpare = std::chrono::seconds(2);  // to end what did not end by itself
// What an answer that came at the last moment still takes to arrive.
constexpr auto kSpare = std::chrono::milliseconds(500);
constexpr const char* kNoAnswer = "the MPS control daemon does not answer";

using Key = std::pair<core::TaskId, int>;

struct Client {
  std::optional<base::ProcessId> server;  // empty: not known (yet)
  Clock::time_point since;
};

struct Blamed {
  Key who;
  std::optional<base::ProcessId> server;
  Clock::time_point when;
};

// A server that was seen dead or in a faulted state. Those who came later have nothing to do with
// it.
struct Broken {
  base::ProcessId server;
  Clock::time_point when;
};

struct Looked {
  std::optional<MpsServer> server;
  std::size_t clients = 0;
};

// One seat with its tasks.
struct Bench {
  Bench(const std::shared_ptr<asio::io_context>& loop, MpsControl made)
      : control(std::make_shared<const MpsControl>(std::move(made))),
        linger(*loop),
        probe(*loop),
        worker(loop, BackgroundWorker::AtEnd::kLeave) {}
  std::shared_ptr<const MpsControl> control;  // shared with jobs of the worker
  std::map<Key, Client> clients;
  std::optional<Blamed> blamed;
  std::vector<Broken> broken;
  std::string told;  // trouble that the log has already been told of
  int failures = 0;
  Clock::time_point not_before{};
  bool probing = false;
  Alarm linger, probe;
  BackgroundWorker worker;
};

class RealMpsDesk : public MpsDesk {
 public:
  RealMpsDesk(std::shared_ptr<asio::io_context> loop, MpsDeskOptions options)
      : loop_(std::move(loop)),
        options_(std::move(options)),
        finder_(loop_, BackgroundWorker::AtEnd::kLeave) {}

  void Seat(const MpsClient& client, Seated answer) override;
  void Adopt(const MpsClient& client) override;
  void Leave(core::TaskId id, int attempt) override;
  void TakeOff(core::TaskId id, int attempt, std::function<bool(pid_t)> its,
               std::function<void()> done) override;
  void AskFate(core::TaskId id, int attempt, std::function<void(MpsFate)> answer) override;
  void Blame(core::TaskId id, int attempt) override;
  void Drain(const std::string& gpu_uuid) override;
  void TakeOver(const std::vector<std::string>& gpus) override;
  void Close() override;

 private:
  using BenchKey = std::pair<std::uint32_t, std::string>;

  Bench& BenchOf(const task::MpsSeat& seat);
  Bench* Find(const Key& client);
  // The job runs on the bench's worker, `then` with its answer on the loop.
  template <class T>
  void Do(Bench& bench, std::function<T(const MpsControl&)> job,
          std::function<void(Bench&, T)> then);
  void TakeLooked(Bench& bench, const Key& who, Result<Looked> looked, const Seated& answer);
  void Refused(Bench& bench, const Key& who, const base::Error& why, bool back_off,
               const Seated& answer);
  void Note(Bench& bench, const std::optional<MpsServer>& server);
  void Broke(Bench& bench, const base::ProcessId& server, std::string_view how);
  static MpsFate FateOf(const Bench& bench, const Key& who);
  void KeepLooking(Bench& bench);
  void Probe(Bench& bench);
  void EndSoon(Bench& bench);
  void EndNow(Bench& bench);
  static BenchKey KeyOf(const Bench& bench);

  std::shared_ptr<asio::io_context> loop_;
  MpsDeskOptions options_;
  std::map<BenchKey, std::unique_ptr<Bench>> benches_;
  std::map<Key, BenchKey> seats_;
  BackgroundWorker finder_;  // of what an earlier daemon left, and what concerns no bench
};

RealMpsDesk::BenchKey RealMpsDesk::KeyOf(const Bench& bench) {
  return {bench.control->seat().uid, bench.control->seat().gpus};
}

template <class T>
void RealMpsDesk::Do(Bench& bench, std::function<T(const MpsControl&)> job,
                     std::function<void(Bench&, T)> then) {
  // A bench is not removed while it has jobs.
  bench.worker.Ask([control = bench.control, job = std::move(job)] { return job(*control); },
                   [&bench, then = std::move(then)](T answer) { then(bench, std::move(answer)); });
}

Bench& RealMpsDesk::BenchOf(const task::MpsSeat& seat) {
  std::unique_ptr<Bench>& bench = benches_[{seat.uid, seat.gpus}];
  if (!bench) bench = std::make_unique<Bench>(loop_, MpsControl(options_.setup, seat));
  return *bench;
}

Bench* RealMpsDesk::Find(const Key& client) {
  const auto seat = seats_.find(client);
  return seat == seats_.end() ? nullptr : benches_.at(seat->second).get();
}

// ---- in ----

void RealMpsDesk::Seat(const MpsClient& client, Seated answer) {
  const Key who{client.id, client.attempt};
  Bench& bench = BenchOf(client.seat);
  bench.linger.Stop();
  seats_[who] = {client.seat.uid, client.seat.gpus};
  bench.clients[who] = {std::nullopt, Clock::now()};
  const bool full = bench.clients.size() > options_.clients;
  const bool waits = Clock::now() < bench.not_before;
  if (full || waits) {
    // Those that were seated a moment ago may not be on the server's own list yet.
    const std::string why =
        full ? "the MPS server has " + std::to_string(options_.clients) + " clients already"
             : bench.told;
    return finder_.Later([this, who, why, answer = std::move(answer)] {
      const base::Error error{ErrorCode::kUnavailable, why};
      Bench* its = Find(who);
      if (its == nullptr) return answer(std::unexpected(error));
      Refused(*its, who, error, false, answer);
    });
  }
  const auto first = bench.worker.Within(options_.timeout + kSpare, [this, who, answer] {
    Bench* its = Find(who);
    if (its == nullptr) return answer(Fail(ErrorCode::kUnavailable, kNoAnswer));
    Refused(*its, who, {ErrorCode::kUnavailable, kNoAnswer}, true, answer);
  });
  Do<Result<Looked>>(
      bench,
      [deadline = Clock::now() + options_.timeout](const MpsControl& control) -> Result<Looked> {
        const Result<MpsServer> server = control.Ready(deadline);
        if (!server) return std::unexpected(server.error());
        const Result<std::vector<pid_t>> clients = control.Clients(*server, deadline);
        if (!clients) return std::unexpected(clients.error());
        return Looked{*server, clients->size()};
      },
      [this, who, first, answer = std::move(answer)](Bench& its, Result<Looked> looked) {
        if (first()) TakeLooked(its, who, std::move(looked), answer);
      });
}

void RealMpsDesk::TakeLooked(Bench& bench, const Key& who, Result<Looked> looked,
                             const Seated& answer) {
  if (!looked) return Refused(bench, who, looked.error(), true, answer);
  if (looked->clients >= options_.clients) {
    return Refused(bench, who,
                   {ErrorCode::kUnavailable,
                    "the MPS server has " + std::to_string(looked->clients) + " clients already"},
                   false, answer);
  }
  if (!bench.told.empty()) {
    base::LogInfo("mps_works_again",
                  {{"uid", bench.control->seat().uid}, {"gpu", bench.control->seat().gpus}});
  }
  bench.told.clear();
  bench.failures = 0;
  bench.not_before = {};
  Note(bench, looked->server);
  if (const auto client = bench.clients.find(who); client != bench.clients.end()) {
    client->second = {looked->server->process, Clock::now()};
    base::LogInfo("mps_seat", {{"task", who.first},
                               {"attempt", who.second},
                               {"uid", bench.control->seat().uid},
                               {"gpu", bench.control->seat().gpus},
                               {"server", looked->server->process.pid}});
  } else if (bench.clients.empty()) {
    EndSoon(bench);  // it left meanwhile
  }
  KeepLooking(bench);
  answer(Unit{});
}

void RealMpsDesk::Refused(Bench& bench, const Key& who, const base::Error& why, bool back_off,
                          const Seated& answer) {
  if (bench.told != why.message) {
    base::LogWarn("mps_refused", {{"uid", bench.control->seat().uid},
                                  {"gpu", bench.control->seat().gpus},
                                  {"why", why.message}});
    bench.told = why.message;
  }
  if (back_off) {
    bench.not_before =
        Clock::now() + options_.backoff * (1 << std::min(bench.failures, kMostDoublings));
    ++bench.failures;
  }
  Leave(who.first, who.second);
  answer(std::unexpected(why));
}

void RealMpsDesk::Adopt(const MpsClient& client) {
  const Key who{client.id, client.attempt};
  Bench& bench = BenchOf(client.seat);
  bench.linger.Stop();
  seats_[who] = {client.seat.uid, client.seat.gpus};
  bench.clients[who] = {std::nullopt, Clock::now()};
  using Look = Result<std::optional<MpsServer>>;
  Do<Look>(
      bench,
      [limit = options_.timeout](const MpsControl& control) {
        return control.Look(Clock::now() + limit);
      },
      [this, who](Bench& its, Look looked) {
        const auto adopted = its.clients.find(who);
        if (adopted == its.clients.end() || !looked) return;
        // A server that nobody finds any more is one of its own that has broken.
        adopted->second.server = *looked ? (*looked)->process : base::ProcessId{};
        Note(its, *looked);
        KeepLooking(its);
      });
}

// ---- out ----

void RealMpsDesk::Leave(core::TaskId id, int attempt) {
  const Key who{id, attempt};
  Bench* bench = Find(who);
  if (bench == nullptr) return;
  bench->clients.erase(who);
  seats_.erase(who);
  if (bench->clients.empty()) EndSoon(*bench);
}

void RealMpsDesk::EndSoon(Bench& bench) {
  bench.probe.Stop();
  bench.probing = false;
  bench.linger.Set(options_.linger, [this, &bench] { EndNow(bench); });
}

// Tasks of before collocation.mps_servers was changed, or what a task has left behind.
bool HasClients(const MpsControl& control, Clock::time_point deadline) {
  const Result<std::optional<MpsServer>> server = control.Look(deadline);
  if (!server || !*server) return false;
  const Result<std::vector<pid_t>> clients = control.Clients(**server, deadline);
  return clients && !clients->empty();
}

void RealMpsDesk::EndNow(Bench& bench) {
  if (!bench.clients.empty()) return;
  bench.linger.Stop();
  Do<bool>(
      bench,
      [limit = options_.timeout](const MpsControl& control) {
        const bool used = HasClients(control, Clock::now() + limit);
        if (!used) control.Quit(Clock::now() + limit);
        return !used;
      },
      [this](Bench& its, bool ended) {
        if (!ended && its.clients.empty() && its.worker.waiting() == 0) return EndSoon(its);
        // A task that came meanwhile has a job behind this one, which starts the server anew. A
        // back-off is kept in mind.
        if (!its.clients.empty() || its.worker.waiting() > 0) return;
        if (Clock::now() < its.not_before) return EndSoon(its);
        benches_.erase(KeyOf(its));
      });
}

void RealMpsDesk::Drain(const std::string& gpu_uuid) {
  for (auto& [key, bench] : benches_) {
    if (key.second == gpu_uuid) EndNow(*bench);
  }
}

void RealMpsDesk::TakeOver(const std::vector<std::string>& gpus) {
  finder_.Ask([setup = options_.setup, gpus] { return task::FindMpsSeats(setup, gpus); },
              [this](const std::vector<task::MpsSeat>& seats) {
                for (const task::MpsSeat& seat : seats) {
                  Bench& bench = BenchOf(seat);
                  if (bench.clients.empty()) EndSoon(bench);
                }
              });
}

// All at once, on their workers: no seat may hold up the others, nor the end of the daemon.
void RealMpsDesk::Close() {
  struct Left {
    std::mutex mutex;
    std::condition_variable less;
    int benches = 0;
  };
  const auto left = std::make_shared<Left>();  // shared with workers that hang
  const MpsControl::Deadline deadline = Clock::now() + kCloseLimit;
  std::vector<Bench*> closing;
  for (auto& [key, bench] : benches_) {
    if (bench->clients.empty()) closing.push_back(bench.get());
  }
  left->benches = static_cast<int>(closing.size());
  for (Bench* bench : closing) {
    bench->worker.Tell([left, deadline, control = bench->control] {
      control->Quit(deadline);
      const std::lock_guard lock(left->mutex);
      --left->benches;
      left->less.notify_all();
    });
  }
  std::unique_lock lock(left->mutex);
  const auto all = [&] { return left->benches == 0; };
  if (left->less.wait_until(lock, deadline + kCloseSpare, all)) return;
  for (Bench* bench : closing) bench->worker.Abandon();
}

void RealMpsDesk::TakeOff(core::TaskId id, int attempt, std::function<bool(pid_t)> its,
                          std::function<void()> done) {
  Bench* bench = Find({id, attempt});
  if (bench == nullptr) return finder_.Later(std::move(done));
  const auto once = [first = bench->worker.Within(options_.terminate_limit, done), done] {
    if (first()) done();
  };
  const MpsControl::Deadline deadline = Clock::now() + options_.terminate_limit;
  struct Found {
    MpsServer server;
    std::vector<pid_t> clients;
  };
  using Answer = std::optional<Found>;
  Do<Answer>(
      *bench,
      [deadline](const MpsControl& control) -> Answer {
        const auto server = control.Look(deadline);
        if (!server || !*server) return std::nullopt;
        auto clients = control.Clients(**server, deadline);
        if (!clients) return std::nullopt;
        return Found{**server, std::move(*clients)};
      },
      [this, its = std::move(its), once, deadline](Bench& there, Answer found) {
        if (found) std::erase_if(found->clients, [&](pid_t pid) { return !its(pid); });
        if (!found || found->clients.empty()) return once();
        Do<bool>(
            there,
            [found = *std::move(found), deadline](const MpsControl& control) {
              for (const pid_t pid : found.clients) {
                const Result<Unit> ended = control.TerminateClient(found.server, pid, deadline);
                if (!ended) base::LogWarn("mps_terminate_failed", {{"why", ended.error().message}});
              }
              return true;
            },
            [once](Bench&, bool) { once(); });
      });
}

// ---- what became of them ----

void RealMpsDesk::Broke(Bench& bench, const base::ProcessId& server, std::string_view how) {
  const auto known = std::find_if(bench.broken.begin(), bench.broken.end(),
                                  [&](const Broken& each) { return each.server == server; });
  if (known != bench.broken.end()) {
    known->when = Clock::now();
    return;
  }
  bench.broken.push_back({server, Clock::now()});
  base::LogWarn("mps_server_broke", {{"uid", bench.control->seat().uid},
                                     {"gpu", bench.control->seat().gpus},
                                     {"server", server.pid},
                                     {"how", how}});
}

// Servers that clients of ours were seated at and that are no longer what they were.
void RealMpsDesk::Note(Bench& bench, const std::optional<MpsServer>& server) {
  const auto known = [&bench](const base::ProcessId& id) {
    return std::any_of(bench.broken.begin(), bench.broken.end(),
                       [&](const Broken& each) { return each.server == id; });
  };
  const bool faulted = server && server->state == MpsServerState::kFault;
  if (faulted) Broke(bench, server->process, "a client's fault");
  for (const auto& [who, client] : bench.clients) {
    // One that its control daemon has left behind still computes.
    const bool ended = client.server && !base::Alive(*client.server);
    if (ended && !known(*client.server)) Broke(bench, *client.server, "it has ended");
  }
  std::erase_if(bench.broken, [&](const Broken& each) {
    const bool still = faulted && server->process == each.server;
    return !still && std::none_of(bench.clients.begin(), bench.clients.end(), [&](const auto& its) {
      return its.second.server == each.server && its.second.since < each.when;
    });
  });
}

void RealMpsDesk::KeepLooking(Bench& bench) {
  if (std::exchange(bench.probing, true)) return;
  bench.probe.Set(options_.probe, [this, &bench] { Probe(bench); });
}

void RealMpsDesk::Probe(Bench& bench) {
  bench.probing = false;
  if (bench.clients.empty()) return;
  using Look = Result<std::optional<MpsServer>>;
  Do<Look>(
      bench,
      [limit = options_.timeout](const MpsControl& control) {
        return control.Look(Clock::now() + limit);
      },
      [this](Bench& its, Look looked) {
        if (looked) {
          Note(its, *looked);
        } else if (its.told != looked.error().message) {
          its.told = looked.error().message;
          base::LogWarn("mps_silent", {{"uid", its.control->seat().uid},
                                       {"gpu", its.control->seat().gpus},
                                       {"why", its.told}});
        }
        if (!its.clients.empty()) KeepLooking(its);
      });
}

MpsFate RealMpsDesk::FateOf(const Bench& bench, const Key& who) {
  MpsFate fate;
  const auto client = bench.clients.find(who);
  if (client == bench.clients.end()) return fate;
  const std::optional<base::ProcessId>& server = client->second.server;
  fate.broke =
      server && std::any_of(bench.broken.begin(), bench.broken.end(), [&](const Broken& each) {
        return each.server == *server && client->second.since < each.when;
      });
  const std::optional<Blamed>& blamed = bench.blamed;
  // Only who was there at the time of the fault can have been hit by it.
  if (blamed && blamed->who != who && blamed->server == server &&
      client->second.since < blamed->when && Clock::now() - blamed->when < kBlameSpan)
    fate.blamed = blamed->who.first;
  return fate;
}

void RealMpsDesk::AskFate(core::TaskId id, int attempt, std::function<void(MpsFate)> answer) {
  const Key who{id, attempt};
  Bench* bench = Find(who);
  if (bench == nullptr) return finder_.Later([answer = std::move(answer)] { answer({}); });
  // Without a new look: what is known.
  const auto first = bench->worker.Within(options_.terminate_limit + kSpare, [this, who, answer] {
    const Bench* its = Find(who);
    answer(its == nullptr ? MpsFate{} : FateOf(*its, who));
  });
  using Look = Result<std::optional<MpsServer>>;
  Do<Look>(
      *bench,
      [deadline = Clock::now() + options_.terminate_limit](const MpsControl& control) {
        return control.Look(deadline);
      },
      [this, who, first, answer = std::move(answer)](Bench& its, Look looked) {
        if (looked) Note(its, *looked);
        if (first()) answer(FateOf(its, who));
      });
}

void RealMpsDesk::Blame(core::TaskId id, int attempt) {
  const Key who{id, attempt};
  Bench* bench = Find(who);
  if (bench == nullptr) return;
  bench->blamed = Blamed{who, bench->clients.at(who).server, Clock::now()};
}

}  // namespace

std::unique_ptr<MpsDesk> OpenMpsDesk(std::shared_ptr<asio::io_context> loop,
                                     MpsDeskOptions options) {
  return std::make_unique<RealMpsDesk>(std::move(loop), std::move(options));
}

}  // namespace carma::daemon
