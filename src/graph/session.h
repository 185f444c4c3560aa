// A session binds a graph to kernels and concrete sizes and plans memory once per shape bucket. It owns the state that
// steps write: KV caches, and in training parameters, optimizer state and running statistics. For inference it shares
// weights with other sessions (weights.h). Operations have no state of their own.
//
// One thread runs a session at a time; several sessions may share a pool. run() allocates nothing once a bucket is
// planned. Inference on the host may cut a batch into tiles (tiles.h), with the same bits.
//
// A run is launched and, on a GPU, not waited for. Whatever hands out bytes waits for those that it hands out; what
// went wrong in a run, kMissing with "at NODE or before it in the same step", is thrown by that or by the next run,
// whichever comes first. A GPU is sent what is staged while the run before computes; the host reads it in place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "graph/graph.h"
#include "graph/weights.h"
#include "kernels/backend.h"

namespace mlx::graph {

struct SessionOptions {
  kernels::Backend backend = kernels::best_backend();
  std::uint64_t seed = 0;    // of dropout
  bool training = false;     // false: parameters are constants for the kernels, packed once and shared
  bool reuse_memory = true;  // false: every value has its own memory (an oracle for tests)
  // Of inference on the host: examples that go through the graph together (tiles.h); -1: as many as is fast, 0: all.
  std::int64_t tile = -1;
};

struct Feed {
  ValueId value;
  const void* data;                // stays valid during run()
  std::vector<std::int64_t> dims;  // concrete; bind the symbols
};

struct RunOptions {
  std::uint64_t step = 0;                       // of random numbers and of optimizers
  std::uint64_t part = 0;                       // which micro-batch of the step: random numbers of its own
  std::size_t first = 0, last = SIZE_MAX;       // only these nodes, [first, last); what others wrote stands as it was
  std::function<bool(std::size_t node)> after;  // called behind each node; false: the rest is not run
  // On the host: the run ends before this node if an output of the nodes before it, an f32 scalar, is not finite. On a
  // GPU, where nobody looks in between, every run goes to its end.
  struct Guard {
    ValueId value = kNone;
    std::size_t before = 0;
  } guard;
};

struct NodeTime {
  std::string name, op, kernel;  // kernel: "onednn"
  double seconds = 0, flops = 0, bytes = 0;
  std::int64_t calls = 0;
};

struct NodeCall {
  std::size_t node = 0;           // index into graph().nodes
  double start = 0, seconds = 0;  // on the clock of seconds_now()
};

class Session {
 public:
  // Parameters, states and constants start as `tensors` says, of which the session has copies; missing states start at
  // zero, a missing or misshapen parameter or constant is kCorrupt naming all of them.
  Session(Graph graph, const Tensors& tensors, const SessionOptions& options, Pool& pool);
  // The same for inference with weights that others use too: the session refers to them and copies only what the graph
  // writes (caches). They live on without the caller's reference. With options.training it copies all of them.
  Session(Graph graph, const std::shared_ptr<const Weights>& weights, const SessionOptions& options, Pool& pool);
  ~Session();

  const Graph& graph() const;
  // Symbols that no input carries (cache length) are bound here, once, before the first run. A symbol in the shape of a
  // state is bound for good by this or by the first run; states come into being when all of theirs are.
  void bind_symbol(const std::string& name, std::int64_t size);
  // Every input of the graph is fed, with its dtype; kUsage naming the input where shapes do not fit.
  void run(const std::vector<Feed>& feeds, std::uint64_t step = 0) { run(feeds, RunOptions{.step = step}); }
  void run(const std::vector<Feed>& feeds, const RunOptions& options);
  void wait() const;  // until what was launched is done; throws what went wrong

  // Whether a run goes on after it was launched, so that staging the next one early pays: on a GPU.
  bool runs_ahead() const;
  // What the next run_staged() runs. The feeds' data stays valid and unchanged until then; if runs_ahead(), it is
  // copied at once and may change. A run() in between, or another stage(), drops it.
  void stage(const std::vector<Feed>& feeds, const RunOptions& options);
  bool staged() const;
  bool run_staged();  // false if the guard ended the run
  // Copies of these outputs and states, of at most kCollected bytes each, as the last run leaves them; does not wait.
  void collect(const std::vector<ValueId>& values);
  // What was collected since the last call, in that order, each in kCollected bytes, by one wait; valid until the next
  // collect().
  ByteView collected();
  static constexpr std::size_t kCollected = 8;

  // An output's bytes and shape as the last run left them; valid until the next. On a GPU: a copy, made when asked.
  ByteView output(ValueId value) const;
  // The bytes of any value: within RunOptions::after, of what the nodes so far have written or will still read. On a
  // GPU: a copy, valid until the next call.
  ByteView value(ValueId value) const;
  kernels::Shape output_shape(ValueId value) const;

  // Whether all that outlives a step is finite, sums of gradients aside; on the host, where it is looked at in place.
  bool state_is_finite() const;
  // A copy of everything that outlives a step, or of what of it is wanted.
  Tensors tensors(const std::function<bool(const Value&)>& wanted = {}) const;
  const void* state(const std::string& name) const;  // kNotFound. On a GPU: of a copy
  // Also parameters and constants; one that is shared becomes the session's own. kUsage for another size.
  void set_state(const std::string& name, ByteView bytes);

  std::size_t arena_bytes() const;      // of the last bucket
  std::int64_t plans() const;           // how often the graph was planned for sizes that were new or had been dropped
  std::size_t state_bytes() const;      // of all that outlives a step
  std::size_t own_state_bytes() const;  // the same without shared weights
  // Times each node from now on; the calls of the next `keep_runs` runs are also kept one by one.
  void set_profiling(bool on, std::int64_t keep_runs = 0);
  std::vector<NodeTime> profile() const;  // times since profiling was turned on
  const std::vector<NodeCall>& calls() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::graph
