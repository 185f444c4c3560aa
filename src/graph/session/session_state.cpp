// The values of a session: what it holds, what it is fed, and the bucket for their sizes (session_state.h).

#include "graph/session/session_state.h"

#include <algorithm>

#include "base/error.h"
#include "graph/op_def.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kMaxBuckets = 32;  // then the least recently used one is dropped

std::string shape_text(const std::vector<std::int64_t>& dims) {
  std::string text = "[";
  for (const std::int64_t size : dims) text += fmt::format("{}{}", text.size() > 1 ? "," : "", size);
  return text + "]";
}

}  // namespace

Memory Session::State::take(std::size_t bytes, const std::string& what) {
  if (device.host) return allocate(bytes);
  if (on_device) on_device->drop_captured();
  std::vector<Holder> holders{{"activations", arena_capacity}};
  for (std::size_t i = 0; i < held.size(); ++i) holders.push_back({"'" + graph.values[i].name + "'", held[i].bytes});
  return graph::take(device, bytes, what, std::move(holders), options.training);
}

Bytes Session::State::fetch(const void* data, std::size_t bytes) const {
  if (on_device) return on_device->fetch(data, bytes);
  const auto* first = static_cast<const std::uint8_t*>(data);
  return {first, first + bytes};
}

// The bytes of a value at `data`, on the host.
ByteView Session::State::view(ValueId id, const void* data, std::size_t bytes) const {
  return on_device ? on_device->view(id, data, bytes) : ByteView{static_cast<const std::uint8_t*>(data), bytes};
}

void Session::State::init() {
  validate(graph);
  const std::size_t values = graph.values.size(), symbols = graph.symbols.size();
  held.resize(values);
  version.assign(values, 1);
  written.assign(values, 0);
  fed.assign(values, nullptr);
  fixed_symbol.assign(symbols, 0);
  bound.assign(symbols, 0);
  needed_symbol.assign(symbols, 0);
  sizes.assign(symbols, 0);
  if (!device.host) on_device = std::make_unique<OnDevice>(device, values);
  for (const Node& node : graph.nodes) {
    if (op_def(node.op).collective && (!options.collectives || !device.host))
      fail(ErrorKind::kUsage, "{} ({}) is for ranks on CPUs that run it together", node.name,
           kernels::name_of(node.op));
    for (const ValueId id : node.outputs)
      if (id != kNone) written[index(id)] = 1;
  }
  for (const Value& value : graph.values) {
    if (!outlives_step(value.role) && value.role != Role::kInput) continue;
    for (const Dim& dim : value.dims) {
      if (!dim.symbolic()) continue;
      needed_symbol[static_cast<std::size_t>(dim.symbol())] = 1;
      if (value.role == Role::kInput) continue;
      if (value.role != Role::kState) fail(ErrorKind::kUsage, "'{}' must have fixed sizes", value.name);
      fixed_symbol[static_cast<std::size_t>(dim.symbol())] = 1;
    }
  }
  const bool may_cut = options.backend.can().tiles_batches && !options.training && options.reuse_memory;
  if (may_cut && options.tile != 0) tiling = options.tile < 0 ? tiling_of(graph) : tiling_of(graph, options.tile);
}

// Takes parameters, states and constants from `weights`. Everything missing or misshapen is named at once.
void Session::State::start(const Weights& weights) {
  std::string wrong;
  for (const Value& value : graph.values) {
    if (!outlives_step(value.role) || !known(value)) continue;
    const auto found = weights.find(value.name);
    if (!found) {
      if (value.role != Role::kState) wrong += fmt::format("{}'{}' is missing", wrong.empty() ? "" : ", ", value.name);
      continue;
    }
    const kernels::Shape wanted = concrete(value, bound);
    if (found->shape() != wanted || (!found->late() && found->data().size() != wanted.bytes())) {
      const auto dims = [](const kernels::Shape& shape) {
        return shape_text({shape.dims.begin(), shape.dims.begin() + std::max(shape.rank, 0)});
      };
      wrong += fmt::format("{}'{}' is {}{} instead of {}{}", wrong.empty() ? "" : ", ", value.name,
                           kernels::name_of(found->shape().dtype), dims(found->shape()), kernels::name_of(value.dtype),
                           dims(wanted));
    }
  }
  if (!wrong.empty()) fail(ErrorKind::kCorrupt, "weights: {}", wrong);
  create_states(&weights);
}

bool Session::State::known(const Value& value) const {
  return std::ranges::all_of(
      value.dims, [&](const Dim& dim) { return !dim.symbolic() || bound[static_cast<std::size_t>(dim.symbol())] > 0; });
}

