// Whole tensors and parts travel one by one, so that the first rank has one of them twice, and not all.
#include "train/loop/model_part.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "dist/collectives.h"
#include "nn/model.h"
#include "train/loop/share_state.h"

namespace mlx::train {
namespace {

Json json_of(const kernels::Shape& shape) {
  return {{"dims", std::vector(shape.dims.begin(), shape.dims.begin() + shape.rank)},
          {"dtype", static_cast<int>(shape.dtype)}};
}

kernels::Shape shape_from(const Json& json) {
  kernels::Shape shape;
  shape.dtype = static_cast<graph::DType>(json.at("dtype").get<int>());
  for (const Json& dim : json.at("dims"))
    shape.dims.at(static_cast<std::size_t>(shape.rank++)) = dim.get<std::int64_t>();
  return shape;
}

// What outlives a step of a rank's graph.
std::set<std::string> needed_by(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const graph::Value& value : graph.values)
    if (graph::outlives_step(value.role)) names.insert(value.name);
  return names;
}

}  // namespace

ModelPart::ModelPart(const dist::RankGrid& grid, graph::Partition partition)
    : grid_(grid), partition_(std::move(partition)), sum_(grid.stage()) {
  CHECK(partition_.parts == grid.stage().ranks() && partition_.part == grid.stage().rank());
  CHECK(partition_.stage.stages == grid.pipeline().ranks() && partition_.stage.stage == grid.pipeline().rank());
}

void ModelPart::all_reduce(std::span<float> data) {
  const double began = seconds_now();
  bytes_sent_ += sum_.sum(data);
  seconds_ += seconds_now() - began;
}

void ModelPart::all_gather(ByteView own, std::span<std::uint8_t> all) {
  const double began = seconds_now();
  std::uint8_t* to = all.data();
  for (const Bytes& bytes : dist::all_gather(grid_.stage(), own)) {
    if (bytes.size() != own.size())
      fail(ErrorKind::kIo, "a rank gave {} bytes instead of {}", bytes.size(), own.size());
    to = std::ranges::copy(bytes, to).out;
  }
  seconds_ += seconds_now() - began;
}

const graph::Cut* ModelPart::cut_of(const std::string& name) const {
  return partition_.cut_of(name);
}

bool ModelPart::has_pieces(const std::string& name) const {
  const graph::Cut* const cut = cut_of(name);
  return cut && cut->axis >= 0;
}

// A copy is another stage's to give; what all parts have is the first part's.
bool ModelPart::gives(const std::string& name) const {
  return !partition_.stage.copies(name) && (has_pieces(name) || partition_.part == 0);
}

ModelPart::Shapes ModelPart::given(const graph::Graph& graph,
                                   const std::function<bool(const graph::Value&)>& wanted) const {
  Shapes out;
  for (const graph::Value& value : graph.values)
    if (graph::outlives_step(value.role) && wanted(value) && gives(value.name))
      out[value.name] = graph::concrete(value, {});
  return out;
}

