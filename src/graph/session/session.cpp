// Sessions: feeds bind symbols, symbols choose a bucket, the bucket's steps run through the pool.

#include "graph/session/session.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "graph/passes/passes.h"
#include "graph/session/not_finite.h"
#include "graph/session/session_state.h"

namespace mlx::graph {

namespace {

// Copies the tensors that the graph has.
Weights copy_for(const Graph& graph, const Tensors& tensors) {
  Tensors copy;
  for (const Value& value : graph.values)
    if (const auto found = tensors.find(value.name); found != tensors.end()) copy.insert(*found);
  return Weights(std::move(copy));
}

}  // namespace

void Session::State::fill_pointers(Bucket& bucket) {
  for (Step& each : bucket.steps) {
    for (std::size_t i = 0; i < each.inputs.size(); ++i)
      each.input_pointers[i] = input_of(bucket, each, static_cast<int>(i));
    for (std::size_t i = 0; i < each.outputs.size(); ++i)
      each.output_pointers[i] = each.outputs[i] == kNone ? nullptr : address(bucket, each.outputs[i]);
  }
}

bool Session::State::is_stale(const Step& each) const {
  return each.kernel.plan().packed_input >= 0 && each.packed_version != version_to_pack(*current, each);
}

// Of the weights, and of the scales that are packed with them: versions only grow, and so does their sum.
std::uint64_t Session::State::version_to_pack(const Bucket& bucket, const Step& each) const {
  const kernels::Plan& plan = each.kernel.plan();
  return version[index(root_of(bucket, each, plan.packed_input))] +
         (plan.packed_scales < 0 ? 0 : version[index(root_of(bucket, each, plan.packed_scales))]);
}

bool Session::State::holds_what_is_packed(const Bucket& bucket, const Step& each) const {
  const kernels::Plan& plan = each.kernel.plan();
  return held[index(root_of(bucket, each, plan.packed_input))].exists() &&
         (plan.packed_scales < 0 || held[index(root_of(bucket, each, plan.packed_scales))].exists());
}

bool Session::State::packs_shared(const Bucket& bucket, const Step& each) const {
  const kernels::Plan& plan = each.kernel.plan();
  return plan.packed_input >= 0 && held[index(root_of(bucket, each, plan.packed_input))].weight &&
         (plan.packed_scales < 0 || held[index(root_of(bucket, each, plan.packed_scales))].weight);
}

// A late weight that is only packed is not made to be read as it is.
bool Session::State::only_packed(const Bucket& bucket, const Step& each, int at) const {
  const kernels::Plan& plan = each.kernel.plan();
  return (at == plan.packed_input || at == plan.packed_scales) && packs_shared(bucket, each);
}

// What a step's kernel reads at input `at`: a late weight as it is stored if the kernel takes it so, nothing if it is
// only packed.
const void* Session::State::input_of(const Bucket& bucket, const Step& each, int at) {
  const ValueId id = each.inputs[static_cast<std::size_t>(at)];
  if (id == kNone) return nullptr;
  const Held& here = held[index(root_of(bucket, each, at))];
  if (only_packed(bucket, each, at)) return here.data;
  if (at == each.kernel.plan().stored_input && here.weight) return here.weight->stored_data().data();
  return address(bucket, id);
}

void Session::State::pack(const Bucket& bucket, Step& each) {
  device.make_current();  // pack_stale() packs on the pool's threads
  const kernels::Plan& plan = each.kernel.plan();
  if (packs_shared(bucket, each)) {
    const auto weight = [&](int at) { return at < 0 ? nullptr : held[index(root_of(bucket, each, at))].weight.get(); };
    const ValueId input = each.inputs[static_cast<std::size_t>(plan.packed_input)];
    each.shared_packed =
        weight(plan.packed_input)->packed(plan, bucket.shapes[index(input)], weight(plan.packed_scales));
    each.packed = each.shared_packed.get();
  } else {
    const auto data = [&](int at) { return at < 0 ? nullptr : each.input_pointers[static_cast<std::size_t>(at)]; };
    if (!each.own_packed) each.own_packed = allocate(plan.packed_bytes);
    plan.pack(plan.state, data(plan.packed_input), data(plan.packed_scales), each.own_packed.get());
    each.packed = each.own_packed.get();
  }
  each.packed_version = version_to_pack(bucket, each);
}

// Packs weights that are known before the run, those of different nodes in parallel; one thread packs the weights of
// one node. Weights that the run itself writes are packed when their node runs.
void Session::State::pack_stale(Bucket& bucket, const RunOptions& run) {
  stale.clear();
  std::size_t bytes = 0;
  for (Step& each : bucket.steps) {
    const auto node = static_cast<std::size_t>(each.node);
    if (node < run.first || node >= run.last || !is_stale(each) || !holds_what_is_packed(bucket, each)) continue;
    stale.push_back(&each);
    bytes += each.kernel.plan().packed_bytes;
  }
  if (stale.empty()) return;
  // The largest first: while they are packed, weights are in memory twice, and then little else is there.
  std::ranges::sort(stale, std::greater<>(), [](const Step* each) { return each->kernel.plan().packed_bytes; });
  const double start = profile.on() ? seconds_now() : 0;
  if (stale.size() == 1) {
    pack(bucket, *stale[0]);
  } else {
    pool.run(static_cast<std::int64_t>(stale.size()), pack_body);
  }
  if (!profile.on()) return;
  const double a_byte = (seconds_now() - start) / static_cast<double>(bytes);
  for (const Step* each : stale)
    profile.add_packing(*each, a_byte * static_cast<double>(each->kernel.plan().packed_bytes));
}

void Session::State::run_collective(Step& step_to_run) {
  const auto bytes_of = [&](ValueId id) { return current->shapes[index(id)].bytes(); };
  const auto* const in = static_cast<const std::uint8_t*>(step_to_run.input_pointers[0]);
  auto* const out = static_cast<std::uint8_t*>(step_to_run.output_pointers[0]);
  const ByteView own{in, bytes_of(step_to_run.inputs[0])};
  if (graph.nodes[static_cast<std::size_t>(step_to_run.node)].op == Op::kAllGather) {
    options.collectives->all_gather(own, {out, bytes_of(step_to_run.outputs[0])});
  } else {
    if (out != in) std::memcpy(out, own.data(), own.size());
    options.collectives->all_reduce({reinterpret_cast<float*>(out), own.size() / sizeof(float)});
  }
  ++version[index(step_to_run.outputs[0])];
}

void Session::State::run_step(Step& step_to_run) {
  if (step_to_run.collective) return run_collective(step_to_run);
  const kernels::Plan& plan = step_to_run.kernel.plan();
  if (is_stale(step_to_run)) pack(*current, step_to_run);
  step = &step_to_run;
  args.inputs = step_to_run.input_pointers.data();
  args.outputs = step_to_run.output_pointers.data();
  args.packed = step_to_run.packed;
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
  const bool one_by_one = run.after || (on_device && on_device->waits_for_each());
  for (std::size_t i = 0; i < bucket.steps.size(); ++i) {
    Step& each = bucket.steps[i];
    const auto node = static_cast<std::size_t>(each.node);
    if (node < run.first || node >= run.last) continue;
    guarded_off = ends_here(run, node);
    if (guarded_off) return;
    if (profile.on()) {
      run_timed(each);
    } else if (const std::size_t many = one_by_one ? 1 : steps_together(bucket, i, run.last); many > 1) {
      run_together(&each, many);
      i += many - 1;
    } else {
      run_step(each);
      if (on_device && on_device->waits_for_each()) check_device(device, graph.nodes[node].name);
    }
    if (run.after && !run.after(node)) return;
  }
}

bool Session::State::ends_here(const RunOptions& run, std::size_t node) {
  if (on_device || run.guard.value == kNone || node != run.guard.before) return false;
  float value = 0;
  std::memcpy(&value, address(*current, run.guard.value), sizeof value);
  return !std::isfinite(value);
}

void Session::State::run_together(Step* first, std::size_t count) {
  calls.clear();
  for (Step* each = first; each != first + count; ++each) {
    args.inputs = each->input_pointers.data();
    args.outputs = each->output_pointers.data();
    args.packed = args.workspace = nullptr;
    calls.push_back({each->kernel.plan().state, args});
    for (const ValueId id : each->outputs)
      if (id != kNone) ++version[index(id)];
  }
  first->kernel.plan().run_many(calls.data(), static_cast<int>(calls.size()));
}

void Session::State::run_timed(Step& each) {
  const double start = seconds_now();
  run_step(each);
  check_device(device, graph.nodes[static_cast<std::size_t>(each.node)].name);
  profile.add(each, start, seconds_now() - start, &each == &current->steps.back());
}

kernels::RandomKey Session::State::key_of(const RunOptions& run) const {
  constexpr std::uint64_t kPart = 0x9E3779B97F4A7C15u;  // Philox keys differ if seed or part do
  return {options.seed + run.part * kPart, run.step};
}

// Runs with what was fed and bound.
void Session::State::launch(const RunOptions& run) {
  device.make_current();
  tiled = tiles_for(run);
  if (tiled) return tiled->run(sizes[static_cast<std::size_t>(tiling.symbol)], fed, held, pool);
  Bucket& bucket = bucket_for_sizes();
  slot = run.slot;
  fill_pointers(bucket);
  const kernels::RandomKey key = key_of(run);
  args.seed = key.seed;
  args.step = key.step;
  stale.reserve(bucket.steps.size());
  pack_stale(bucket, run);
  profile.begin_run(bucket.steps.size());
  if (!on_device) return run_steps(bucket, run);
  const std::size_t end = std::min(run.last, graph.nodes.size());
  on_device->start_run(args, end > 0 ? graph.nodes[end - 1].name : "the start");
  if (profile.on() || run.after || on_device->waits_for_each() || bucket.visits_host) {
    run_steps(bucket, run);
  } else {
    on_device->run({&bucket, run.first, run.last}, [&] { run_steps(bucket, run); });
  }
  on_device->check_launches();
}

Session::Session(Graph graph, const Tensors& tensors, const SessionOptions& options, Pool& pool)
    : state_(std::make_unique<State>(std::move(graph), options, pool)) {
  state_->init();
  state_->start(options.training ? Weights::viewing(tensors) : copy_for(state_->graph, tensors));
}

Session::Session(Graph graph, const std::shared_ptr<const Weights>& weights, const SessionOptions& options, Pool& pool)
    : state_(std::make_unique<State>(std::move(graph), options, pool)) {
  state_->init();
  state_->start(*weights);
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
  State& s = *state_;
  s.is_staged = false;
  s.bind(feeds);
  if (s.on_device) {
    s.on_device->feeding().upload(s.bytes_of(feeds), s.key_of(options), s.taking);
    s.place(feeds);
  }
  s.launch(options);
}

bool Session::runs_ahead() const {
  return state_->on_device != nullptr;
}

void Session::stage(const std::vector<Feed>& feeds, const RunOptions& options) {
  State& s = *state_;
  for (const Feed& feed : feeds) s.check(feed);
  if (s.on_device) s.on_device->feeding().stage(s.bytes_of(feeds), s.key_of(options), s.taking);
  s.staged = feeds;
  s.staged_options = options;
  s.is_staged = true;
}

bool Session::staged() const {
  return state_->is_staged;
}

bool Session::run_staged() {
  State& s = *state_;
  CHECK(s.is_staged);
  s.is_staged = false;
  s.bind(s.staged);
  if (s.on_device) {
    s.on_device->feeding().use_staged(s.taking);
    s.place(s.staged);
  }
  s.launch(s.staged_options);
  return !s.guarded_off;
}

void Session::run_on(const RunOptions& options) {
  CHECK(state_->current != nullptr && !state_->is_staged);
  state_->launch(options);
}

void Session::collect(const std::vector<ValueId>& values) {
  State& s = *state_;
  for (const ValueId value : values) {
    const std::size_t bytes = s.current->shapes[index(value)].bytes();
    const void* const from = s.address(*s.current, value);
    if (s.on_device) {
      s.on_device->collect(from, bytes);
      continue;
    }
    CHECK(bytes <= kCollected);
    s.collected.resize(s.collected.size() + kCollected);
    std::memcpy(s.collected.data() + s.collected.size() - kCollected, from, bytes);
  }
}

ByteView Session::collected() {
  State& s = *state_;
  if (s.on_device) return s.on_device->collected();
  s.handed_out.swap(s.collected);
  s.collected.clear();
  return s.handed_out;
}

void Session::wait() const {
  if (state_->on_device) state_->on_device->wait();
}

ByteView Session::output(ValueId value) const {
  const kernels::Shape shape = output_shape(value);
  if (state_->tiled) return state_->tiled->output(value);
  return state_->view(value, state_->address(*state_->current, value), shape.bytes());
}

ByteView Session::value(ValueId value) const {
  CHECK(state_->current != nullptr);
  State& s = *state_;
  const std::size_t bytes = s.current->shapes[index(value)].bytes();
  const void* const data = s.address(*s.current, value);
  if (!s.on_device) return s.view(value, data, bytes);
  s.looked_at = s.fetch(data, bytes);  // one at a time: all values may not fit into the host's memory
  return s.looked_at;
}

kernels::Shape Session::output_shape(ValueId value) const {
  const State& s = *state_;
  if (std::ranges::find(s.graph.outputs, value) == s.graph.outputs.end()) {
    fail(ErrorKind::kUsage, "value {} is not an output of the graph", value);
  }
  if (!s.current && !s.tiled) fail(ErrorKind::kUsage, "the session has not run yet");
  return concrete(s.graph.value(value), s.sizes);
}

bool Session::state_is_finite() const {
  constexpr std::size_t kSlice = std::size_t{128} << 10;
  const State& s = *state_;
  CHECK(!s.on_device);
  struct Slice {
    ByteView bytes;
    DType dtype;
  };
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < s.graph.values.size(); ++i) {
    const Value& value = s.graph.values[i];
    const bool left = value.role == Role::kParameter || value.role == Role::kState;
    if (!left || !s.held[i].data || value.name.ends_with(kGradientSum)) continue;
    const auto* const data = static_cast<const std::uint8_t*>(s.held[i].data);
    for (std::size_t at = 0; at < s.held[i].bytes; at += kSlice)
      slices.push_back({{data + at, std::min(kSlice, s.held[i].bytes - at)}, value.dtype});
  }
  std::atomic<bool> finite{true};
  const auto look = [&](std::int64_t i) {
    const Slice& slice = slices[static_cast<std::size_t>(i)];
    if (finite && !all_finite(slice.bytes, slice.dtype)) finite = false;
  };
  const auto count = static_cast<std::int64_t>(slices.size());
  // Waking threads takes longer than checking a small state.
  if (s.pool.threads() > 1 && state_bytes() > 2 * kSlice) {
    s.pool.run(count, look);
  } else {
    for (std::int64_t i = 0; i < count; ++i) look(i);
  }
  return finite;
}