// Creates states whose sizes are all known by now; zero if `weights` has no such tensor.
void Session::State::create_states(const Weights* weights) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (outlives_step(value.role) && !held[i].exists() && known(value)) hold(i, weights);
  }
}

// Refers to the weight of value `i` if no step writes it, else copies it.
void Session::State::hold(std::size_t i, const Weights* weights) {
  const Value& value = graph.values[i];
  const auto weight = weights ? weights->find(value.name) : nullptr;
  Held& here = held[i];
  const std::size_t bytes = concrete(value, bound).bytes();
  const auto take_memory = [&] { return take(bytes, "'" + value.name + "'"); };
  version[i] = 1;
  if (weight && !options.training && written[i] == 0) {
    here.weight = weight;
    if (device.host) {
      if (!weight->late()) here.address();
    } else {
      here.device_copy = weight->on(device, take_memory);
      here.data = const_cast<void*>(here.device_copy.get());  // never written
    }
  } else {
    here.own = take_memory();
    here.data = here.own.get();
    if (weight) {
      device.upload(here.data, weight->data().data(), bytes);
    } else {
      device.clear(here.data, bytes);
    }
  }
  here.bytes = bytes;
}

ValueId Session::State::held_named(const std::string& name) const {
  const ValueId id = graph.find(name);
  if (id == kNone || !outlives_step(graph.value(id).role)) {
    fail(ErrorKind::kNotFound, "the session has no parameter, state or constant '{}'", name);
  }
  if (!held[index(id)].exists()) fail(ErrorKind::kUsage, "the size of '{}' is not known before the first run", name);
  return id;
}

// Checks one feed alone. Throws kUsage naming the input.
void Session::State::check(const Feed& feed) const {
  if (feed.value < 0 || index(feed.value) >= graph.values.size() || graph.value(feed.value).role != Role::kInput) {
    fail(ErrorKind::kUsage, "value {} is not an input and cannot be fed", feed.value);
  }
  const Value& value = graph.value(feed.value);
  bool fits = feed.dims.size() == value.dims.size() && feed.data;
  for (std::size_t axis = 0; fits && axis < feed.dims.size(); ++axis) {
    const Dim& dim = value.dims[axis];
    if (dim.symbolic() && feed.dims[axis] < 1) {
      fail(ErrorKind::kUsage, "'{}': {} must be at least 1, not {}", value.name, to_text(graph, dim), feed.dims[axis]);
    }
    fits = dim.symbolic() || dim.size == feed.dims[axis];
  }
  if (!fits)
    fail(ErrorKind::kUsage, "'{}' must be {}, not {}", value.name, to_text(graph, value.dims), shape_text(feed.dims));
}

void Session::State::bind_symbol_of_feed(const Value& value, std::size_t axis, std::int64_t size) {
  const auto symbol = static_cast<std::size_t>(value.dims[axis].symbol());
  if (sizes[symbol] > 0 && sizes[symbol] != size) {
    fail(ErrorKind::kUsage, "'{}': {} is {}, but it was {} before{}", value.name, graph.symbols[symbol], size,
         sizes[symbol], bound[symbol] > 0 ? " and the session's state has that size" : "");
  }
  sizes[symbol] = size;
}

void Session::State::bind(const std::vector<Feed>& feeds) {
  std::ranges::copy(bound, sizes.begin());
  std::ranges::fill(fed, nullptr);
  for (const Feed& feed : feeds) {
    check(feed);
    const Value& value = graph.value(feed.value);
    for (std::size_t axis = 0; axis < feed.dims.size(); ++axis)
      if (value.dims[axis].symbolic()) bind_symbol_of_feed(value, axis, feed.dims[axis]);
    fed[index(feed.value)] = feed.data;
    ++version[index(feed.value)];
  }
  for (const ValueId id : graph.inputs) {
    if (!fed[index(id)]) fail(ErrorKind::kUsage, "the input '{}' was not fed", graph.value(id).name);
  }
  bool new_states = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (needed_symbol[i] == 0 && sizes[i] < 1) sizes[i] = 1;
    if (sizes[i] < 1) {
      throw Error(ErrorKind::kUsage, fmt::format("the size '{}' is not bound", graph.symbols[i]),
                  "call bind_symbol first");
    }
    if (fixed_symbol[i] != 0 && bound[i] == 0) {
      bound[i] = sizes[i];
      new_states = true;
    }
  }
  if (new_states) create_states(nullptr);
}

