// The pieces of a bucket go out as soon as they are updated, while the next bucket's are. State travels tensor by
// tensor, so that no rank ever holds all of it.
#include "train/loop/optimizer_shard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "dist/collectives.h"
#include "graph/session/not_finite.h"
#include "kernels/plan.h"
#include "kernels/table.h"
#include "nn/model.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kFewElements = 1 << 16;  // waking other threads would take longer
constexpr std::int64_t kElement = sizeof(float);
constexpr int kShardTag = 0;  // of squares: no bucket is on its way then

kernels::Shape vector_of(std::int64_t count) {
  kernels::Shape shape;
  shape.rank = 1;
  shape.dims[0] = count;
  return shape;
}

constexpr std::int64_t kAbsent = -1;

// A kernel on vectors of so many elements; kAbsent: there is none.
kernels::Prepared kernel_of(graph::Op op, const graph::Attrs& attrs, const std::vector<std::int64_t>& inputs,
                            const std::vector<std::int64_t>& outputs, kernels::Backend backend) {
  const auto shapes_of = [](const std::vector<std::int64_t>& counts) {
    std::vector<kernels::Shape> shapes;
    for (const std::int64_t count : counts) {
      shapes.push_back(vector_of(count));
      if (count == kAbsent) shapes.back().rank = -1;
    }
    return shapes;
  };
  const std::vector<kernels::Shape> in = shapes_of(inputs), out = shapes_of(outputs);
  const std::vector<const void*> constants(in.size(), nullptr);
  kernels::Problem problem;
  problem.op = op;
  problem.attrs = attrs;
  problem.input_count = static_cast<int>(in.size());
  problem.output_count = static_cast<int>(out.size());
  problem.inputs = in.data();
  problem.outputs = out.data();
  problem.constants = constants.data();
  return kernels::prepare(problem, backend);
}

kernels::Prepared norm_of(std::int64_t count, bool continues, kernels::Backend backend) {
  return kernel_of(graph::Op::kNorm, {}, {count, continues ? 1 : kAbsent}, {1}, backend);
}

void run_each(std::int64_t count, std::int64_t elements, Pool& pool, const std::function<void(std::int64_t)>& body) {
  if (elements > kFewElements) return pool.run(count, body);
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

ByteView bytes_of(std::span<const float> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

OptimizerShard::OptimizerShard(graph::SplitUpdates updates, const std::vector<SummedValue>& sums,
                               dist::Communicator& ranks, kernels::Backend backend)
    : updates_(std::move(updates)), ranks_(ranks), backend_(backend) {
  std::vector<dist::SummedArray> arrays;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    arrays.push_back(sums[i].array);
    array_of_[sums[i].name] = i;
  }
  layout_ = dist::layout_of(arrays, ranks.ranks());
  for (std::size_t i = 0; i < updates_.updates.size(); ++i)
    for (const std::string& state : updates_.updates[i].states) update_of_[state] = i;
}

std::vector<std::int64_t> OptimizerShard::cuts_of(std::int64_t elements, kernels::Backend backend) {
  const kernels::Prepared norm = norm_of(elements, false, backend);
  std::vector<std::int64_t> cuts;
  for (int slice = 1; slice < norm.plan().slices[0]; ++slice)
    cuts.push_back(kernels::elements_of_slice(elements, norm.plan().slices[0], slice).begin);
  return cuts;
}

std::vector<OptimizerShard::Owner> OptimizerShard::owners_of(std::size_t array) const {
  std::vector<Owner> out;
  for (int rank = 0; rank < ranks_.ranks(); ++rank) {
    const dist::ArrayPiece piece = dist::piece_of(layout_, array, rank);
    if (piece.size() > 0) out.push_back({rank, piece.begin, piece.end});
  }
  return out;
}

OptimizerShard::Size OptimizerShard::size() const {
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks_.ranks()), 0);
  Size out;
  for (const graph::ParameterUpdate& update : updates_.updates) {
    const auto states = static_cast<std::int64_t>(update.states.size());
    const std::size_t array = array_of_.at(update.gradient);
    out.all += states * layout_.places[array].count * kElement;
    if (states > 0) out.largest_tensor = std::max(out.largest_tensor, layout_.places[array].count * kElement);
    for (const Owner& owner : owners_of(array))
      of_rank[static_cast<std::size_t>(owner.rank)] += states * (owner.end - owner.begin) * kElement;
  }
  out.largest_rank = *std::ranges::max_element(of_rank);
  return out;
}

