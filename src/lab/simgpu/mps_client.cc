#include "lab/simgpu/mps_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "base/text.h"

namespace carma::simgpu {
namespace {

using namespace std::chrono_literals;

constexpr auto kForEver = std::chrono::hours(24 * 365);

// How long a program that caused a fault outlives its neighbours, as measured on an H100 (driver
// 580).
constexpr auto kUnloading = 300ms;

// Reads "error 807". If the text is neither an error nor the expected reply, the peer is not an MPS
// server.
MpsError ErrorOf(const Result<std::string>& line) {
  if (!line || !line->starts_with("error ")) return MpsError::kConnectionFailed;
  const MpsError error = MpsErrorFromNumber(base::ParseInt(line->substr(6)).value_or(0));
  return error == MpsError::kNone ? MpsError::kConnectionFailed : error;
}

}  // namespace

std::unique_ptr<MpsClient> MpsClient::Join(const std::string& pipes, const std::string& partition,
                                           MpsError& refused) {
  refused = MpsError::kNone;
  auto control = ConnectTo(MpsFolders{pipes, ""}.Control());
  if (!control || !control->Send("client " + partition)) return nullptr;
  const Result<std::string> place = control->Receive(kForEver);
  if (!place || !place->starts_with("server ")) {
    refused = ErrorOf(place);
    return nullptr;
  }
  auto server = ConnectTo(place->substr(7));
  if (!server || !server->Send("join " + partition)) {
    refused = MpsError::kConnectionFailed;
    return nullptr;
  }
  const Result<std::string> line = server->Receive(kForEver);
  Result<MpsWelcome> welcome = ParseMpsWelcome(line.value_or(""));
  if (!welcome) {
    refused = ErrorOf(line);
    return nullptr;
  }
  return std::unique_ptr<MpsClient>(new MpsClient(std::move(*server), std::move(*welcome)));
}

MpsClient::~MpsClient() {
  socket_.Send("bye");
}

void MpsClient::Uses(int place, const std::string& state_path) const {
  socket_.Send("uses " + std::to_string(place) + " " + state_path);
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
      trouble_ = ErrorOf(line);
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
