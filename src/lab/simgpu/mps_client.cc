#include "lab/simgpu/mps_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <thread>

namespace carma::simgpu {
namespace {

using namespace std::chrono_literals;

// How long a program that caused a fault outlives its neighbours, as measured on an H100 (driver
// 580).
constexpr auto kUnloading = 300ms;

}  // namespace

std::unique_ptr<MpsClient> MpsClient::Join(const std::string& pipes, const std::string& partition,
                                           MpsError& refused) {
  refused = MpsError::kNone;
  auto control = ConnectTo(MpsFolders{pipes, ""}.Control());
  if (!control || !control->Send("client " + partition)) return nullptr;
  const auto refuse = [&refused](const Result<std::string>& reply) {
    refused = ParseMpsError(reply.value_or(""));
    return nullptr;
  };
  const Result<std::string> place = control->Receive(kForEver);
  if (!place || !place->starts_with(kMpsServer)) return refuse(place);
  Result<MpsWelcome> welcome = ParseMpsWelcome(control->Receive(kForEver).value_or(""));
  auto server = ConnectTo(place->substr(kMpsServer.size()));
  if (!welcome || !server || !server->Send("join " + partition)) return refuse("");
  const Result<std::string> joined = server->Receive(kForEver);
  if (joined.value_or("") != kMpsJoined) return refuse(joined);
  return std::unique_ptr<MpsClient>(new MpsClient(std::move(*server), std::move(*welcome)));
}

void MpsClient::RaiseOnNews(int signal) const {
  ::fcntl(socket_.fd(), F_SETOWN, ::getpid());
  ::fcntl(socket_.fd(), F_SETSIG, signal);
  ::fcntl(socket_.fd(), F_SETFL, O_ASYNC);
}

MpsError MpsClient::Trouble() {
  while (trouble_ == MpsError::kNone) {
    const Result<std::string> line = socket_.Receive(0ms);
    if (line) {
      trouble_ = ParseMpsError(*line);
    } else if (line.error().code == ErrorCode::kUnavailable) {
      break;
    } else {
      trouble_ = MpsError::kRpcFailure;  // the server is gone
    }
  }
  return trouble_;
}

void MpsClient::AnnounceFault() const {
  socket_.Send("fault");
  std::this_thread::sleep_for(kUnloading);
}

}  // namespace carma::simgpu
