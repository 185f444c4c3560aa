// Checkpoints in the store.

#include "train/loop/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "nn/model.h"
#include "train/config/config.h"

namespace mlx::train {
namespace {

constexpr const char* kFormat = "mlx.checkpoint/1";
// Prefixes for the names of tensors: of the best model, of local SGD's outer step, and of its other workers.
constexpr std::string_view kBest = "best/", kOuter = "outer/", kMomentum = "outer_momentum/";

// Of a step that waits for its update.
std::string waiting_prefix(std::size_t step) {
  return fmt::format("waiting{}/", step);
}

std::string worker_prefix(std::size_t worker) {
  return fmt::format("worker{}/", worker);
}

Digest file_of(const store::Store& store, const Digest& manifest, const std::string& path) {
  const std::optional<store::Entry> entry = store.find(manifest, path);
  if (!entry) fail(ErrorKind::kCorrupt, "checkpoint {} has no {}", manifest.brief(), path);
  return entry->content;
}

nn::LateTensors late_state(const store::Store& store, const Digest& file, const std::string& what) {
  const auto reader = std::make_shared<store::BlobReader>(store.open_blob(file));
  const auto read = [reader, what](std::uint64_t at, void* to, std::size_t count) {
    if (reader->read_at(at, to, count) != count) fail(ErrorKind::kCorrupt, "{}: the state ends too early", what);
  };
  return nn::late_tensors(reader->size(), read, what);
}

store::Entry add_file(store::Batch& batch, const std::string& path, ByteView bytes) {
  store::Entry entry;
  entry.path = path;
  entry.size = bytes.size();
  entry.content = batch.add_blob(bytes);
  return entry;
}

Json epoch_to_json(const EpochSums& epoch) {
  return {{"batches", epoch.batches}, {"correct", epoch.correct}, {"counted", epoch.counted}, {"loss", epoch.loss}};
}

EpochSums epoch_from_json(const Json& json, const std::string& what) {
  EpochSums out;
  out.loss = json_number(json, "loss", what);
  out.batches = json_int(json, "batches", what);
  out.correct = json_int(json, "correct", what);
  out.counted = json_int(json, "counted", what);
  return out;
}

Json worker_to_json(const WorkerState& worker) {
  Json round = Json::array();
  for (const StepRecord& step : worker.round)
    round.push_back({step.loss, step.labels, step.gradient_norm, step.correct, step.counted});
  return {{"round", std::move(round)}, {"step", worker.step}};
}

WorkerState worker_from_json(const Json& json, const std::string& what) {
  WorkerState out;
  out.step = json_int(json, "step", what);
  for (const Json& step : json_array(json, "round", what)) {
    const auto number = [&](std::size_t i) {
      const bool good = step.is_array() && step.size() == 5 && step[i].is_number();
      if (!good) fail(ErrorKind::kCorrupt, "{}: expected five numbers for each step of a round", what);
      return step[i].get<double>();
    };
    out.round.push_back({.loss = number(0),
                         .labels = number(1),
                         .gradient_norm = number(2),
                         .correct = static_cast<std::int64_t>(number(3)),
                         .counted = static_cast<std::int64_t>(number(4))});
  }
  return out;
}

nn::TensorStream stream_of(const CheckpointState& state) {
  nn::TensorRefs refs;
  const auto add = [&](std::string_view prefix, const graph::Tensors& tensors) {
    for (const auto& [name, tensor] : tensors)
      refs.emplace(std::string(prefix) + name, graph::TensorView{tensor.shape, tensor.data});
  };
  add("", state.tensors);
  add(kBest, state.best);
  for (std::size_t i = 0; i < state.waiting.size(); ++i) add(waiting_prefix(i), state.waiting[i]);
  add(kOuter, state.local.weights);
  add(kMomentum, state.local.momentum);
  for (std::size_t i = 0; i < state.local.workers.size(); ++i) add(worker_prefix(i), state.local.workers[i].tensors);
  return nn::stream_tensors(refs, state.late);
}

// Makes the tensors whose names begin so, without the prefix.
graph::Tensors take_prefixed(nn::LateTensors& late, std::string_view prefix) {
  graph::Tensors out;
  for (auto at = late.shapes.lower_bound(std::string(prefix));
       at != late.shapes.end() && at->first.starts_with(prefix);) {
    out[at->first.substr(prefix.size())] = {at->second, late.make(at->first)};
    at = late.shapes.erase(at);
  }
  return out;
}

store::Entry add_tensors(store::Batch& batch, const std::string& path, const CheckpointState& state) {
  const nn::TensorStream stream = stream_of(state);
  store::Entry entry;
  entry.path = path;
  entry.size = stream.size;
  entry.content = batch.add_stream(stream.read, stream.size);
  return entry;
}

std::string head_of(const CheckpointState& state, const Digest& key) {
  Json head = {{"epoch", epoch_to_json(state.epoch)},
               {"format", kFormat},
               {"key", key.text()},
               {"selection", to_json(state.selection)},
               {"step", state.step}};
  for (const WorkerState& worker : state.local.workers) head["workers"].push_back(worker_to_json(worker));
  if (!state.waiting.empty()) head["waiting"] = state.waiting.size();
  return canonical(head);
}

CheckpointState head_from(std::string_view json, const std::string& what) {
  const Json head = parse_json(json, what);
  if (json_string(head, "format", what) != kFormat)
    fail(ErrorKind::kCorrupt, "{}: unknown format '{}'", what, json_string(head, "format", what));
  CheckpointState state;
  state.key = Digest::parse(json_string(head, "key", what));
  state.step = json_int(head, "step", what);
  if (head.contains("epoch")) state.epoch = epoch_from_json(head["epoch"], what);
  if (head.contains("selection")) state.selection = selection_from_json(head["selection"], what);
  if (head.contains("waiting")) {
    const std::int64_t waiting = json_int(head, "waiting", what);
    if (waiting < 0 || waiting > kMostWaiting) fail(ErrorKind::kCorrupt, "{}: {} steps wait", what, waiting);
    state.waiting.resize(static_cast<std::size_t>(waiting));
  }
  if (head.contains("workers"))
    for (const Json& each : json_array(head, "workers", what))
      state.local.workers.push_back(worker_from_json(each, what));
  return state;
}

// Takes what does not belong to the session from among its tensors.
void take_apart(CheckpointState& state) {
  state.best = take_prefixed(state.late, kBest);
  for (std::size_t i = 0; i < state.waiting.size(); ++i)
    state.waiting[i] = take_prefixed(state.late, waiting_prefix(i));
  if (state.local.workers.empty()) return;
  state.local.weights = take_prefixed(state.late, kOuter);
  state.local.momentum = take_prefixed(state.late, kMomentum);
  for (std::size_t i = 0; i < state.local.workers.size(); ++i)
    state.local.workers[i].tensors = take_prefixed(state.late, worker_prefix(i));
}

}  // namespace

std::string to_text(const EpochSums& epoch, bool counts) {
  const auto mean = [](double sum, std::int64_t count) {
    return sum / static_cast<double>(std::max<std::int64_t>(1, count));
  };
  std::string text = fmt::format("  loss {:.4f}", mean(epoch.loss, epoch.batches));
  if (counts) text += fmt::format("  acc {:.2f} %", 100 * mean(static_cast<double>(epoch.correct), epoch.counted));
  return text;
}

std::string to_text(const Metrics& valid) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(valid.size(), 2); ++i)
    text += fmt::format("  valid {} {:.4f}", valid[i].first, valid[i].second);
  return text;
}