void OptimizerShard::share(CheckpointState& state) {
  states_.clear();
  for (const auto& [name, update] : update_of_) {
    const dist::ArrayPiece own =
        dist::piece_of(layout_, array_of_.at(updates_.updates[update].gradient), ranks_.rank());
    states_[name].assign(static_cast<std::size_t>(own.size()), 0.0f);
  }
  if (ranks_.rank() == 0)
    hand_out(state);
  else
    receive(state);
  prepare_kernels();
}

void OptimizerShard::hand_out(CheckpointState& state) {
  graph::Tensors tensors = std::exchange(state.tensors, {}), best = std::exchange(state.best, {});
  nn::LateTensors late = std::exchange(state.late, {});
  Bytes head = encode_checkpoint(state);  // without tensors
  dist::broadcast(ranks_, 0, head);
  const auto say = [&](std::string_view name) {
    Bytes said(name.begin(), name.end());
    dist::broadcast(ranks_, 0, said);
  };
  const auto hand = [&](const std::string& name, graph::Tensor whole) {
    say(name);
    if (update_of_.contains(name)) return hand_out(name, whole);
    Bytes bytes = nn::encode_tensors({{name, whole}});
    dist::broadcast(ranks_, 0, bytes);
    state.tensors[name] = std::move(whole);
  };
  for (; !tensors.empty(); tensors.erase(tensors.begin()))
    hand(tensors.begin()->first, std::move(tensors.begin()->second));
  for (const auto& [name, shape] : late.shapes) hand(name, {shape, late.make(name)});
  say("");
  state.best = std::move(best);
}

void OptimizerShard::hand_out(const std::string& name, const graph::Tensor& whole) {
  const graph::ParameterUpdate& update = updates_.updates[update_of_.at(name)];
  if (whole.shape != update.shape) fail(ErrorKind::kCorrupt, "'{}' has another shape than its parameter", name);
  for (const Owner& owner : owners_of(array_of_.at(update.gradient))) {
    const ByteView piece = ByteView(whole.data)
                               .subspan(static_cast<std::size_t>(owner.begin * kElement),
                                        static_cast<std::size_t>((owner.end - owner.begin) * kElement));
    if (owner.rank > 0)
      dist::send_bytes(ranks_, owner.rank, piece);
    else
      std::memcpy(states_.at(name).data(), piece.data(), piece.size());
  }
}

void OptimizerShard::receive(CheckpointState& state) {
  Bytes head;
  dist::broadcast(ranks_, 0, head);
  state = decode_checkpoint(head, "rank 0's state");
  for (;;) {
    Bytes said, bytes;
    dist::broadcast(ranks_, 0, said);
    if (said.empty()) return;
    const std::string name(as_text(said));
    if (!update_of_.contains(name)) {
      dist::broadcast(ranks_, 0, bytes);
      state.tensors.merge(nn::decode_tensors(bytes, "rank 0's state"));
    } else if (std::vector<float>& own = states_.at(name); !own.empty()) {
      bytes = dist::receive_bytes(ranks_, 0);
      CHECK(bytes.size() == own.size() * sizeof(float));
      std::memcpy(own.data(), bytes.data(), bytes.size());
    }
  }
}

