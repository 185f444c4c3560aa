// Sessions: feeds bind symbols, symbols choose a bucket, the bucket's steps run through the pool.
//
// What outlives a step is held by value id and written in place by kernels. Every value has a version, counted up when
// it is written, so that packed weights are made again only when they are stale.

#include "graph/session.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "graph/bucket.h"
#include "graph/node_profile.h"
#include "graph/on_device.h"

namespace mlx::graph {
namespace {

constexpr std::size_t kMaxBuckets = 32;  // beyond, the one used longest ago is dropped

std::size_t index(ValueId id) {
  return static_cast<std::size_t>(id);
}

std::string shape_text(const std::vector<std::int64_t>& dims) {
  std::string text = "[";
  for (const std::int64_t size : dims) text += fmt::format("{}{}", text.size() > 1 ? "," : "", size);
  return text + "]";
}

}  // namespace

struct Session::State {
  State(Graph&& g, const SessionOptions& o, Pool& p)
      : graph(std::move(g)), options(o), pool(p), device(kernels::device_of(o.level)) {}

  Graph graph;
  SessionOptions options;
  Pool& pool;
  const kernels::Device& device;

  std::vector<Memory> held;  // by value: what outlives a step; null for the others and before it came into being
  std::vector<std::size_t> held_bytes;  // by value
  std::vector<std::uint64_t> version;   // by value, from 1
  std::vector<char> fixed_symbol;       // by symbol: a state or bind_symbol fixed it
  std::vector<std::int64_t> bound;      // by symbol: the size where it is fixed, else 0
  std::vector<std::int64_t> sizes;      // by symbol, of this run

  std::list<Bucket> buckets;
  Bucket* current = nullptr;
  std::uint64_t uses = 0;
  Memory arena;
  std::size_t arena_capacity = 0;
  std::vector<const void*> fed;         // by value
  std::unique_ptr<OnDevice> on_device;  // null on the host

  // The step that runs, for the pool's body.
  const Step* step = nullptr;
  kernels::Args args;
  int phase = 0;
  std::function<void(std::int64_t)> body = [this](std::int64_t slice) {
    const kernels::Plan& plan = step->kernel.plan();
    plan.run(plan.state, args, phase, static_cast<int>(slice));
  };

  OnDevice::Take taking = [this](std::size_t bytes, const std::string& what) { return take(bytes, what); };

  std::vector<Step*> stale;  // whose packed weights are older than the weights
  std::function<void(std::int64_t)> pack_body = [this](std::int64_t i) { pack(*stale[static_cast<std::size_t>(i)]); };

  NodeProfile profile;

