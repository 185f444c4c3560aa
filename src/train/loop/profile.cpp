// Collects the session's measurements, those of other ranks too, and writes traces.

#include "train/loop/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "dist/clock_offset.h"
#include "dist/collectives.h"

namespace mlx::train {
namespace {

constexpr const char* kProfile = "a rank's profile";

Json to_json(const std::vector<TraceEvent>& trace) {
  Json out = Json::array();
  for (const TraceEvent& event : trace)
    out.push_back({event.name, event.category, event.start, event.seconds, event.beside});
  return out;
}

std::vector<TraceEvent> trace_from(const Json& json) {
  std::vector<TraceEvent> out;
  for (const Json& event : json)
    out.push_back({event.at(0).get<std::string>(), event.at(1).get<std::string>(), event.at(2).get<double>(),
                   event.at(3).get<double>(), event.at(4).get<bool>()});
  return out;
}

Json to_json(const RankProfile& rank) {
  return {{"batch_seconds", rank.batch_seconds},
          {"bytes_sent", rank.bytes_sent},
          {"exchanging", rank.exchanging},
          {"kernel_seconds", rank.kernel_seconds},
          {"name", rank.name},
          {"seconds", rank.seconds},
          {"steps", rank.steps},
          {"trace", to_json(rank.trace)},
          {"waiting", rank.waiting}};
}

RankProfile rank_profile_from(const Json& json) {
  const auto number = [&](const char* key) { return json_number(json, key, kProfile); };
  RankProfile out;
  out.name = json_string(json, "name", kProfile);
  out.steps = json_int(json, "steps", kProfile), out.bytes_sent = json_int(json, "bytes_sent", kProfile);
  out.seconds = number("seconds"), out.batch_seconds = number("batch_seconds");
  out.kernel_seconds = number("kernel_seconds");
  out.waiting = number("waiting"), out.exchanging = number("exchanging");
  out.trace = trace_from(json_array(json, "trace", kProfile));
  return out;
}

void longest_first(std::vector<graph::NodeTime>& times) {
  std::ranges::stable_sort(times, std::greater<>{}, &graph::NodeTime::seconds);
}

}  // namespace

double Profile::kernel_seconds() const {
  double seconds_in_kernels = 0;
  for (const graph::NodeTime& time : operations) seconds_in_kernels += time.seconds;
  return seconds_in_kernels;
}

void Profiler::begin(dist::Communicator& ranks) {
  if (ranks.ranks() == 1) return;
  ranks_ = &ranks;
  clock_offset_ = dist::clock_offset(ranks);
}

void Profiler::begin_step() {
  step_started_ = seconds_now();
}

void Profiler::batch_made() {
  batch_made_ = seconds_now();
}

void Profiler::end_step(graph::Session& session, std::int64_t step, const dist::GradientSum::Cost& cost) {
  cost_ = cost;
  if (!warm_) {
    warm_ = true;
    first_cost_ = cost;
    return session.set_profiling(true, kTracedSteps);
  }
  const double now = seconds_now();
  profile_.seconds += now - step_started_;
  profile_.batch_seconds += batch_made_ - step_started_;
  if (profile_.steps++ >= kTracedSteps) return;
  profile_.trace.push_back({fmt::format("step {}", step), "step", step_started_, now - step_started_});
  profile_.trace.push_back({"batch", "data", step_started_, batch_made_ - step_started_});
}

void Profiler::finish(const graph::Session& session, const std::vector<dist::GradientSum::Span>& spans,
                      const std::vector<PipelineSpan>& stages) {
  if (profile_.steps == 0) return;  // on all ranks
  profile_.operations = session.profile();
  profile_.waiting = cost_.waiting - first_cost_.waiting;
  longest_first(profile_.operations);
  for (const graph::NodeCall& call : session.calls()) {
    const graph::Node& node = session.graph().nodes[call.node];
    profile_.trace.push_back({node.name, kernels::name_of(node.op), call.start, call.seconds});
  }
  trace_communication(spans, stages);
  for (TraceEvent& event : profile_.trace) event.start += clock_offset_;
  if (ranks_) gather_ranks();
}

// Of the traced steps.
void Profiler::trace_communication(const std::vector<dist::GradientSum::Span>& spans,
                                   const std::vector<PipelineSpan>& stages) {
  double first = 0, last = 0;
  for (const TraceEvent& event : profile_.trace) {
    first = first == 0 ? event.start : std::min(first, event.start);
    last = std::max(last, event.start + event.seconds);
  }
  const auto is_traced = [&](const auto& span) { return span.start >= first && span.start + span.seconds <= last; };
  for (const PipelineSpan& span : stages)
    if (is_traced(span))
      profile_.trace.push_back({span.name, span.waits ? "wait" : "pipeline", span.start, span.seconds});
  std::vector<dist::GradientSum::Span> sorted = spans;
  std::ranges::stable_sort(sorted, {}, &dist::GradientSum::Span::start);
  for (const dist::GradientSum::Span& span : sorted) {
    if (!is_traced(span)) continue;
    const bool waits = span.bucket < 0;
    profile_.trace.push_back({waits ? "wait for other ranks" : fmt::format("bucket {}", span.bucket),
                              waits ? "wait" : "exchange", span.start, span.seconds, !waits});
  }
}

void Profiler::gather_ranks() {
  RankProfile own;
  own.name = ranks_->name();
  own.steps = profile_.steps;
  own.seconds = profile_.seconds, own.batch_seconds = profile_.batch_seconds;
  own.kernel_seconds = profile_.kernel_seconds();
  own.waiting = profile_.waiting;
  own.exchanging = cost_.exchanging - first_cost_.exchanging;
  own.bytes_sent = cost_.bytes_sent - first_cost_.bytes_sent;
  own.trace = profile_.trace;
  for (const Bytes& bytes : dist::gather(*ranks_, 0, as_bytes(canonical(to_json(own)))))
    profile_.ranks.push_back(rank_profile_from(parse_json(as_text(bytes), "a rank's profile")));
}

void Profiler::take(Profile profile) {
  profile_ = std::move(profile);
  profile_.no_peak = "the ranks are on other hosts";
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

Json to_json(const Profile& profile) {
  Json operations = Json::array(), ranks = Json::array();
  for (const graph::NodeTime& time : profile.operations)
    operations.push_back({time.name, time.op, time.kernel, time.calls, time.seconds, time.flops, time.bytes});
  for (const RankProfile& rank : profile.ranks) ranks.push_back(to_json(rank));
  return {{"batch_seconds", profile.batch_seconds},
          {"operations", std::move(operations)},
          {"ranks", std::move(ranks)},
          {"seconds", profile.seconds},
          {"steps", profile.steps},
          {"trace", to_json(profile.trace)},
          {"waiting", profile.waiting}};
}

Profile profile_from(const Json& json) {
  const auto number = [&](const char* key) { return json_number(json, key, kProfile); };
  Profile out;
  out.steps = json_int(json, "steps", kProfile);
  out.seconds = number("seconds"), out.batch_seconds = number("batch_seconds"), out.waiting = number("waiting");
  for (const Json& time : json_array(json, "operations", kProfile)) {
    graph::NodeTime& to = out.operations.emplace_back();
    to.name = time.at(0).get<std::string>(), to.op = time.at(1).get<std::string>();
    to.kernel = time.at(2).get<std::string>(), to.calls = time.at(3).get<std::int64_t>();
    to.seconds = time.at(4).get<double>(), to.flops = time.at(5).get<double>(), to.bytes = time.at(6).get<double>();
  }
  out.trace = trace_from(json_array(json, "trace", kProfile));
  for (const Json& rank : json_array(json, "ranks", kProfile)) out.ranks.push_back(rank_profile_from(rank));
  return out;
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

namespace {

// One process of a trace: its names, and its events relative to `origin`.
void add_process(Json& events, int process, const std::string& name, const std::vector<TraceEvent>& trace,
                 double origin) {
  constexpr int kOperations = 1;  // a thread; those after it have the exchanges, of which several may be on their way
  const auto micros = [](double seconds) {
    return static_cast<double>(static_cast<std::int64_t>(seconds * 1e9)) / 1e3;
  };
  const auto add = [&](Json event, int thread) {
    event["pid"] = process, event["tid"] = thread;
    events.push_back(std::move(event));
  };
  add({{"name", "process_name"}, {"ph", "M"}, {"args", {{"name", name}}}}, kOperations);
  add({{"name", "process_sort_index"}, {"ph", "M"}, {"args", {{"sort_index", process}}}}, kOperations);
  add({{"name", "thread_name"}, {"ph", "M"}, {"args", {{"name", "operations"}}}}, kOperations);
  std::vector<double> busy_until;  // of the threads after the first
  const auto thread_of = [&](const TraceEvent& event) {
    if (!event.beside) return kOperations;
    const auto idle = std::ranges::find_if(busy_until, [&](double until) { return until <= event.start; });
    const int thread = kOperations + 1 + static_cast<int>(idle - busy_until.begin());
    if (idle == busy_until.end()) {
      busy_until.push_back(0);
      add({{"name", "thread_name"}, {"ph", "M"}, {"args", {{"name", "exchange of gradients"}}}}, thread);
    }
    busy_until[static_cast<std::size_t>(thread - kOperations - 1)] = event.start + event.seconds;
    return thread;
  };
  for (const TraceEvent& event : trace) {
    const int thread = thread_of(event);
    add({{"name", event.name},
         {"cat", event.category},
         {"ph", "X"},
         {"ts", micros(event.start - origin)},
         {"dur", micros(event.seconds)}},
        thread);
  }
}

}  // namespace

std::string chrome_trace(const Profile& profile) {
  std::vector<RankProfile> ranks = profile.ranks;
  if (ranks.empty()) ranks.push_back({.name = "mlx train", .trace = profile.trace});
  double origin = 0;
  for (const RankProfile& rank : ranks)
    for (const TraceEvent& event : rank.trace) origin = origin == 0 ? event.start : std::min(origin, event.start);
  Json events = Json::array();
  for (std::size_t i = 0; i < ranks.size(); ++i)
    add_process(events, static_cast<int>(i) + 1, ranks[i].name, ranks[i].trace, origin);
  return events.dump(1) + "\n";
}

}  // namespace mlx::train
