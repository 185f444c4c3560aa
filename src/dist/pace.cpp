// Differences between the first and the last beat of a window.
#include "dist/pace.h"

#include <fmt/format.h>

#include <algorithm>

namespace mlx::dist {
namespace {

std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

template <typename Of>
double median_of(const auto& spans, Of of) {
  std::vector<double> values(spans.size());
  std::ranges::transform(spans, values.begin(), of);
  return median(std::move(values));
}

}  // namespace

std::string host_of(const std::string& rank_name) {
  constexpr std::string_view kOn = " on ";
  const std::size_t on = rank_name.find(kOn);
  return on == std::string::npos ? rank_name : rank_name.substr(on + kOn.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void Pace::take(const Beat& beat, Clock::time_point now) {
  if (beat.seconds <= 0) return;
  std::deque<Sample>& samples = ranks_[beat.rank].samples;
  samples.push_back({now, beat});
  while (samples.size() > 2 && now - samples[1].when >= kWindow && beat.step - samples[1].beat.step >= kSteps)
    samples.pop_front();
}

std::optional<Pace::Span> Pace::span_of(const Rank& rank) {
  if (rank.samples.size() < 2) return {};
  const Sample &first = rank.samples.front(), &last = rank.samples.back();
  Span out;
  out.clock = std::chrono::duration<double>(last.when - first.when).count();
  out.seconds = last.beat.seconds - first.beat.seconds;
  out.own = std::max(0.0, out.seconds - (last.beat.waiting - first.beat.waiting));
  out.reading = last.beat.reading - first.beat.reading;
  out.cpu = last.beat.cpu - first.beat.cpu;
  out.units = static_cast<double>(last.beat.units - first.beat.units);
  out.bytes = static_cast<double>(last.beat.bytes_sent - first.beat.bytes_sent);
  out.steps = static_cast<double>(last.beat.step - first.beat.step);
  if (out.steps < 1 || out.clock <= 0 || out.seconds <= 0) return {};
  return out;
}

std::optional<Pace::Figures> Pace::figures() const {
  Figures out;
  double seconds = 0, waiting = 0, longest = -1;
  std::vector<double> own;
  for (const auto& [number, rank] : ranks_) {
    const std::optional<Span> span = span_of(rank);
    if (!span) return {};
    const Beat& last = rank.samples.back().beat;
    const std::string host = host_of(last.name);
    const double rate = span->units / span->seconds;
    if (out.hosts.empty() || out.hosts.back().first != host) out.hosts.emplace_back(host, 0);
    out.hosts.back().second += rate;
    out.units_per_second += rate;
    out.bytes_per_second += span->bytes / span->seconds;
    out.unit = last.unit;
    seconds += span->seconds;
    waiting += span->seconds - span->own;
    own.push_back(span->own_a_step());
    if (own.back() <= longest) continue;
    longest = own.back();
    out.slowest = last.name;
  }
  if (own.empty()) return {};
  out.waiting = waiting / seconds;
  own.erase(std::ranges::find(own, longest));
  if (const double others = median(std::move(own)); others > 0) out.factor = longest / others;
  return out;
}

std::string Pace::slow_rank() {
  std::vector<Rank*> ranks;
  std::vector<Span> spans;
  for (auto& [number, rank] : ranks_) {
    const std::optional<Span> span = span_of(rank);
    if (!span || span->clock < std::chrono::duration<double>(kWindow).count() || span->steps < kSteps) return "";
    ranks.push_back(&rank);
    spans.push_back(*span);
  }
  const double middle = median_of(spans, [](const Span& of) { return of.own_a_step(); });
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (ranks[i]->told || spans[i].own_a_step() <= middle) continue;
    std::vector<Span> others = spans;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double usual = median_of(others, [](const Span& of) { return of.own_a_step(); });
    const double lost = (spans[i].own_a_step() - usual) * spans[i].steps / spans[i].seconds;
    if (spans[i].own_a_step() < kSlow * usual || lost < kLostShare) continue;
    ranks[i]->told = true;
    return fmt::format("{} is slow: {} a step where {} {}, waiting for its gradients {:.0f} % of the time; {}",
                       ranks[i]->samples.back().beat.name, time_text(spans[i].own_a_step()),
                       others.size() == 1 ? "the other takes" : "the others take", time_text(usual), 100 * lost,
                       cause(spans[i]));
  }
  return "";
}

// What a slow rank itself waits for, as far as that is seen from here.
std::string Pace::cause(const Span& slow) {
  constexpr double kMost = 0.5, kFew = 0.7;
  if (slow.own > 0 && slow.reading > kMost * slow.own) return "it waits for its data";
  // Whoever waits for messages uses a core too, so that only too little says something.
  if (slow.cores() < kFew) return fmt::format("it waits for a core: it gets {:.1f} of one", slow.cores());
  return "it computes all that time";
}

}  // namespace mlx::dist
