#include "gpu/reader/reader.h"

#include <chrono>
#include <memory>
#include <utility>

#include "base/line_socket.h"
#include "base/try.h"
#include "gpu/nvml_probe.h"
#include "gpu/reader/reader_wire.h"

namespace carma::gpu {
namespace {

constexpr std::chrono::hours kForEver{24};

class Reader {
 public:
  Reader(base::LineSocket& daemon, const std::string& library)
      : daemon_(daemon), library_(library) {}

  ReaderAnswer Answer(const ListRequest& request) {
    if (!probe_) {
      Result<std::unique_ptr<NvmlProbe>> loaded = LoadNvmlProbe(library_);
      if (!loaded) return ReadError(loaded.error());
      probe_ = std::move(*loaded);
    }
    probe_->SetListing({request.leave_out, [this](std::uint32_t number) {
                          (void)daemon_.Send(FormatAnswer(Asking{number}));
                        }});
    ReadResult<std::vector<DeviceInfo>> devices = probe_->Devices();
    if (!devices) return devices.error();
    ReaderListing listing{std::move(*devices), {}};
    for (std::size_t i = 0; i < listing.devices.size(); ++i)
      listing.numbers.push_back(probe_->NumberOf(i));
    return listing;
  }

  ReaderAnswer Answer(const ReadRequest& request) {
    if (!probe_) return ReadError(ErrorCode::kUnavailable, "no list of GPUs was requested");
    ReadResult<Reading> reading = probe_->Read(request.device, request.now);
    if (!reading) return reading.error();
    return std::move(*reading);
  }

 private:
  base::LineSocket& daemon_;
  const std::string& library_;
  std::unique_ptr<NvmlProbe> probe_;
};

}  // namespace

Result<Unit> ServeReader(base::UniqueFd socket, const std::string& nvml_library) {
  base::LineSocket daemon(std::move(socket), kMaxReaderLine);
  Reader reader(daemon, nvml_library);
  while (true) {
    const Result<std::string> line = daemon.Receive(kForEver);
    if (!line && line.error().code == ErrorCode::kUnavailable) continue;
    if (!line) return Unit{};
    const ReaderRequest request = CARMA_TRY(ParseRequest(*line));
    const ReaderAnswer answer =
        std::visit([&reader](const auto& each) { return reader.Answer(each); }, request);
    if (!daemon.Send(FormatAnswer(answer))) return Unit{};
  }
}

}  // namespace carma::gpu
