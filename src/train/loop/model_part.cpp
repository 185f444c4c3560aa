// Whole tensors and parts travel one by one, so that the first rank has one of them twice, and not all.
#include "train/loop/model_part.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "dist/collectives.h"
#include "nn/model.h"
#include "train/loop/share_state.h"

namespace mlx::train {

ModelPart::ModelPart(const dist::RankGrid& grid, graph::Partition partition)
    : grid_(grid), partition_(std::move(partition)), sum_(grid.row()) {
  CHECK(partition_.parts == grid.row().ranks() && partition_.part == grid.row().rank());
}

void ModelPart::all_reduce(std::span<float> data) {
  const double began = seconds_now();
  bytes_sent_ += sum_.sum(data);
  seconds_ += seconds_now() - began;
}

void ModelPart::all_gather(ByteView own, std::span<std::uint8_t> all) {
  const double began = seconds_now();
  std::uint8_t* to = all.data();
  for (const Bytes& bytes : dist::all_gather(grid_.row(), own)) {
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

void ModelPart::share(CheckpointState& state) {
  if (divided() && grid_.column().rank() == 0) {
    if (grid_.row().rank() == 0)
      hand_out(state);
    else
      receive_part(state);
  }
  share_state(grid_.column(), state);
}

void ModelPart::hand_out(CheckpointState& state) {
  dist::Communicator& row = grid_.row();
  graph::Tensors tensors = std::exchange(state.tensors, {}), best = std::exchange(state.best, {});
  nn::LateTensors late = std::exchange(state.late, {});
  Bytes head = encode_checkpoint(state);  // without tensors
  dist::broadcast(row, 0, head);
  const auto hand = [&](const std::string& name, graph::Tensor whole) {
    const graph::Cut* const cut = cut_of(name);
    const bool pieces = has_pieces(name);
    for (int part = 1; part < row.ranks(); ++part) {
      if (pieces)
        dist::send_bytes(row, part, nn::encode_tensors({{name, graph::part_of(whole, *cut, row.ranks(), part)}}));
      else if (!cut)
        dist::send_bytes(row, part, nn::encode_tensors({{name, whole}}));
    }
    return pieces ? graph::part_of(whole, *cut, row.ranks(), 0) : std::move(whole);
  };
  for (; !tensors.empty(); tensors.erase(tensors.begin()))
    state.tensors[tensors.begin()->first] = hand(tensors.begin()->first, std::move(tensors.begin()->second));
  for (const auto& [name, shape] : late.shapes) state.tensors[name] = hand(name, {shape, late.make(name)});
  state.best = std::move(best);
  for (int part = 1; part < row.ranks(); ++part) dist::send_bytes(row, part, {});
}

void ModelPart::receive_part(CheckpointState& state) {
  Bytes head;
  dist::broadcast(grid_.row(), 0, head);
  state = decode_checkpoint(head, "rank 0's state");
  for (Bytes one = dist::receive_bytes(grid_.row(), 0); !one.empty(); one = dist::receive_bytes(grid_.row(), 0))
    state.tensors.merge(nn::decode_tensors(one, "a part of rank 0's state"));
}

// The whole of a tensor of which this rank, the first, has `own`; the others send theirs.
Bytes ModelPart::gathered(const std::string& name, const kernels::Shape& shape, ByteView own) {
  const graph::Cut& cut = *cut_of(name);
  graph::Tensor all{graph::whole_shape(shape, cut, partition_.parts), {}};
  all.data.resize(all.shape.bytes());
  graph::put_part(all, cut, partition_.parts, 0, own);
  for (int part = 1; part < partition_.parts; ++part)
    graph::put_part(all, cut, partition_.parts, part, dist::receive_bytes(grid_.row(), part));
  return std::move(all.data);
}

graph::Tensors ModelPart::whole(graph::Tensors parts) {
  if (!divided()) return parts;
  if (grid_.column().rank() > 0) return {};
  graph::Tensors out;
  while (!parts.empty()) {
    auto node = parts.extract(parts.begin());
    graph::Tensor& tensor = node.mapped();
    if (grid_.row().rank() > 0) {
      if (has_pieces(node.key())) dist::send_bytes(grid_.row(), 0, tensor.data);
      continue;
    }
    if (has_pieces(node.key())) {
      tensor.data = gathered(node.key(), tensor.shape, tensor.data);
      tensor.shape = graph::whole_shape(tensor.shape, *cut_of(node.key()), partition_.parts);
    }
    out.insert(std::move(node));
  }
  return out;
}

void ModelPart::gather_state(const graph::Session& session, const std::function<void(nn::LateTensors)>& take) {
  std::map<std::string, kernels::Shape> own;
  for (const graph::Value& value : session.graph().values)
    if (graph::outlives_step(value.role) && !value.name.ends_with(graph::kGradientSum))
      own[value.name] = graph::concrete(value, {});
  const auto bytes_of = [&](const std::string& name) {
    return ByteView{static_cast<const std::uint8_t*>(session.state(name)), own.at(name).bytes()};
  };
  std::vector<std::string> pieces;  // in the order in which all send them
  for (const auto& [name, shape] : own)
    if (has_pieces(name)) pieces.push_back(name);
  if (grid_.row().rank() > 0) {
    for (const std::string& name : pieces) dist::send_bytes(grid_.row(), 0, bytes_of(name));
    return;
  }
  nn::LateTensors late;
  for (const auto& [name, shape] : own)
    late.shapes[name] = has_pieces(name) ? graph::whole_shape(shape, *cut_of(name), partition_.parts) : shape;
  std::size_t made = 0;  // of `pieces`
  late.make = [&](const std::string& name) {
    const ByteView bytes = bytes_of(name);
    if (!has_pieces(name)) return Bytes(bytes.begin(), bytes.end());
    CHECK(pieces.at(made) == name);
    ++made;
    return gathered(name, own.at(name), bytes);
  };
  const auto receive_rest = [&] {  // of a state that could not be stored
    for (; made < pieces.size(); ++made)
      for (int part = 1; part < partition_.parts; ++part) dist::receive_bytes(grid_.row(), part);
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
