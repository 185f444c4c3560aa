// A session binds a graph to kernels and concrete sizes, and plans memory once per shape bucket. It owns the state that
// steps write: KV caches, and in training parameters, optimizer state and running statistics. For inference it shares
// weights with other sessions (weights.h). Operations have no state.
//
// One thread runs a session at a time; several sessions may share a pool. run() allocates nothing once a bucket is
// planned. Inference on the host may cut a batch into tiles (tiles.h), with the same bits.
//
// On a GPU a run is launched and not waited for. Functions that return bytes wait for these bytes. An error in a run,
// kMissing with "at NODE or before it in the same step", is thrown by such a function or by the next run, whichever
// comes first. A GPU receives staged inputs while it computes the run before; the host reads them in place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "graph/graph.h"
#include "graph/memory.h"
#include "graph/session/collectives.h"
#include "graph/weights.h"
#include "kernels/backend.h"

namespace mlx::graph {

struct SessionOptions {
  kernels::Backend backend = kernels::best_backend();
  std::uint64_t seed = 0;    // of dropout
  bool training = false;     // false: parameters are constants for the kernels, packed once and shared
  bool reuse_memory = true;  // false: every value has its own memory (an oracle for tests)
  // For inference on the host: the examples per tile (tiles.h); -1: as many as is fast, 0: all.
  std::int64_t tile = -1;
  KeptValues kept{};                   // on the host, in training
  Collectives* collectives = nullptr;  // for a graph with collective operations, on the host; outlives the session
};

struct Feed {
  ValueId value;
  const void* data;                // stays valid during run()
  std::vector<std::int64_t> dims;  // concrete; bind the symbols
};

struct RunOptions {
  std::uint64_t step = 0;                       // of random numbers and of optimizers
  std::uint64_t part = 0;                       // the micro-batch of the step; each has its own random numbers
  int slot = 0;                                 // of SessionOptions::kept
  std::size_t first = 0, last = SIZE_MAX;       // runs only nodes [first, last); other values stay as they are
  std::function<bool(std::size_t node)> after;  // called after each node; false: stop
  // On the host: the run ends before this node if `value`, an f32 scalar and an output of the nodes before, is not
  // finite. On a GPU, where nothing checks in between, every run is completed.
  struct Guard {
    ValueId value = kNone;
    std::size_t before = 0;
  } guard;
};

struct NodeTime {
  std::string name, op, kernel;  // kernel: "avx512"
  double seconds = 0, flops = 0, bytes = 0;
  std::int64_t calls = 0;
};

struct NodeCall {
  std::size_t node = 0;           // index into graph().nodes
  double start = 0, seconds = 0;  // on the clock of seconds_now()
};

class Session {
 public:
  // Parameters, states and constants are copied from `tensors`. Missing states start at zero. Missing or misshapen
  // parameters and constants are kCorrupt, naming all of them.
  Session(Graph graph, const Tensors& tensors, const SessionOptions& options, Pool& pool);
  // The same for inference with shared weights: the session refers to them and copies only what the graph writes
  // (caches). It keeps them alive. With options.training it copies all of them.
  Session(Graph graph, const std::shared_ptr<const Weights>& weights, const SessionOptions& options, Pool& pool);
  ~Session();

  const Graph& graph() const;
  // Binds a symbol that no input has (cache length); call it once, before the first run. A symbol in the shape of a
  // state is fixed by this or by the first run. States are created when all of their symbols are bound.
  void bind_symbol(const std::string& name, std::int64_t size);
  // Every input of the graph must be fed, with its dtype. Throws kUsage, naming the input, if shapes do not fit.
  void run(const std::vector<Feed>& feeds, std::uint64_t step = 0) { run(feeds, RunOptions{.step = step}); }
  void run(const std::vector<Feed>& feeds, const RunOptions& options);
  void wait() const;  // waits until the launched work is done; throws its error

  // True if a run continues after it was launched, so that staging the next one early pays: on a GPU.
  bool runs_ahead() const;
  // Sets what the next run_staged() runs. The feeds' data must stay valid and unchanged until then; if runs_ahead(), it
  // is copied at once and may change. A run() in between, or another stage(), drops it.
  void stage(const std::vector<Feed>& feeds, const RunOptions& options);
  bool staged() const;
  bool run_staged();  // false if the guard ended the run
  // More nodes with what the last run was fed.
  void run_on(const RunOptions& options);
  // Copies these outputs and states, at most kCollected bytes each, after the last run; does not wait.
  void collect(const std::vector<ValueId>& values);
  // Everything collected since the last call, in order, each in kCollected bytes, after one wait. Valid until the next
  // collect().
  ByteView collected();
  static constexpr std::size_t kCollected = 8;

  // An output's bytes and shape after the last run; valid until the next run. On a GPU it is a copy, made on request.
  ByteView output(ValueId value) const;
  // The bytes of any value. Call it within RunOptions::after, for values that the nodes so far have written or that
  // later nodes read. On a GPU it is a copy, valid until the next call.
  ByteView value(ValueId value) const;
  kernels::Shape output_shape(ValueId value) const;

  // True if everything that outlives a step is finite, except sums of gradients. Host only, where it is read in place.
  bool state_is_finite() const;
  // A copy of everything that outlives a step, or of the wanted values.
  Tensors tensors(const std::function<bool(const Value&)>& wanted = {}) const;
  const void* state(const std::string& name) const;  // throws kNotFound. On a GPU: a copy
  // Also for parameters and constants; a shared one becomes the session's own. Throws kUsage for another size.
  void set_state(const std::string& name, ByteView bytes);
  void set_state(ValueId value, ByteView bytes);  // several threads may set different ones
  // In training on the host: the memory of a parameter or state, for somebody who writes it now.
  std::span<std::uint8_t> writable_state(ValueId value);
  // In training on a GPU: the same in the device's memory, for work on the device's stream.
  void* state_on_device(ValueId value);
  // On the host: its bytes, to be written before the next run.
  std::span<std::uint8_t> writable_state(const std::string& name);

  std::size_t arena_bytes() const;      // of the last bucket
  std::int64_t plans() const;           // how often the graph was planned, for new sizes or sizes that had been dropped
  std::size_t state_bytes() const;      // everything that outlives a step
  std::size_t own_state_bytes() const;  // the same without shared weights
  // Times each node from now on. Also keeps the single calls of the next `keep_runs` runs.
  void set_profiling(bool on, std::int64_t keep_runs = 0);
  std::vector<NodeTime> profile() const;  // times since profiling was turned on
  const std::vector<NodeCall>& calls() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::graph
