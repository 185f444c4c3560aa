#include "train/loop/share_state.h"

#include <bit>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "dist/collectives.h"
#include "dist/replicas.h"

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
                                           {"device", work.device},
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
  work.device = text("device");
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

StateDigests digests_of(const graph::Tensors& state, const graph::Partition& partition) {
  Sha256 of_all, of_part;
  for (const auto& [name, tensor] : state) {
    Sha256& hash = partition.cut_of(name) ? of_part : of_all;
    hash.update(as_bytes(name));
    hash.update(tensor.data);
  }
  return {of_all.finish(), of_part.finish()};
}

void check_replicas(dist::Communicator& ranks, const StateDigests& own, const graph::Partition& partition, int part,
                    std::int64_t step) {
  try {
    dist::check_replicas(ranks, own.of_all, step, partition.stage.stage);
    if (partition.parts > 1) dist::check_replicas(ranks, own.of_part, step, part);
  } catch (Error& error) {
    if (error.kind == ErrorKind::kCorrupt && ranks.rank() != 0) error.kind = ErrorKind::kInterrupted;
    throw;
  }
}

void share_refusal(dist::Communicator& ranks, const std::optional<Error>& own) {
  if (ranks.ranks() == 1) return;
  const std::string said = own ? fmt::format("{}: {}\n{}", ranks.name(), own->message, own->hint) : "";
  for (const Bytes& each : dist::all_gather(ranks, as_bytes(said))) {
    if (each.empty()) continue;
    const bool decides = ranks.rank() == 0;
    if (own && decides) throw Error(*own);
    const std::string text(as_text(each));
    const std::size_t line = text.find('\n');
    throw Error(decides ? ErrorKind::kUsage : ErrorKind::kInterrupted, text.substr(0, line), text.substr(line + 1));
  }
}

void share_validation(dist::Communicator& ranks, Validation& made) {
  if (ranks.ranks() == 1) return;
  Json metrics = Json::array();
  // By their bits: a loss may be no number, which JSON does not have.
  for (const auto& [name, value] : made.metrics) metrics.push_back({name, std::bit_cast<std::uint64_t>(value)});
  const Json told = told_by_rank_0(ranks, {{"interrupted", made.interrupted}, {"metrics", metrics}});
  if (ranks.rank() == 0) return;
  made = {{}, told.at("interrupted").get<bool>()};
  for (const Json& metric : told.at("metrics"))
    made.metrics.emplace_back(metric.at(0).get<std::string>(),
                              std::bit_cast<double>(metric.at(1).get<std::uint64_t>()));
}

}  // namespace mlx::train
