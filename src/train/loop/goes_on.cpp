// Compares the parameters of two runs.
#include "train/loop/goes_on.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json.h"

namespace mlx::train {
namespace {

// Keys of [train] that change neither the form of the state nor the order of the examples. checkpoint_every occurs in
// old records only.
constexpr std::array kFree = {"epochs",
                              "learning_rate",
                              "schedule",
                              "warmup",
                              "final",
                              "gamma",
                              "milestones",
                              "label_smoothing",
                              "clip",
                              "numerics",
                              "keep",
                              "patience",
                              "metric",
                              "huber_delta",
                              "checkpoint_every",
                              "outer_learning_rate",
                              "outer_momentum",
                              "tp",
                              "wire"};
constexpr const char* kOptimizer = "optimizer";  // its name must match, its numbers are free

Json at(const Json& object, const std::string& key) {
  return object.is_object() && object.contains(key) ? object[key] : Json();
}

void add_different(const Json& before, const Json& now, const std::string& table, bool moved,
                   std::vector<std::string>& out) {
  std::vector<std::string> keys;
  for (const Json* json : {&before, &now})
    for (const auto& [key, value] : json->items()) keys.push_back(key);
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const std::string& key : keys) {
    if (table == "train" && (std::ranges::find(kFree, key) != kFree.end() || (moved && key == "precision"))) continue;
    Json a = at(before, key), b = at(now, key);
    if (table == "train" && key == kOptimizer) a = at(a, "name"), b = at(b, "name");
    if (a != b) out.push_back(table + "." + key);
  }
}

std::vector<std::pair<std::string, Digest>> data_of(std::vector<std::pair<std::string, Digest>> inputs) {
  std::erase_if(inputs, [](const auto& input) { return input.first == kCheckpointInput; });
  return inputs;
}

}  // namespace

void check_goes_on(const registry::Run& run, const work::Work& work) {
  const Json before = parse_json(run.params, "run:" + run.id), now = parse_json(work.params, "parameters");
  const std::string what = "run:" + run.id;
  const bool moved =
      json_string(parse_json(run.environment, what), "numerics", what) != numerics_id(work.numerics).text();
  std::vector<std::string> different;
  if (data_of(run.inputs) != data_of(work.inputs)) different.emplace_back("the dataset, or the model to start from");
  for (const char* table : {"data", "model", "train"})
    add_different(at(before, table), at(now, table), table, moved, different);
  if (different.empty()) return;
  throw Error(ErrorKind::kConflict,
              fmt::format("run:{} was made with another config or dataset: {}", run.id, fmt::join(different, ", ")),
              "resume it with its own config and dataset, or start a new run without --resume");
}

std::optional<Digest> checkpoint_input(const registry::Run& run) {
  for (const auto& [role, digest] : run.inputs)
    if (role == kCheckpointInput) return digest;
  return std::nullopt;
}

Digest last_checkpoint(registry::Repository& repository, const registry::Run& run) {
  const std::vector<registry::Checkpoint> all = registry::checkpoints(repository, run.id);
  if (!all.empty()) return all.back().manifest;
  const std::optional<Digest> began_with = checkpoint_input(run);
  if (began_with && run.status != registry::RunStatus::kDone) return *began_with;
  const bool kept_none = run.status == registry::RunStatus::kDone;
  throw Error(
      ErrorKind::kConflict,
      fmt::format("run:{} has no checkpoint to continue from, and {}", run.id,
                  kept_none ? "is done: it kept none ([train] keep_state)"
                            : "somebody else started it, or it was started with other numerics or another config"),
      "train it anew, without --resume");
}

}  // namespace mlx::train