void OptimizerShard::prepare_kernels() {
  pieces_.clear();
  pieces_.resize(layout_.buckets.size());
  for (std::size_t i = 0; i < updates_.updates.size(); ++i) {
    const graph::ParameterUpdate& update = updates_.updates[i];
    const std::size_t array = array_of_.at(update.gradient);
    const dist::ArrayPiece own = dist::piece_of(layout_, array, ranks_.rank());
    if (own.size() == 0) continue;
    std::vector<std::int64_t> outputs(1 + update.states.size(), own.size()), inputs = outputs;
    inputs.insert(inputs.begin() + 1, own.size());
    inputs.insert(inputs.end(), {1, limits_norm() ? 1 : kAbsent});
    pieces_[layout_.places[array].bucket].push_back(
        {i, own, kernel_of(update.op, update.attrs, inputs, outputs, backend_)});
  }
  if (!limits_norm()) return;
  scale_ = kernel_of(graph::Op::kGradientScale, updates_.scale, {1, kAbsent}, {1, 1, kAbsent, kAbsent}, backend_);
  norms_.clear();
  std::size_t slices = 0;
  for (const std::string& gradient : updates_.norms) {
    const std::size_t array = array_of_.at(gradient);
    const std::int64_t count = layout_.places[array].count;
    Norm& norm = norms_.emplace_back(Norm{array, norm_of(count, !norms_.empty(), backend_), {}, slices});
    const int cut = norm.kernel.plan().slices[0];
    for (int slice = 0; slice < cut; ++slice) {
      const std::int64_t begin = kernels::elements_of_slice(count, cut, slice).begin;
      for (const Owner& owner : owners_of(array))
        if (owner.begin <= begin && begin < owner.end) norm.owners.push_back(owner.rank);
    }
    constexpr std::size_t kLine = 8;  // a kernel's workspace begins at a multiple of 64 bytes
    slices += (static_cast<std::size_t>(cut) + kLine - 1) / kLine * kLine;
  }
  squares_ = graph::allocate(std::max<std::size_t>(1, slices) * sizeof(double));
}

void OptimizerShard::update(graph::Session& session, dist::GradientSum& sums, std::int64_t step, float rate,
                            Pool& pool) {
  rate_ = rate;
  if (limits_norm()) {
    sum_squares(sums, pool);
    exchange_squares();
    limit_norm();
  }
  finite_ = true;
  for (std::size_t bucket = 0; bucket < pieces_.size(); ++bucket) {
    if (!layout_.buckets[bucket].owned) continue;
    update_bucket(session, sums, bucket, step, pool);
    sums.gather(bucket);
  }
  sums.finish_gathers();
  take_parameters(session, sums, pool);
  agree_on_finite();
}

// Of the slices that this rank has.
void OptimizerShard::sum_squares(dist::GradientSum& sums, Pool& pool) {
  struct Slice {
    const Norm* norm = nullptr;
    int number = 0;
  };
  std::vector<Slice> own;
  std::int64_t elements = 0;
  for (const Norm& norm : norms_) {
    for (std::size_t slice = 0; slice < norm.owners.size(); ++slice)
      if (norm.owners[slice] == ranks_.rank()) own.push_back({&norm, static_cast<int>(slice)});
    elements += layout_.places[norm.array].count / ranks_.ranks();
  }
  run_each(static_cast<std::int64_t>(own.size()), elements, pool, [&](std::int64_t i) {
    const auto& [norm, slice] = own[static_cast<std::size_t>(i)];
    const std::array<const void*, 2> inputs{sums.sum(norm->array).data(), nullptr};
    kernels::Args args;
    args.inputs = inputs.data();
    args.workspace = squares_of(*norm);
    norm->kernel.plan().run(norm->kernel.plan().state, args, 0, slice);
  });
}

