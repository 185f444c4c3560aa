// Reads amounts with a unit.
#include "train/config/checkpoint_interval.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace mlx::train {
namespace {

constexpr const char* kKey = "checkpoint_every";
constexpr const char* kExpected = "expected epochs as a number, or text such as \"200 steps\", \"5 min\", \"2 h\"";
constexpr double kLeastEpochs = 0.001, kMost = 1e9;

struct Unit {
  const char* name;
  enum { kEpochs, kSteps, kSeconds } kind;
  double factor;
};
constexpr Unit kUnits[] = {
    {"epochs", Unit::kEpochs, 1}, {"epoch", Unit::kEpochs, 1}, {"steps", Unit::kSteps, 1},  {"step", Unit::kSteps, 1},
    {"s", Unit::kSeconds, 1},     {"min", Unit::kSeconds, 60}, {"h", Unit::kSeconds, 3600},
};

CheckpointInterval parse(const TomlReader& train, const std::string& text) {
  double amount = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, amount);
  std::string unit(rest, end);
  unit.erase(0, unit.find_first_not_of(' '));
  for (const Unit& each : kUnits) {
    if (error != std::errc() || unit != each.name || !(amount > 0) || amount > kMost) continue;
    CheckpointInterval out;
    out.epochs = each.kind == Unit::kEpochs ? std::max(amount, kLeastEpochs) : 0;
    out.seconds = each.kind == Unit::kSeconds ? amount * each.factor : 0;
    if (each.kind == Unit::kSteps) {
      out.steps = std::llround(amount);
      if (static_cast<double>(out.steps) != amount) break;
    }
    return out;
  }
  train.fail_at(kKey, fmt::format("{}, got \"{}\"", kExpected, text));
}

}  // namespace

CheckpointInterval read_checkpoint_interval(TomlReader& train, const TomlNode& table) {
  for (const auto& [name, node] : table.members) {
    if (name == kKey && node.kind == TomlNode::Kind::kString) return parse(train, train.string(kKey));
  }
  CheckpointInterval out;
  out.epochs = train.number(kKey, kLeastEpochs, kMost, 1);
  return out;
}

bool is_due(const CheckpointInterval& interval, std::int64_t step, std::int64_t steps_per_epoch, double seconds) {
  if (interval.seconds > 0) return seconds >= interval.seconds;
  if (interval.steps > 0) return step % interval.steps == 0;
  const double steps = interval.epochs * static_cast<double>(steps_per_epoch);
  return step % std::max<std::int64_t>(1, std::llround(steps)) == 0;
}

bool is_due_after(const CheckpointInterval& interval, std::int64_t before, std::int64_t step,
                  std::int64_t steps_per_epoch, double seconds) {
  for (std::int64_t each = before + 1; each <= step; ++each)
    if (is_due(interval, each, steps_per_epoch, seconds)) return true;
  return false;
}

}  // namespace mlx::train
