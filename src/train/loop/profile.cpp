// Collects the session's measurements, and writes traces.

#include "train/loop/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

namespace mlx::train {
namespace {

void longest_first(std::vector<graph::NodeTime>& times) {
  std::ranges::stable_sort(times, std::greater<>{}, &graph::NodeTime::seconds);
}

}  // namespace

double Profile::kernel_seconds() const {
  double seconds_in_kernels = 0;
  for (const graph::NodeTime& time : operations) seconds_in_kernels += time.seconds;
  return seconds_in_kernels;
}

void Profiler::begin_step() {
  step_started_ = seconds_now();
}

void Profiler::batch_made() {
  batch_made_ = seconds_now();
}

void Profiler::end_step(graph::Session& session, std::int64_t step) {
  if (!warm_) {
    warm_ = true;
    return session.set_profiling(true, kTracedSteps);
  }
  const double now = seconds_now();
  profile_.seconds += now - step_started_;
  profile_.batch_seconds += batch_made_ - step_started_;
  if (profile_.steps++ >= kTracedSteps) return;
  profile_.trace.push_back({fmt::format("step {}", step), "step", step_started_, now - step_started_});
  profile_.trace.push_back({"batch", "data", step_started_, batch_made_ - step_started_});
}

void Profiler::finish(const graph::Session& session) {
  if (profile_.steps == 0) return;
  profile_.operations = session.profile();
  longest_first(profile_.operations);
  for (const graph::NodeCall& call : session.calls()) {
    const graph::Node& node = session.graph().nodes[call.node];
    profile_.trace.push_back({node.name, kernels::name_of(node.op), call.start, call.seconds});
  }
}

const Profile& Profiler::profile() {
  if (!profile_.peak && profile_.no_peak.empty()) measure_peak();
  return profile_;
}

void Profiler::measure_peak() {
  try {
    profile_.peak = graph::measure_peak(backend_, pool_);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) throw;
    profile_.no_peak = error.message;
  }
}

std::vector<graph::NodeTime> by_operation(const Profile& profile) {
  std::vector<graph::NodeTime> kinds;
  for (const graph::NodeTime& time : profile.operations) {
    const auto same = [&](const graph::NodeTime& kind) { return kind.op == time.op && kind.kernel == time.kernel; };
    const auto found = std::ranges::find_if(kinds, same);
    if (found == kinds.end()) {
      kinds.push_back(time);
      kinds.back().name = time.op;
      continue;
    }
    found->seconds += time.seconds;
    found->flops += time.flops;
    found->bytes += time.bytes;
    found->calls += time.calls;
  }
  longest_first(kinds);
  return kinds;
}

std::string chrome_trace(const Profile& profile) {
  double origin = 0;
  for (const TraceEvent& event : profile.trace) origin = origin == 0 ? event.start : std::min(origin, event.start);
  const auto micros = [](double seconds) {
    return static_cast<double>(static_cast<std::int64_t>(seconds * 1e9)) / 1e3;
  };
  Json events = Json::array();
  const Json in_track = {{"pid", 1}, {"tid", 1}};
  const auto add = [&](Json event) {
    event.update(in_track);
    events.push_back(std::move(event));
  };
  add({{"name", "process_name"}, {"ph", "M"}, {"args", {{"name", "mlx train"}}}});
  add({{"name", "thread_name"}, {"ph", "M"}, {"args", {{"name", "operations"}}}});
  for (const TraceEvent& event : profile.trace) {
    add({{"name", event.name},
         {"cat", event.category},
         {"ph", "X"},
         {"ts", micros(event.start - origin)},
         {"dur", micros(event.seconds)}});
  }
  return events.dump(1) + "\n";
}

}  // namespace mlx::train