Digest store_checkpoint(store::Store& store, const Digest& key, const CheckpointState& state) {
  const std::string head = head_of(state, key);
  const std::unique_ptr<store::Batch> batch = store.begin();
  const store::Entry json = add_file(*batch, "checkpoint.json", as_bytes(head));
  const store::Entry tensors = add_tensors(*batch, "state.safetensors", state);
  const store::ManifestSummary manifest = batch->add_manifest({json, tensors});
  batch->commit();
  return manifest.id;
}

CheckpointState read_checkpoint(const store::Store& store, const Digest& manifest) {
  const std::string what = "checkpoint " + manifest.brief();
  CheckpointState state = head_from(as_text(store.read_blob(file_of(store, manifest, "checkpoint.json"))), what);
  state.late = late_state(store, file_of(store, manifest, "state.safetensors"), what);
  take_apart(state);
  return state;
}

void complete(CheckpointState& state) {
  for (const auto& [name, shape] : state.late.shapes) state.tensors[name] = {shape, state.late.make(name)};
  state.late = {};
}

Bytes encode_checkpoint(const CheckpointState& state) {
  const std::string head = head_of(state, state.key);
  const nn::TensorStream stream = stream_of(state);
  ByteWriter out(head.size() + 8 + stream.size);
  out.u64(head.size());
  out.raw(as_bytes(head));
  Bytes bytes = out.take();
  std::size_t at = bytes.size();
  bytes.resize(at + stream.size);
  while (at < bytes.size()) at += stream.read(bytes.data() + at, bytes.size() - at);
  return bytes;
}

CheckpointState decode_checkpoint(ByteView bytes, const std::string& what) {
  ByteReader in(bytes, what);
  const ByteView head = in.take(in.u64());
  CheckpointState state = head_from(as_text(head), what);
  const ByteView tensors = in.take(in.left());
  state.late = nn::late_tensors(
      tensors.size(),
      [tensors](std::uint64_t at, void* to, std::size_t count) { std::memcpy(to, tensors.data() + at, count); }, what);
  take_apart(state);
  complete(state);
  return state;
}

}  // namespace mlx::train