// Every rank gets those of all.
void OptimizerShard::exchange_squares() {
  std::vector<std::vector<double>> of_rank(static_cast<std::size_t>(ranks_.ranks()));
  const auto each = [&](const std::function<void(std::vector<double>&, double&)>& visit) {
    for (const Norm& norm : norms_)
      for (std::size_t slice = 0; slice < norm.owners.size(); ++slice)
        visit(of_rank[static_cast<std::size_t>(norm.owners[slice])], squares_of(norm)[slice]);
  };
  each([](std::vector<double>& of, double& square) { of.push_back(square); });
  std::vector<dist::Communicator::Transfer> transfers;
  const std::vector<double>& own = of_rank[static_cast<std::size_t>(ranks_.rank())];
  for (int other = 0; other < ranks_.ranks(); ++other) {
    if (other == ranks_.rank()) continue;
    std::vector<double>& theirs = of_rank[static_cast<std::size_t>(other)];
    transfers.push_back(ranks_.receive(other, kShardTag, theirs.data(), theirs.size() * sizeof(double)));
    transfers.push_back(ranks_.send(other, kShardTag, own.data(), own.size() * sizeof(double)));
  }
  ranks_.wait(transfers);
  std::vector<const double*> next;
  next.reserve(of_rank.size());
  for (const std::vector<double>& of : of_rank) next.push_back(of.data());
  for (const Norm& norm : norms_)
    for (std::size_t slice = 0; slice < norm.owners.size(); ++slice)
      squares_of(norm)[slice] = *next[static_cast<std::size_t>(norm.owners[slice])]++;
}

void OptimizerShard::limit_norm() {
  float norm = 0;
  for (const Norm& of : norms_) {
    const float before = norm;
    const std::array<const void*, 2> inputs{nullptr, &before};
    const std::array<void*, 1> outputs{&norm};
    kernels::Args args;
    args.inputs = inputs.data();
    args.outputs = outputs.data();
    args.workspace = squares_of(of);
    of.kernel.plan().run(of.kernel.plan().state, args, 1, 0);
  }
  const std::array<const void*, 2> inputs{&norm, nullptr};
  const std::array<void*, 4> outputs{&factor_, &norm_, nullptr, nullptr};
  kernels::Args args;
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  scale_.plan().run(scale_.plan().state, args, 0, 0);
}

// New parameters replace the sums of their gradients.
void OptimizerShard::update_bucket(graph::Session& session, dist::GradientSum& sums, std::size_t bucket,
                                   std::int64_t step, Pool& pool) {
  struct Call {
    const Piece* piece = nullptr;
    int slice = 0;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };
  std::vector<Call> calls;
  std::int64_t elements = 0;
  for (const Piece& piece : pieces_[bucket]) {
    const graph::ParameterUpdate& update = updates_.updates[piece.update];
    const graph::ValueId parameter = session.graph().find(update.parameter);
    float* const weights = reinterpret_cast<float*>(session.writable_state(parameter).data()) + piece.at.begin;
    Call call{&piece, 0, {weights, sums.sum(piece.at.array).data() + piece.at.begin}, {weights}};
    for (const std::string& state : update.states) {
      call.inputs.push_back(states_.at(state).data());
      call.outputs.push_back(states_.at(state).data());
    }
    call.inputs.insert(call.inputs.end(), {&rate_, &factor_});
    for (; call.slice < piece.kernel.plan().slices[0]; ++call.slice) calls.push_back(call);
    elements += piece.at.size();
  }
  run_each(static_cast<std::int64_t>(calls.size()), elements, pool, [&](std::int64_t i) {
    const Call& call = calls[static_cast<std::size_t>(i)];
    kernels::Args args;
    args.inputs = call.inputs.data();
    args.outputs = call.outputs.data();
    args.step = static_cast<std::uint64_t>(step);
    const kernels::Plan& plan = call.piece->kernel.plan();
    plan.run(plan.state, args, 0, call.slice);
  });
  std::atomic<bool> finite{true};
  run_each(static_cast<std::int64_t>(pieces_[bucket].size()), elements, pool, [&](std::int64_t i) {
    const Piece& piece = pieces_[bucket][static_cast<std::size_t>(i)];
    const graph::ParameterUpdate& update = updates_.updates[piece.update];
    const auto* const weights = static_cast<const float*>(session.state(update.parameter)) + piece.at.begin;
    std::copy_n(weights, piece.at.size(), sums.sum(piece.at.array).data() + piece.at.begin);
    for (const std::string& state : update.states)
      if (!graph::all_finite(bytes_of(states_.at(state)), graph::DType::kF32)) finite = false;
  });
  finite_ = finite_ && finite;
}