  Memory take(std::size_t bytes, const std::string& what);
  ByteView view(ValueId id, const void* data, std::size_t bytes) const;
  void start(const Tensors& tensors);
  void create_states(const Tensors* tensors);
  bool known(const Value& value) const;
  ValueId held_named(const std::string& name) const;
  void bind(const std::vector<Feed>& feeds);
  void bind_symbol_of_feed(const Value& value, std::size_t axis, std::int64_t size);
  Bucket& bucket_for_sizes();
  void drop_buckets();
  void* address(const Bucket& bucket, ValueId id);
  void fill_pointers(Bucket& bucket);
  ValueId packed_root(const Step& each) const {
    return current->plan.root[index(each.inputs[static_cast<std::size_t>(each.kernel.plan().packed_input)])];
  }
  bool is_stale(const Step& each) const;
  void pack(Step& each);
  void pack_stale(Bucket& bucket, const RunOptions& run);
  void run_step(Step& step_to_run);
  void run_steps(Bucket& bucket, const RunOptions& run);
  void run_timed(Step& each);
};

Memory Session::State::take(std::size_t bytes, const std::string& what) {
  if (device.host) return allocate(bytes);
  if (on_device) on_device->forget();
  std::vector<Holder> holders{{"activations", arena_capacity}};
  for (std::size_t i = 0; i < held.size(); ++i) holders.push_back({"'" + graph.values[i].name + "'", held_bytes[i]});
  return graph::take(device, bytes, what, std::move(holders));
}

// Bytes of a value that lies at `data`, on the host.
ByteView Session::State::view(ValueId id, const void* data, std::size_t bytes) const {
  return on_device ? on_device->view(id, data, bytes) : ByteView{static_cast<const std::uint8_t*>(data), bytes};
}

// Parameters, states and constants that `tensors` has; all that is missing or does not fit is named at once.
void Session::State::start(const Tensors& tensors) {
  std::string wrong;
  for (const Value& value : graph.values) {
    if (!outlives_step(value.role) || !known(value)) continue;
    const auto found = tensors.find(value.name);
    if (found == tensors.end()) {
      if (value.role != Role::kState) wrong += fmt::format("{}'{}' is missing", wrong.empty() ? "" : ", ", value.name);
      continue;
    }
    const kernels::Shape wanted = concrete(value, bound);
    const Tensor& tensor = found->second;
    if (tensor.shape != wanted || tensor.data.size() != wanted.bytes()) {
      const auto dims = [](const kernels::Shape& shape) {
        return shape_text({shape.dims.begin(), shape.dims.begin() + std::max(shape.rank, 0)});
      };
      wrong += fmt::format("{}'{}' is {}{} instead of {}{}", wrong.empty() ? "" : ", ", value.name,
                           kernels::name_of(tensor.shape.dtype), dims(tensor.shape), kernels::name_of(value.dtype),
                           dims(wanted));
    }
  }
  if (!wrong.empty()) fail(ErrorKind::kCorrupt, "weights: {}", wrong);
  create_states(&tensors);
}

bool Session::State::known(const Value& value) const {
  return std::ranges::all_of(
      value.dims, [&](Dim dim) { return !dim.symbolic() || bound[static_cast<std::size_t>(dim.symbol)] > 0; });
}

// Those whose sizes are all known by now and that are not there yet; zero where `tensors` does not say otherwise.
void Session::State::create_states(const Tensors* tensors) {
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (!outlives_step(value.role) || held[i] || !known(value)) continue;
    const std::size_t bytes = concrete(value, bound).bytes();
    held[i] = take(bytes, "'" + value.name + "'");
    held_bytes[i] = bytes;
    version[i] = 1;
    const auto found = tensors ? tensors->find(value.name) : Tensors::const_iterator{};
    if (tensors && found != tensors->end()) {
      device.upload(held[i].get(), found->second.data.data(), bytes);
    } else {
      device.clear(held[i].get(), bytes);
    }
  }
}

ValueId Session::State::held_named(const std::string& name) const {
  const ValueId id = graph.find(name);
  if (id == kNone || !outlives_step(graph.value(id).role)) {
    fail(ErrorKind::kNotFound, "the session has no parameter, state or constant '{}'", name);
  }
  if (!held[index(id)]) fail(ErrorKind::kUsage, "the size of '{}' is not known before the first run", name);
  return id;
}

void Session::State::bind_symbol_of_feed(const Value& value, std::size_t axis, std::int64_t size) {
  const auto symbol = static_cast<std::size_t>(value.dims[axis].symbol);
  if (size < 1) fail(ErrorKind::kUsage, "'{}': {} must be at least 1, not {}", value.name, graph.symbols[symbol], size);
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
    if (feed.value < 0 || index(feed.value) >= graph.values.size() || graph.value(feed.value).role != Role::kInput) {
      fail(ErrorKind::kUsage, "value {} is not an input and cannot be fed", feed.value);
    }
    const Value& value = graph.value(feed.value);
    const bool fits = feed.dims.size() == value.dims.size() && feed.data;
    for (std::size_t axis = 0; fits && axis < feed.dims.size(); ++axis) {
      if (value.dims[axis].symbolic()) {
        bind_symbol_of_feed(value, axis, feed.dims[axis]);
      } else if (value.dims[axis].size != feed.dims[axis]) {
        fail(ErrorKind::kUsage, "'{}' must be {}, not {}", value.name, to_text(graph, value.dims),
             shape_text(feed.dims));
      }
    }
    if (!fits)
      fail(ErrorKind::kUsage, "'{}' must be {}, not {}", value.name, to_text(graph, value.dims), shape_text(feed.dims));
    fed[index(feed.value)] = feed.data;
    if (on_device) {
      std::size_t bytes = kernels::size_of(value.dtype);
      for (const std::int64_t size : feed.dims) bytes *= static_cast<std::size_t>(size);
      fed[index(feed.value)] = on_device->feed(feed.value, feed.data, bytes, value.name, taking);
    }
    ++version[index(feed.value)];
  }
  for (const ValueId id : graph.inputs) {
    if (!fed[index(id)]) fail(ErrorKind::kUsage, "the input '{}' was not fed", graph.value(id).name);
  }
  bool new_states = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
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