Tensors Session::tensors(const std::function<bool(const Value&)>& wanted) const {
  State& s = *state_;
  Tensors tensors;
  for (std::size_t i = 0; i < s.graph.values.size(); ++i) {
    Held& held = s.held[i];
    if (!held.exists() || (wanted && !wanted(s.graph.values[i]))) continue;
    tensors[s.graph.values[i].name] = {concrete(s.graph.values[i], s.bound), s.fetch(held.address(), held.bytes)};
  }
  return tensors;
}

const void* Session::state(const std::string& name) const {
  const ValueId id = state_->held_named(name);
  Held& held = state_->held[index(id)];
  return state_->view(id, held.address(), held.bytes).data();
}

void Session::set_state(const std::string& name, ByteView bytes) {
  set_state(state_->held_named(name), bytes);
}

void Session::set_state(ValueId id, ByteView bytes) {
  State& s = *state_;
  Held& held = s.held[index(id)];
  const std::string& name = s.graph.value(id).name;
  if (bytes.size() != held.bytes) {
    fail(ErrorKind::kUsage, "'{}' has {} bytes, not {}", name, held.bytes, bytes.size());
  }
  if (held.weight) {  // others may read it, so the session makes its own copy
    Memory own = s.take(held.bytes, "'" + name + "'");
    if (s.on_device) s.on_device->wait();
    held = {own.get(), held.bytes, std::move(own), nullptr, nullptr};
  }
  s.device.upload(held.data, bytes.data(), bytes.size());
  ++s.version[index(id)];
  // Kernels may have read constants when they were prepared.
  const Role role = s.graph.value(id).role;
  if (role == Role::kConstant || (role == Role::kParameter && !s.options.training)) s.drop_buckets();
}