void OptimizerShard::take_parameters(graph::Session& session, dist::GradientSum& sums, Pool& pool) {
  const auto count = static_cast<std::int64_t>(updates_.updates.size());
  std::vector<std::span<std::uint8_t>> parameters;
  std::int64_t elements = 0;
  for (const graph::ParameterUpdate& update : updates_.updates) {
    parameters.push_back(session.writable_state(session.graph().find(update.parameter)));
    elements += update.shape.count();
  }
  run_each(count, elements, pool, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    const std::span<const float> all = sums.sum(array_of_.at(updates_.updates[at].gradient));
    std::memcpy(parameters[at].data(), all.data(), parameters[at].size());
  });
}

// Whether the state of all ranks is.
void OptimizerShard::agree_on_finite() {
  const std::uint8_t own = finite_ ? 1 : 0;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(ranks_.ranks()), own);
  std::vector<dist::Communicator::Transfer> transfers;
  for (int other = 0; other < ranks_.ranks(); ++other) {
    if (other == ranks_.rank()) continue;
    transfers.push_back(ranks_.receive(other, kShardTag, &all[static_cast<std::size_t>(other)], 1));
    transfers.push_back(ranks_.send(other, kShardTag, &own, 1));
  }
  ranks_.wait(transfers);
  finite_ = std::ranges::all_of(all, [](std::uint8_t each) { return each != 0; });
}

std::string OptimizerShard::first_not_finite() const {
  for (const auto& [name, values] : states_)
    if (!graph::all_finite(bytes_of(values), graph::DType::kF32)) return name;
  return "";
}

// The whole of a state; the others send their pieces.
Bytes OptimizerShard::gathered(const std::string& name) {
  const graph::ParameterUpdate& update = updates_.updates[update_of_.at(name)];
  Bytes out(update.shape.bytes());
  for (const Owner& owner : owners_of(array_of_.at(update.gradient))) {
    Bytes theirs;
    if (owner.rank > 0) theirs = dist::receive_bytes(ranks_, owner.rank);
    const ByteView piece = owner.rank > 0 ? ByteView(theirs) : bytes_of(states_.at(name));
    CHECK(static_cast<std::int64_t>(piece.size()) == (owner.end - owner.begin) * kElement);
    std::memcpy(out.data() + owner.begin * kElement, piece.data(), piece.size());
  }
  return out;
}

void OptimizerShard::gather_state(const graph::Session& session, const std::function<void(nn::LateTensors)>& take) {
  if (ranks_.rank() > 0) {
    for (const auto& [name, own] : states_)
      if (!own.empty()) dist::send_bytes(ranks_, 0, bytes_of(own));
    return;
  }
  nn::LateTensors late;
  for (const graph::Value& value : session.graph().values)
    if (graph::outlives_step(value.role) && !value.name.ends_with(graph::kGradientSum))
      late.shapes[value.name] = graph::concrete(value, {});
  for (const auto& [name, update] : update_of_) late.shapes[name] = updates_.updates[update].shape;
  auto next = states_.begin();  // all send them in this order
  late.make = [&](const std::string& name) {
    if (update_of_.contains(name)) {
      CHECK(next != states_.end() && next->first == name);
      ++next;
      return gathered(name);
    }
    const auto* const data = static_cast<const std::uint8_t*>(session.state(name));
    return Bytes(data, data + late.shapes.at(name).bytes());
  };
  const auto receive_rest = [&] {  // of a state that could not be stored
    for (; next != states_.end(); ++next) (void)gathered(next->first);
  };
  try {
    take(late);
  } catch (const Error&) {
    receive_rest();
    throw;
  }
  receive_rest();
}

bool OptimizerShard::said_by_first(bool own) {
  Bytes said{static_cast<std::uint8_t>(own ? 1 : 0)};
  dist::broadcast(ranks_, 0, said);
  return said.at(0) != 0;
}

std::string OptimizerShard::first_of(const std::string& own) {
  for (const Bytes& each : dist::all_gather(ranks_, as_bytes(own)))
    if (!each.empty()) return std::string(as_text(each));
  return "";
}

}  // namespace mlx::train
