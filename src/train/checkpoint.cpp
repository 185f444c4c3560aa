// Checkpoints in the store.

#include "train/checkpoint.h"

#include "base/error.h"
#include "base/json.h"
#include "nn/model.h"
#include "store/keys.h"

namespace mlx::train {
namespace {

constexpr const char* kFormat = "mlx.checkpoint/1";

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

}  // namespace

void save_checkpoint(registry::Repository& repository, const std::string& run, const Digest& key,
                     const CheckpointState& state, bool best) {
  const std::string head = canonical({{"format", kFormat}, {"key", key.text()}, {"step", state.step}});
  repository.store().use_domain(store::kMainDomain);
  const std::unique_ptr<store::Batch> batch = repository.store().begin();
  const store::Entry json = add_file(*batch, "checkpoint.json", as_bytes(head));
  const store::Entry tensors = add_file(*batch, "state.safetensors", nn::encode_tensors(state.tensors));
  const store::ManifestSummary manifest = batch->add_manifest({json, tensors});
  batch->commit();
  registry::Checkpoint checkpoint;
  checkpoint.run = run;
  checkpoint.step = state.step;
  checkpoint.manifest = manifest.id;
  checkpoint.best = best;
  record_checkpoint(repository, checkpoint);
}

std::optional<CheckpointState> load_checkpoint(registry::Repository& repository, const std::string& run,
                                               const Digest& key) {
  const std::vector<registry::Checkpoint> all = checkpoints(repository, run);
  if (all.empty()) return std::nullopt;
  const Digest manifest = all.back().manifest;
  const std::string what = "checkpoint " + manifest.brief();
  const Json head = parse_json(as_text(read_file_of(repository.store(), manifest, "checkpoint.json")), what);
  if (json_string(head, "format", what) != kFormat)
    fail(ErrorKind::kCorrupt, "{}: unknown format '{}'", what, json_string(head, "format", what));
  if (Digest::parse(json_string(head, "key", what)) != key) {
    throw Error(ErrorKind::kConflict, what + " was made with another config, dataset or version of mlx",
                "start a new run without --resume");
  }
  CheckpointState state;
  state.step = json_int(head, "step", what);
  state.tensors = nn::decode_tensors(read_file_of(repository.store(), manifest, "state.safetensors"), what);
  return state;
}

}  // namespace mlx::train