// Tells the first rank what each has. Empty on the others.
std::map<std::string, ModelPart::Source> ModelPart::sources(const Shapes& own) {
  Json said = Json::object();
  for (const auto& [name, shape] : own) {
    said[name] = json_of(shape);
    if (!has_pieces(name)) continue;
    said[name]["axis"] = cut_of(name)->axis;
    said[name]["sections"] = cut_of(name)->sections;
  }
  std::map<std::string, Source> out;
  const std::vector<Bytes> all = dist::gather(grid_.row(), 0, as_bytes(canonical(said)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Json has = parse_json(as_text(all[rank]), "what a rank has");
    for (const auto& [name, what] : has.items()) {
      Source& source = out[name];
      source.ranks.push_back(static_cast<int>(rank));
      source.shape = shape_from(what);
      if (!what.contains("axis")) continue;
      source.cut = graph::Cut{what.at("axis").get<int>(), what.at("sections").get<std::vector<std::int64_t>>()};
      source.shape = graph::whole_shape(source.shape, *source.cut, partition_.parts);
    }
  }
  return out;
}

void ModelPart::share(CheckpointState& state, const graph::Graph& graph) {
  if (divided() && grid_.column().rank() == 0) {
    if (grid_.row().rank() == 0)
      hand_out(state, graph);
    else
      receive_part(state, graph);
  }
  share_state(grid_.column(), state);
}

// What a rank asks for, it needs: all of a tensor, or its piece of it.
void ModelPart::hand_out(CheckpointState& state, const graph::Graph& graph) {
  dist::Communicator& row = grid_.row();
  graph::Tensors tensors = std::exchange(state.tensors, {}), best = std::exchange(state.best, {});
  nn::LateTensors late = std::exchange(state.late, {});
  Bytes head = encode_checkpoint(state);  // without tensors
  dist::broadcast(row, 0, head);
  std::vector<std::set<std::string>> wanted;  // by rank
  for (const Bytes& bytes : dist::gather(row, 0, as_bytes("[]")))
    wanted.push_back(parse_json(as_text(bytes), "what a rank needs").get<std::set<std::string>>());
  const int parts = partition_.parts;
  const auto hand = [&](const std::string& name, const graph::Tensor& whole) {
    for (int rank = 1; rank < row.ranks(); ++rank) {
      if (!wanted[static_cast<std::size_t>(rank)].contains(name)) continue;
      const graph::Cut* const cut = cut_of(name);
      if (has_pieces(name))
        dist::send_bytes(row, rank, nn::encode_tensors({{name, graph::part_of(whole, *cut, parts, rank % parts)}}));
      else
        dist::send_bytes(row, rank, nn::encode_tensors({{name, whole}}));
    }
  };
  const std::set<std::string> own = needed_by(graph);
  const auto keep = [&](const std::string& name, graph::Tensor whole) {
    hand(name, whole);
    if (!own.contains(name)) return;
    state.tensors[name] = has_pieces(name) ? graph::part_of(whole, *cut_of(name), parts, 0) : std::move(whole);
  };
  for (; !tensors.empty(); tensors.erase(tensors.begin()))
    keep(tensors.begin()->first, std::move(tensors.begin()->second));
  for (const auto& [name, shape] : late.shapes) keep(name, {shape, late.make(name)});
  state.best = std::move(best);
  for (int rank = 1; rank < row.ranks(); ++rank) dist::send_bytes(row, rank, {});
}

void ModelPart::receive_part(CheckpointState& state, const graph::Graph& graph) {
  Bytes head;
  dist::broadcast(grid_.row(), 0, head);
  state = decode_checkpoint(head, "rank 0's state");
  (void)dist::gather(grid_.row(), 0, as_bytes(canonical(Json(needed_by(graph)))));
  for (Bytes one = dist::receive_bytes(grid_.row(), 0); !one.empty(); one = dist::receive_bytes(grid_.row(), 0))
    state.tensors.merge(nn::decode_tensors(one, "a part of rank 0's state"));
}

// The whole of a tensor, on the first rank: `own` is what it has of it.
Bytes ModelPart::gathered(const Source& source, ByteView own) {
  const auto piece_of = [&](int rank) {
    return rank == 0 ? Bytes(own.begin(), own.end()) : dist::receive_bytes(grid_.row(), rank);
  };
  if (!source.cut) return piece_of(source.ranks.at(0));
  graph::Tensor all{source.shape, {}};
  all.data.resize(all.shape.bytes());
  for (const int rank : source.ranks)
    graph::put_part(all, *source.cut, partition_.parts, rank % partition_.parts, piece_of(rank));
  return std::move(all.data);
}

// Averages of weights are given as the weights.
graph::Tensors ModelPart::whole_model(const graph::Session& session, const graph::Graph& forward) {
  if (grid_.column().rank() > 0) return {};
  const Shapes own =
      given(session.graph(), [&](const graph::Value& value) { return forward.find(value.name) != graph::kNone; });
  const auto bytes_of = [&](const std::string& name) {
    const auto found = own.find(name);
    if (found == own.end()) return ByteView{};
    const std::string average = name + graph::kAverage;
    const bool averaged = session.graph().find(average) != graph::kNone;
    return ByteView{static_cast<const std::uint8_t*>(session.state(averaged ? average : name)), found->second.bytes()};
  };
  const std::map<std::string, Source> all = sources(own);
  if (grid_.row().rank() > 0) {
    for (const auto& [name, shape] : own) dist::send_bytes(grid_.row(), 0, bytes_of(name));
    return {};
  }
  graph::Tensors out;
  for (const auto& [name, source] : all) out[name] = {source.shape, gathered(source, bytes_of(name))};
  return out;
}

void ModelPart::gather_state(const graph::Session& session, const std::function<void(nn::LateTensors)>& take) {
  const Shapes own =
      given(session.graph(), [](const graph::Value& value) { return !value.name.ends_with(graph::kGradientSum); });
  const auto bytes_of = [&](const std::string& name) {
    const auto found = own.find(name);
    if (found == own.end()) return ByteView{};
    return ByteView{static_cast<const std::uint8_t*>(session.state(name)), found->second.bytes()};
  };
  const std::map<std::string, Source> all = sources(own);
  if (grid_.row().rank() > 0) {
    for (const auto& [name, shape] : own) dist::send_bytes(grid_.row(), 0, bytes_of(name));  // in the order of names
    return;
  }
  nn::LateTensors late;
  for (const auto& [name, source] : all) late.shapes[name] = source.shape;
  auto next = all.begin();  // to be made
  late.make = [&](const std::string& name) {
    CHECK(next != all.end() && next->first == name);
    const Source& source = next++->second;
    return gathered(source, bytes_of(name));
  };
  const auto receive_rest = [&] {  // of a state that could not be stored
    for (; next != all.end(); ++next)
      for (const int rank : next->second.ranks)
        if (rank > 0) dist::receive_bytes(grid_.row(), rank);
  };
  try {
    take(std::move(late));
  } catch (const Error&) {
    receive_rest();
    throw;
  }
  receive_rest();
}

bool ModelPart::any(bool own) {
  if (!divided()) return own;
  const std::uint8_t said = own ? 1 : 0;
  const std::vector<Bytes> all = dist::all_gather(grid_.row(), {&said, 1});
  return std::ranges::any_of(all, [](const Bytes& each) { return each.at(0) != 0; });
}

bool ModelPart::said_by_first(bool own) {
  if (!divided()) return own;
  Bytes said{static_cast<std::uint8_t>(own ? 1 : 0)};
  dist::broadcast(grid_.row(), 0, said);
  return said.at(0) != 0;
}

std::string ModelPart::first_of(const std::string& own) {
  if (!divided()) return own;
  for (const Bytes& each : dist::all_gather(grid_.row(), as_bytes(own)))
    if (!each.empty()) return std::string(as_text(each));
  return "";
}

}  // namespace mlx::train