// On a GPU: the bytes of feeds that fit.
const std::vector<FedBytes>& Session::State::bytes_of(const std::vector<Feed>& feeds) {
  fed_bytes.clear();
  for (const Feed& feed : feeds) {
    std::size_t bytes = kernels::size_of(graph.value(feed.value).dtype);
    for (const std::int64_t size : feed.dims) bytes *= static_cast<std::size_t>(size);
    fed_bytes.push_back({feed.value, feed.data, bytes});
  }
  return fed_bytes;
}

// On a GPU, where kernels read the copies of what was fed.
void Session::State::place(const std::vector<Feed>& feeds) {
  for (const Feed& feed : feeds) fed[index(feed.value)] = on_device->feeding().place(feed.value);
}

Bucket Session::State::make_bucket_of(const std::vector<std::int64_t>& symbol_sizes) const {
  std::vector<const void*> constants(graph.values.size(), nullptr);
  std::vector<DType> stored;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Role role = graph.values[i].role;
    const bool known_now = role == Role::kConstant || (role == Role::kParameter && !options.training);
    if (known_now && device.host) constants[i] = held[i].data;
    stored.push_back(known_now && device.host && held[i].weight ? held[i].weight->stored() : graph.values[i].dtype);
  }
  return make_bucket(graph, symbol_sizes, constants, {options.backend, options.reuse_memory, options.kept, stored});
}

// Null if this run must be whole: its nodes are observed, or the batch is not worth cutting.
Tiles* Session::State::tiles_for(const RunOptions& run) {
  if (tiling.symbol < 0 || profile.on() || run.after || run.first > 0 || run.last < graph.nodes.size()) return nullptr;
  const auto symbol = static_cast<std::size_t>(tiling.symbol);
  const std::int64_t size = tiling.size(sizes[symbol]);
  if (size == 0) return nullptr;
  const auto found = std::ranges::find(tiles, size, &Tiles::size);
  if (found != tiles.end()) return &*found;
  std::vector<std::int64_t> of_tile = sizes;
  of_tile[symbol] = size;
  std::vector<Bucket> lanes;
  ++plans;
  for (int i = 0; i < pool.threads(); ++i) {
    lanes.push_back(make_bucket_of(of_tile));
    for (Step& each : lanes.back().steps) {
      for (int at = 0; at < static_cast<int>(each.inputs.size()); ++at) {
        if (each.inputs[static_cast<std::size_t>(at)] == kNone) continue;
        const bool is_held = held[index(root_of(lanes.back(), each, at))].exists();
        if (is_held) each.input_pointers[static_cast<std::size_t>(at)] = input_of(lanes.back(), each, at);
      }
      if (i == 0 && each.kernel.plan().packed_input >= 0) pack(lanes.back(), each);
    }
  }
  return &tiles.emplace_back(graph, std::move(lanes));
}

Bucket& Session::State::bucket_for_sizes() {
  if (!current || current->symbol_sizes != sizes) {
    const auto found =
        std::ranges::find_if(buckets, [&](const Bucket& bucket) { return bucket.symbol_sizes == sizes; });
    if (found != buckets.end()) {
      current = &*found;
    } else {
      Bucket made = make_bucket_of(sizes);
      ++plans;
      if (buckets.size() >= kMaxBuckets) {
        if (on_device) on_device->drop_captured();
        buckets.erase(std::ranges::min_element(buckets, {}, [](const Bucket& bucket) { return bucket.last_use; }));
      }
      buckets.push_back(std::move(made));
      current = &buckets.back();
    }
  }
  current->last_use = ++uses;
  if (current->plan.bytes() > arena_capacity) {
    arena.reset();  // first, so that two never exist at once
    arena_capacity = 0;
    arena = take(current->plan.bytes(), "activations");
    arena_capacity = current->plan.bytes();
  }
  return *current;
}

void Session::State::drop_buckets() {
  current = nullptr;
  if (on_device) on_device->drop_captured();
  buckets.clear();
  tiled = nullptr;
  tiles.clear();
}

void* Session::State::address(const Bucket& bucket, ValueId id) {
  if (const int at = bucket.plan.block[index(id)]; at >= 0) {
    const Block& block = bucket.plan.blocks[static_cast<std::size_t>(at)];
    const std::size_t before =
        block.kept ? bucket.plan.arena_bytes + static_cast<std::size_t>(slot) * bucket.plan.slot_bytes : 0;
    return static_cast<std::uint8_t*>(arena.get()) + before + block.offset;
  }
  const ValueId root = bucket.plan.root[index(id)];
  if (held[index(root)].exists()) return held[index(root)].address();
  return const_cast<void*>(fed[index(root)]);  // inputs are never written: validate() and the shape rules ensure it
}

}  // namespace mlx::graph