Bucket& Session::State::bucket_for_sizes() {
  if (!current || current->symbol_sizes != sizes) {
    const auto found =
        std::ranges::find_if(buckets, [&](const Bucket& bucket) { return bucket.symbol_sizes == sizes; });
    if (found != buckets.end()) {
      current = &*found;
    } else {
      std::vector<const void*> constants(graph.values.size(), nullptr);
      for (std::size_t i = 0; i < graph.values.size(); ++i) {
        const Role role = graph.values[i].role;
        const bool known_now = role == Role::kConstant || (role == Role::kParameter && !options.training);
        if (known_now && device.host) constants[i] = held[i].get();
      }
      Bucket made = make_bucket(graph, sizes, constants, {options.level, options.reuse_memory});
      if (buckets.size() >= kMaxBuckets) {
        if (on_device) on_device->forget();
        buckets.erase(std::ranges::min_element(buckets, {}, [](const Bucket& bucket) { return bucket.last_use; }));
      }
      buckets.push_back(std::move(made));
      current = &buckets.back();
    }
  }
  current->last_use = ++uses;
  if (current->plan.arena_bytes > arena_capacity) {
    arena.reset();  // first, so that the two are never there at once
    arena_capacity = 0;
    arena = take(current->plan.arena_bytes, "activations");
    arena_capacity = current->plan.arena_bytes;
  }
  return *current;
}

void Session::State::drop_buckets() {
  current = nullptr;
  if (on_device) on_device->forget();
  buckets.clear();
}

void* Session::State::address(const Bucket& bucket, ValueId id) {
  const int block = bucket.plan.block[index(id)];
  if (block >= 0)
    return static_cast<std::uint8_t*>(arena.get()) + bucket.plan.blocks[static_cast<std::size_t>(block)].offset;
  const ValueId root = bucket.plan.root[index(id)];
  if (held[index(root)]) return held[index(root)].get();
  return const_cast<void*>(fed[index(root)]);  // inputs are never written: validate() and the shape rules see to it
}

void Session::State::fill_pointers(Bucket& bucket) {
  for (Step& each : bucket.steps) {
    for (std::size_t i = 0; i < each.inputs.size(); ++i) {
      each.input_pointers[i] = each.inputs[i] == kNone ? nullptr : address(bucket, each.inputs[i]);
    }
    for (std::size_t i = 0; i < each.outputs.size(); ++i) {
      each.output_pointers[i] = each.outputs[i] == kNone ? nullptr : address(bucket, each.outputs[i]);
    }
  }
}

bool Session::State::is_stale(const Step& each) const {
  const int at = each.kernel.plan().packed_input;
  return at >= 0 && each.packed_version != version[index(packed_root(each))];
}

void Session::State::pack(Step& each) {
  const kernels::Plan& plan = each.kernel.plan();
  plan.pack(plan.state, each.input_pointers[static_cast<std::size_t>(plan.packed_input)], each.packed.get());
  each.packed_version = version[index(packed_root(each))];
}

