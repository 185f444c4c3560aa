// Checkpoints in the store.

#include "train/loop/checkpoint.h"

#include "base/error.h"
#include "base/json.h"
#include "nn/model.h"

namespace mlx::train {
namespace {

constexpr const char* kFormat = "mlx.checkpoint/1";
constexpr std::string_view kBest = "best/";  // prefix for the names of the best model's tensors

Bytes read_file_of(const store::Store& store, const Digest& manifest, const std::string& path) {
  const std::optional<store::Entry> entry = store.find(manifest, path);
  if (!entry) fail(ErrorKind::kCorrupt, "checkpoint {} has no {}", manifest.brief(), path);
  return store.read_blob(entry->content);
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

nn::TensorStream stream_of(const CheckpointState& state) {
  nn::TensorRefs refs;
  for (const auto& [name, tensor] : state.tensors) refs.emplace(name, graph::TensorView{tensor.shape, tensor.data});
  for (const auto& [name, tensor] : state.best)
    refs.emplace(std::string(kBest) + name, graph::TensorView{tensor.shape, tensor.data});
  return nn::stream_tensors(refs);
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
  return canonical({{"epoch", epoch_to_json(state.epoch)},
                    {"format", kFormat},
                    {"key", key.text()},
                    {"selection", to_json(state.selection)},
                    {"step", state.step}});
}

CheckpointState state_of(std::string_view json, ByteView tensors, const std::string& what) {
  const Json head = parse_json(json, what);
  if (json_string(head, "format", what) != kFormat)
    fail(ErrorKind::kCorrupt, "{}: unknown format '{}'", what, json_string(head, "format", what));
  CheckpointState state;
  state.key = Digest::parse(json_string(head, "key", what));
  state.step = json_int(head, "step", what);
  if (head.contains("epoch")) state.epoch = epoch_from_json(head["epoch"], what);
  if (head.contains("selection")) state.selection = selection_from_json(head["selection"], what);
  state.tensors = nn::decode_tensors(tensors, what);
  while (!state.tensors.empty()) {
    const auto found = state.tensors.lower_bound(std::string(kBest));
    if (found == state.tensors.end() || !found->first.starts_with(kBest)) break;
    auto node = state.tensors.extract(found);
    node.key().erase(0, kBest.size());
    state.best.insert(std::move(node));
  }
  return state;
}

}  // namespace

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
  const Bytes head = read_file_of(store, manifest, "checkpoint.json");
  return state_of(as_text(head), read_file_of(store, manifest, "state.safetensors"), "checkpoint " + manifest.brief());
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
  return state_of(as_text(head), in.take(in.left()), what);
}

}  // namespace mlx::train
