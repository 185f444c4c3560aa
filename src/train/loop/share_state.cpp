#include "train/loop/share_state.h"

#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "dist/collectives.h"

namespace mlx::train {

namespace {

Json told_by_rank_0(dist::Communicator& ranks, const Json& own) {
  Bytes bytes;
  if (ranks.rank() == 0) {
    const std::string text = canonical(own);
    bytes.assign(text.begin(), text.end());
  }
  dist::broadcast(ranks, 0, bytes);
  return ranks.rank() == 0 ? own : parse_json(as_text(bytes), "what rank 0 says");
}

}  // namespace

void share_work(dist::Communicator& ranks, SharedWork& work) {
  if (ranks.ranks() == 1) return;
  const Json told = told_by_rank_0(ranks, {{"base", work.base},
                                           {"config", work.config.text},
                                           {"dataset", work.dataset},
                                           {"file", work.config.file},
                                           {"key", work.key},
                                           {"memory", work.memory},
                                           {"portable", work.portable},
                                           {"precision", work.precision},
                                           {"profile", work.profile},
                                           {"records_only", work.records_only},
                                           {"sets", work.config.sets},
                                           {"verify_every", work.verify_every}});
  const auto text = [&](const char* name) { return json_string(told, name, "rank 0"); };
  std::vector<std::string> sets;
  for (const Json& set : json_array(told, "sets", "rank 0")) sets.push_back(set.get<std::string>());
  work.dataset = text("dataset"), work.base = text("base"), work.key = text("key");
  work.config = {text("file"), text("config"), std::move(sets)};
  work.precision = text("precision"), work.portable = told.at("portable").get<bool>();
  work.memory = json_int(told, "memory", "rank 0");
  work.records_only = json_bool(told, "records_only", "rank 0");
  work.verify_every = json_int(told, "verify_every", "rank 0");
  work.profile = told.at("profile").get<bool>();
}

void share_state(dist::Communicator& ranks, CheckpointState& state) {
  if (ranks.ranks() == 1) return;
  Bytes bytes;
  if (ranks.rank() == 0) {
    graph::Tensors best = std::exchange(state.best, {});  // is of use to rank 0 alone
    bytes = encode_checkpoint(state);
    state.best = std::move(best);
  }
  dist::broadcast(ranks, 0, bytes);
  if (ranks.rank() != 0) state = decode_checkpoint(bytes, "rank 0's state");
}

Digest digest_of(const graph::Tensors& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) {
    hash.update(as_bytes(name));
    hash.update(tensor.data);
  }
  return hash.finish();
}

void share_validation(dist::Communicator& ranks, Validation& made) {
  if (ranks.ranks() == 1) return;
  Json metrics = Json::array();
  for (const auto& [name, value] : made.metrics) metrics.push_back({name, value});
  const Json told = told_by_rank_0(ranks, {{"interrupted", made.interrupted}, {"metrics", metrics}});
  if (ranks.rank() == 0) return;
  made = {{}, told.at("interrupted").get<bool>()};
  for (const Json& metric : told.at("metrics"))
    made.metrics.emplace_back(metric.at(0).get<std::string>(), metric.at(1).get<double>());
}

}  // namespace mlx::train