// Packs the weights that are there before the run, those of different nodes side by side: of one node they are packed
// by one thread. What the run itself writes is packed when its node comes.
void Session::State::pack_stale(Bucket& bucket, const RunOptions& run) {
  stale.clear();
  std::size_t bytes = 0;
  for (Step& each : bucket.steps) {
    const auto node = static_cast<std::size_t>(each.node);
    if (node < run.first || node >= run.last || !is_stale(each) || !held[index(packed_root(each))]) continue;
    stale.push_back(&each);
    bytes += each.kernel.plan().packed_bytes;
  }
  if (stale.empty()) return;
  const double start = profile.on() ? seconds_now() : 0;
  if (stale.size() == 1) {
    pack(*stale[0]);
  } else {
    pool.run(static_cast<std::int64_t>(stale.size()), pack_body);
  }
  if (!profile.on()) return;
  const double a_byte = (seconds_now() - start) / static_cast<double>(bytes);
  for (const Step* each : stale)
    profile.add_packing(*each, a_byte * static_cast<double>(each->kernel.plan().packed_bytes));
}

void Session::State::run_step(Step& step_to_run) {
  const kernels::Plan& plan = step_to_run.kernel.plan();
  if (is_stale(step_to_run)) pack(step_to_run);
  step = &step_to_run;
  args.inputs = step_to_run.input_pointers.data();
  args.outputs = step_to_run.output_pointers.data();
  args.packed = step_to_run.packed.get();
  const int workspace = current->plan.workspace[static_cast<std::size_t>(step_to_run.node)];
  args.workspace = workspace < 0 ? nullptr
                                 : static_cast<std::uint8_t*>(arena.get()) +
                                       current->plan.blocks[static_cast<std::size_t>(workspace)].offset;
  for (phase = 0; phase < plan.phases; ++phase) {
    const int slices = plan.slices[static_cast<std::size_t>(phase)];
    if (slices == 1) {
      plan.run(plan.state, args, phase, 0);  // without waking the pool
    } else {
      pool.run(slices, body);
    }
  }
  for (const ValueId id : step_to_run.outputs) {
    if (id != kNone) ++version[index(id)];
  }
}

void Session::State::run_steps(Bucket& bucket, const RunOptions& run) {
  for (Step& each : bucket.steps) {
    const auto node = static_cast<std::size_t>(each.node);
    if (node < run.first || node >= run.last) continue;
    if (profile.on()) {
      run_timed(each);
    } else {
      run_step(each);
    }
    if (run.after && !run.after(node)) return;
  }
}

void Session::State::run_timed(Step& each) {
  const double start = seconds_now();
  run_step(each);
  check_device(device, graph.nodes[static_cast<std::size_t>(each.node)].name);
  profile.add(each, start, seconds_now() - start, &each == &current->steps.back());
}

Session::Session(Graph graph, const Tensors& tensors, const SessionOptions& options, Pool& pool)
    : state_(std::make_unique<State>(std::move(graph), options, pool)) {
  State& s = *state_;
  validate(s.graph);
  const std::size_t values = s.graph.values.size(), symbols = s.graph.symbols.size();
  s.held.resize(values);
  s.held_bytes.assign(values, 0);
  s.version.assign(values, 1);
  s.fed.assign(values, nullptr);
  s.fixed_symbol.assign(symbols, 0);
  s.bound.assign(symbols, 0);
  s.sizes.assign(symbols, 0);
  if (!s.device.host) s.on_device = std::make_unique<OnDevice>(s.device, values, s.taking);
  for (const Value& value : s.graph.values) {
    if (!outlives_step(value.role)) continue;
    for (const Dim dim : value.dims) {
      if (!dim.symbolic()) continue;
      if (value.role != Role::kState) fail(ErrorKind::kUsage, "'{}' must have fixed sizes", value.name);
      s.fixed_symbol[static_cast<std::size_t>(dim.symbol)] = 1;
    }
  }
  s.start(tensors);
}

Session::~Session() = default;

const Graph& Session::graph() const {
  return state_->graph;
}

void Session::bind_symbol(const std::string& name, std::int64_t size) {
  State& s = *state_;
  for (std::size_t i = 0; i < s.graph.symbols.size(); ++i) {
    if (s.graph.symbols[i] != name) continue;
    if (size < 1) fail(ErrorKind::kUsage, "{} must be at least 1, not {}", name, size);
    if (s.bound[i] > 0 && s.bound[i] != size) fail(ErrorKind::kUsage, "{} is already bound to {}", name, s.bound[i]);
    s.bound[i] = size;
    s.fixed_symbol[i] = 1;
    s.create_states(nullptr);
    return;
  }
  fail(ErrorKind::kNotFound, "the graph has no size '{}'", name);
}