std::span<std::uint8_t> Session::writable_state(ValueId id) {
  State& s = *state_;
  CHECK(!s.on_device && s.options.training && s.held[index(id)].data);
  ++s.version[index(id)];
  return {static_cast<std::uint8_t*>(s.held[index(id)].data), s.held[index(id)].bytes};
}

void* Session::state_on_device(ValueId id) {
  State& s = *state_;
  CHECK(s.on_device && s.options.training && s.held[index(id)].data);
  ++s.version[index(id)];
  return s.held[index(id)].data;
}

std::span<std::uint8_t> Session::writable_state(const std::string& name) {
  State& s = *state_;
  const ValueId id = s.held_named(name);
  const Held& held = s.held[index(id)];
  CHECK(!s.on_device && !held.weight);
  ++s.version[index(id)];
  return {static_cast<std::uint8_t*>(held.data), held.bytes};
}

std::size_t Session::arena_bytes() const {
  if (state_->tiled) return state_->tiled->arena_bytes();
  return state_->current ? state_->current->plan.bytes() : 0;
}

std::int64_t Session::plans() const {
  return state_->plans;
}

std::size_t Session::state_bytes() const {
  std::size_t bytes = 0;
  for (const Held& each : state_->held) bytes += each.bytes;
  return bytes;
}

std::size_t Session::own_state_bytes() const {
  std::size_t bytes = 0;
  for (const Held& each : state_->held)
    if (!each.weight) bytes += each.bytes;
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
