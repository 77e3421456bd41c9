#include "daemon/engine/mps_clients.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace carma::daemon {
namespace {

using std::chrono::seconds;

constexpr MpsClients::Key kFirstKey{core::TaskId{1}, 1};
constexpr MpsClients::Key kSecondKey{core::TaskId{2}, 1};
constexpr MpsClients::Key kLate{core::TaskId{3}, 1};

TEST(MpsClients, AFaultAffectsOnlyEarlierClients) {
  const MpsClients::Time start{};
  const task::MpsServer server{.process = base::SelfProcess(),
                               .state = task::MpsServerState::kFault};
  MpsClients clients;
  for (const auto& who : {kFirstKey, kSecondKey}) {
    clients.Add(who, start);
    ASSERT_TRUE(clients.Seat(who, server.process, start));
  }
  EXPECT_EQ(clients.NoteServer(server, start + seconds(1)).size(), 1U);
  EXPECT_TRUE(clients.NoteServer(server, start + seconds(1)).empty()) << "it is already known";
  clients.Blame(kFirstKey, start + seconds(2));
  clients.Add(kLate, start + seconds(3));
  ASSERT_TRUE(clients.Seat(kLate, server.process, start + seconds(3)));
  EXPECT_TRUE(clients.EvidenceOf(kFirstKey, start + seconds(4)).broke);
  EXPECT_EQ(clients.EvidenceOf(kFirstKey, start + seconds(4)).blamed, std::nullopt);
  EXPECT_EQ(clients.EvidenceOf(kSecondKey, start + seconds(4)).blamed, kFirstKey.first);
  EXPECT_EQ(clients.EvidenceOf(kSecondKey, start + seconds(60)).blamed, std::nullopt);
  EXPECT_FALSE(clients.EvidenceOf(kLate, start + seconds(4)).broke);
}

TEST(MpsClients, AServerThatHasEndedIsNoticed) {
  MpsClients clients;
  clients.Add(kFirstKey, {});
  ASSERT_TRUE(clients.Find(kFirstKey, base::ProcessId{}));
  const auto broken = clients.NoteServer(std::nullopt, MpsClients::Time{} + seconds(1));
  ASSERT_EQ(broken.size(), 1U);
  EXPECT_EQ(broken.front().second, "it has ended");
  clients.Remove(kFirstKey);
  EXPECT_FALSE(clients.Seat(kFirstKey, base::SelfProcess(), {})) << "it has left";
  EXPECT_FALSE(clients.EvidenceOf(kFirstKey, {}).broke);
}

}  // namespace
}  // namespace carma::daemon