void Session::run(const std::vector<Feed>& feeds, const RunOptions& options) {
  constexpr std::uint64_t kPart = 0x9E3779B97F4A7C15u;  // keys of Philox differ wherever seed or part do
  State& s = *state_;
  s.bind(feeds);
  Bucket& bucket = s.bucket_for_sizes();
  s.fill_pointers(bucket);
  s.args.seed = s.options.seed + options.part * kPart;
  s.args.step = options.step;
  s.stale.reserve(bucket.steps.size());
  s.pack_stale(bucket, options);
  s.profile.begin_run(bucket.steps.size());
  if (!s.on_device) return s.run_steps(bucket, options);
  s.on_device->start_run(s.args);
  if (s.profile.on() || options.after) {
    s.run_steps(bucket, options);
  } else {
    s.on_device->run({&bucket, options.first, options.last}, [&] { s.run_steps(bucket, options); });
  }
  const std::size_t end = std::min(options.last, s.graph.nodes.size());
  check_device(s.device, end > 0 ? s.graph.nodes[end - 1].name : "the start");
}

ByteView Session::output(ValueId value) const {
  const kernels::Shape shape = output_shape(value);
  return state_->view(value, state_->address(*state_->current, value), shape.bytes());
}

ByteView Session::value(ValueId value) const {
  CHECK(state_->current != nullptr);
  const kernels::Shape& shape = state_->current->shapes[index(value)];
  return state_->view(value, state_->address(*state_->current, value), shape.bytes());
}

kernels::Shape Session::output_shape(ValueId value) const {
  const State& s = *state_;
  if (std::ranges::find(s.graph.outputs, value) == s.graph.outputs.end()) {
    fail(ErrorKind::kUsage, "value {} is not an output of the graph", value);
  }
  if (!s.current) fail(ErrorKind::kUsage, "the session has not run yet");
  return s.current->shapes[index(value)];
}

Tensors Session::tensors(const std::function<bool(const Value&)>& wanted) const {
  const State& s = *state_;
  Tensors tensors;
  for (std::size_t i = 0; i < s.graph.values.size(); ++i) {
    if (!s.held[i] || (wanted && !wanted(s.graph.values[i]))) continue;
    tensors[s.graph.values[i].name] = {concrete(s.graph.values[i], s.bound),
                                       fetch(s.device, s.held[i].get(), s.held_bytes[i])};
  }
  return tensors;
}

const void* Session::state(const std::string& name) const {
  const ValueId id = state_->held_named(name);
  return state_->view(id, state_->held[index(id)].get(), state_->held_bytes[index(id)]).data();
}

void Session::set_state(const std::string& name, ByteView bytes) {
  State& s = *state_;
  const ValueId id = s.held_named(name);
  if (bytes.size() != s.held_bytes[index(id)]) {
    fail(ErrorKind::kUsage, "'{}' has {} bytes, not {}", name, s.held_bytes[index(id)], bytes.size());
  }
  s.device.upload(s.held[index(id)].get(), bytes.data(), bytes.size());
  ++s.version[index(id)];
  // Kernels may have looked at what was constant when they were prepared.
  const Role role = s.graph.value(id).role;
  if (role == Role::kConstant || (role == Role::kParameter && !s.options.training)) s.drop_buckets();
}

std::size_t Session::arena_bytes() const {
  return state_->current ? state_->current->plan.arena_bytes : 0;
}

std::size_t Session::state_bytes() const {
  std::size_t bytes = 0;
  for (const std::size_t each : state_->held_bytes) bytes += each;
  return bytes;
}

std::vector<NodeTime> Session::profile() const {
  return state_->profile.times();
}

const std::vector<NodeCall>& Session::calls() const {
  return state_->profile.calls();
}

void Session::set_profiling(bool on, std::int64_t keep_runs) {
  if (!on) return state_->profile.stop();
  state_->profile.start(state_->graph, keep_runs);
}

}  // namespace mlx::graph
