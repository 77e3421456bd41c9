#include "gpu/reader/guarded_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "base/try.h"

namespace carma::gpu {
namespace {

using std::chrono::milliseconds;

// While this many killed readers still hang in the kernel, in calls for the same GPU or for the
// whole driver, no other reader makes such a call.
constexpr std::size_t kMostLeftBehind = 4;

bool IsStuck(std::optional<std::uint32_t> number) {
  return ReaderProcess::LeftBehind(number) >= kMostLeftBehind;
}

std::unexpected<ReadError> NoSuchAnswer() {
  return FailRead(ErrorCode::kUnavailable, "carma-reader sent an unexpected response");
}

}  // namespace

std::string GuardedProbe::WhyOf(const NoAnswer& none) const {
  if (!none.late) return "carma-reader exited during a driver call";
  return fmt::format("the driver has not answered for more than {}",
                     base::FormatSpan(options_.patience));
}

std::set<std::uint32_t> GuardedProbe::LeftOut() const {
  std::set<std::uint32_t> numbers = alone_;
  for (const auto& [number, aside] : aside_) numbers.insert(number);
  return numbers;
}

// ---- the list ----

ReadResult<std::vector<DeviceInfo>> GuardedProbe::Devices() {
  reader_.reset();
  closed_.reset();
  // Also tries the GPUs that are set aside, because a caller that does not recognise such a GPU
  // never reads it.
  for (auto at = aside_.begin(); at != aside_.end();) {
    const bool answers = !alone_.contains(at->first) && AnswersAgain(at->first, at->second);
    at = answers ? aside_.erase(at) : std::next(at);
  }
  if (ReadResult<Unit> open = Open(); !open) {
    closed_ = open.error();
    return std::unexpected(open.error());
  }
  const auto is_aside = [this](const Place& place) { return aside_.contains(place.number); };
  if (!places_.empty() && std::ranges::all_of(places_, is_aside)) {
    closed_ = ReadError(ErrorCode::kUnavailable, aside_.begin()->second.why);
    // All GPUs hang, so trying them again cannot disturb a working one.
    std::erase_if(aside_, [](const auto& each) { return !IsStuck(each.first); });
    return std::unexpected(*closed_);
  }
  return devices_;
}

// Starts readers until one of them has read the whole list.
ReadResult<Unit> GuardedProbe::Open() {
  std::set<std::optional<std::uint32_t>> ended;
  while (true) {
    if (IsStuck(std::nullopt)) return Unavailable(WhyOf({.late = true, .asking = {}}));
    reader_ = CARMA_TRY(ReaderProcess::Start(options_.reader));
    reader_->Ask(ListRequest{LeftOut()});
    std::expected<ReaderAnswer, NoAnswer> answer = reader_->Await(options_.patience);
    if (answer && std::holds_alternative<ReaderListing>(*answer)) {
      Take(std::get<ReaderListing>(std::move(*answer)));
      return Unit{};
    }
    reader_.reset();
    if (answer) {
      if (auto* error = std::get_if<ReadError>(&*answer)) return std::unexpected(std::move(*error));
      return NoSuchAnswer();
    }
    // A user may have killed the reader, so a GPU is blamed only if the reader dies twice while
    // reading it.
    if (!answer.error().late && ended.insert(answer.error().asking).second) continue;
    const std::string why = WhyOf(answer.error());
    if (!answer.error().asking) {
      aside_.clear();  // the GPUs set aside were not the cause
      return Unavailable(why);
    }
    SetAside(*answer.error().asking, why);
  }
}

void GuardedProbe::Take(ReaderListing listing) {
  const std::set<std::uint32_t> left_out = LeftOut();
  std::map<std::uint32_t, std::vector<DeviceInfo>> told;
  for (std::size_t i = 0; i < listing.devices.size(); ++i)
    told[listing.numbers[i]].push_back(listing.devices[i]);
  devices_.clear();
  places_.clear();
  for (std::size_t i = 0; i < listing.devices.size(); ++i) {
    const std::uint32_t number = listing.numbers[i];
    if (!left_out.contains(number)) {
      devices_.push_back(std::move(listing.devices[i]));
      places_.push_back({number, i});
      continue;
    }
    // An excluded GPU has only one entry in the listing, even if it is a MIG GPU. Its instances are
    // taken from the last listing that described it.
    const auto before = known_.find(number);
    const std::vector<DeviceInfo>& as_known =
        before != known_.end() ? before->second : told[number];
    for (DeviceInfo device : as_known) {
      if (const auto aside = aside_.find(number); aside != aside_.end())
        device.trouble = {aside->second.why, TroubleCause::kHangs};
      devices_.push_back(std::move(device));
      places_.push_back({number, std::nullopt});
    }
  }
  for (auto& [number, described] : told) {
    if (!left_out.contains(number)) known_[number] = std::move(described);
  }
}

// A new reader must list the same GPUs as the reader that it replaces. GPUs that could not be
// described have no UUID and are not compared.
ReadResult<Unit> GuardedProbe::OpenAgain() {
  const std::vector<DeviceInfo> before = devices_;
  ReadResult<Unit> open = Open();
  const auto same = [](const DeviceInfo& then, const DeviceInfo& now) {
    return !then.trouble.empty() || !now.trouble.empty() || then.uuid == now.uuid;
  };
  if (open && !std::ranges::equal(before, devices_, same))
    open = FailRead(ErrorCode::kConflict, "the driver's list of GPUs has changed");
  if (!open) {
    closed_ = open.error();
    reader_.reset();
  }
  return open;
}

// ---- readings ----

ReadResult<Reading> GuardedProbe::Read(std::size_t device, base::Time now) {
  return ReadWith(device, now, false);
}

ReadResult<Reading> GuardedProbe::ReadWith(std::size_t device, base::Time now, bool again) {
  if (closed_) return std::unexpected(*closed_);
  if (device >= places_.size()) return NotFound("no GPU {}", device);
  const std::uint32_t number = places_[device].number;
  const std::string uuid = devices_[device].uuid;
  if (const auto at = aside_.find(number); at != aside_.end()) {
    if (!AnswersAgain(number, at->second))
      return FailRead(ErrorCode::kUnavailable, at->second.why, uuid);
    aside_.erase(at);
    reader_.reset();
  }
  if (!reader_) CARMA_TRY(OpenAgain());
  if (!places_[device].current) {
    const auto aside = aside_.find(number);
    return FailRead(
        ErrorCode::kUnavailable,
        aside != aside_.end() ? aside->second.why : "it is currently excluded from queries", uuid);
  }
  reader_->Ask(ReadRequest{*places_[device].current, now}, number);
  std::expected<ReaderAnswer, NoAnswer> answer = reader_->Await(options_.patience);
  if (!answer && !answer.error().late && !again) {  // tries once more, as in Open()
    reader_.reset();
    return ReadWith(device, now, true);
  }
  if (!answer) {
    const std::string why = WhyOf(answer.error());
    reader_.reset();
    SetAside(number, why);
    return FailRead(ErrorCode::kUnavailable, why, uuid);
  }
  Answered(number);
  if (auto* error = std::get_if<ReadError>(&*answer)) return std::unexpected(std::move(*error));
  auto* const reading = std::get_if<Reading>(&*answer);
  if (!reading) return NoSuchAnswer();
  reading->taken = now;
  return std::move(*reading);
}

void GuardedProbe::LeaveAlone(const std::set<std::size_t>& devices) {
  std::set<std::uint32_t> wanted, alone;
  for (std::size_t i = 0; i < places_.size(); ++i)
    (devices.contains(i) ? alone : wanted).insert(places_[i].number);
  // A MIG GPU is left alone only if all its instances are.
  std::erase_if(alone, [&](std::uint32_t number) { return wanted.contains(number); });
  if (alone == alone_) return;
  const std::set<std::uint32_t> before = LeftOut();
  for (auto& [number, aside] : aside_) {
    if (alone.contains(number)) aside.trial.reset();
    if (alone_.contains(number) && !alone.contains(number)) aside.next_try = Clock::now();
  }
  alone_ = std::move(alone);
  if (LeftOut() != before) reader_.reset();
}

// ---- GPUs that hang ----

void GuardedProbe::SetAside(std::uint32_t number, const std::string& why) {
  const auto [caution, first] = cautions_.try_emplace(number, Caution{options_.first_pause, {}});
  if (!first) caution->second.pause = std::min(2 * caution->second.pause, options_.longest_pause);
  Aside& aside = aside_[number];
  aside.why = why;
  aside.next_try = Clock::now() + caution->second.pause;
  aside.trial.reset();
}

bool GuardedProbe::AnswersAgain(std::uint32_t number, Aside& aside) {
  if (aside.trial) return TrialSucceeds(number, aside);
  if (Clock::now() < aside.next_try || IsStuck(number)) return false;
  std::set<std::uint32_t> others;
  for (const Place& place : places_) others.insert(place.number);
  others.erase(number);
  Result<std::unique_ptr<ReaderProcess>> started = ReaderProcess::Start(options_.reader);
  if (!started) return false;
  aside.trial = std::move(*started);
  aside.trial->Ask(ListRequest{others}, number);
  aside.trial_until = Clock::now() + options_.patience;
  return false;
}

// Must not block, because the other GPUs are being read.
bool GuardedProbe::TrialSucceeds(std::uint32_t number, Aside& aside) {
  const std::expected<ReaderAnswer, NoAnswer> answer = aside.trial->Await(milliseconds(0));
  if (!answer && answer.error().late && Clock::now() < aside.trial_until) return false;
  const ReaderListing* const listing = answer ? std::get_if<ReaderListing>(&*answer) : nullptr;
  for (std::size_t i = 0; listing && i < listing->devices.size(); ++i) {
    if (listing->numbers[i] != number || !listing->devices[i].trouble.empty()) continue;
    cautions_.at(number).answered = Clock::now();
    return true;
  }
  SetAside(number, aside.why);
  return false;
}

// Forgets a GPU's past hangs once it has responded for as long as it was last set aside.
void GuardedProbe::Answered(std::uint32_t number) {
  const auto caution = cautions_.find(number);
  if (caution == cautions_.end()) return;
  if (Clock::now() - caution->second.answered >= caution->second.pause) cautions_.erase(caution);
}

}  // namespace carma::gpu
