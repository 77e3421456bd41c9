// Reads Philly's cluster_job_log (https://github.com/msr-fiddle/philly-traces).
#include <algorithm>

#include "base/json.h"
#include "lab/trace/job_collector.h"

namespace carma::trace {
namespace {

using base::Json;

constexpr std::size_t kMaxObjectBytes = 1 << 20;

// Extracts the jobs from the array one by one, so only one job at a time is in memory. Text between
// the objects is ignored.
class ObjectCutter {
 public:
  // Takes the next byte. Returns true if this byte ends an object.
  bool Take(char c) {
    if (depth_ > 0) object_ += c;
    if (c == '\n') ++line_;
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = depth_ > 0;
    } else if (c == '{') {
      if (depth_++ == 0) {
        object_ = "{";
        first_line_ = line_;
      }
    } else if (c == '}' && depth_ > 0) {
      return --depth_ == 0;
    }
    return false;
  }
  const std::string& object() const { return object_; }
  std::int64_t first_line() const { return first_line_; }
  bool inside() const { return depth_ > 0; }

 private:
  std::string object_;
  std::int64_t line_ = 1;
  std::int64_t first_line_ = 1;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// A field's text; empty if the field is absent, null, "None" or not a string.
std::string_view TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return {};
  const auto& text = found->get_ref<const std::string&>();
  return text == "None" ? std::string_view() : std::string_view(text);
}

const Json& ItemsOf(const Json& json, const char* key) {
  static const Json kNone = Json::array();
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_array() ? *found : kNone;
}

// What a job's attempts used. A restarted job held GPUs in each attempt, so the durations are added
// up.
struct Attempts {
  std::size_t gpus = 0;           // of the largest attempt
  std::optional<double> seconds;  // total of all attempts that have ended
  std::string_view odd;           // a time that cannot be parsed
};

Attempts Sum(const Json& job) {
  Attempts sum;
  for (const Json& attempt : ItemsOf(job, "attempts")) {
    if (!attempt.is_object()) continue;
    std::size_t gpus = 0;
    for (const Json& server : ItemsOf(attempt, "detail")) gpus += ItemsOf(server, "gpus").size();
    sum.gpus = std::max(sum.gpus, gpus);
    const std::string_view from = TextOf(attempt, "start_time");
    const std::string_view to = TextOf(attempt, "end_time");
    if (from.empty() || to.empty()) continue;
    const auto start = ParseLocalTime(from);
    const auto end = ParseLocalTime(to);
    if (!start || !end || *end < *start) {
      sum.odd = !start ? from : to;
      continue;
    }
    sum.seconds = sum.seconds.value_or(0) + static_cast<double>(*end - *start) / 1000;
  }
  return sum;
}

void TakeJob(const std::string& text, std::int64_t line, JobCollector& out) {
  const Result<Json> parsed = base::ParseJson(text);
  if (!parsed || !parsed->is_object())
    return out.Complain(Complaint::kTorn, line, parsed ? "" : parsed.error().message);
  const Json& json = *parsed;
  Job job{.line = static_cast<std::int32_t>(line)};
  const std::string_view submitted = TextOf(json, "submitted_time");
  if (!out.SetSubmit(job, ParseLocalTime(submitted), submitted)) return;
  const Attempts attempts = Sum(json);
  // For a job without attempts, the trace does not record the requested number of GPUs.
  if (attempts.gpus == 0) return out.Complain(Complaint::kGpusMissing, line, {});
  if (!out.SetGpus(job, static_cast<double>(attempts.gpus), "")) return;
  out.SetStatus(job, TextOf(json, "status"));
  out.SetUser(job, TextOf(json, "user"));
  out.SetVc(job, TextOf(json, "vc"));
  if (!attempts.odd.empty()) {
    out.Complain(Complaint::kDuration, line, attempts.odd);
  } else {
    out.SetDuration(job, attempts.seconds, "");
  }
  out.Add(job);
}

}  // namespace

Result<Unit> ReadPhilly(LineReader& lines, JobCollector& out) {
  ObjectCutter cutter;
  for (;;) {
    const Result<std::string_view> bytes = lines.TakeBytes();
    if (!bytes) return base::Wrap(bytes.error(), out.where());
    if (bytes->empty()) break;
    for (const char c : *bytes) {
      if (cutter.Take(c)) {
        TakeJob(cutter.object(), cutter.first_line(), out);
        if (out.error()) return std::unexpected(*out.error());
      } else if (cutter.object().size() > kMaxObjectBytes) {
        return Invalid("{}:{}: a job record exceeds 1 MiB; is a closing brace missing?",
                       out.where(), cutter.first_line());
      }
    }
  }
  if (cutter.inside()) {
    out.Complain(Complaint::kTorn, cutter.first_line(),
                 std::to_string(cutter.object().size()) + " bytes up to the end of the file");
  }
  return Unit{};
}

}  // namespace carma::trace
