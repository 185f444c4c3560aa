// The contents of a session: its values' memory, the sizes of this run, the buckets made so far, and a GPU's side of
// it. session_state.cpp has binding and memory, session.cpp running. Used by these two only.
//
// What outlives a step is held by value id. In inference it refers to shared weights, except what the graph writes. In
// training the session owns all of it, and kernels write it in place. Every value has a version that counts writes, so
// that packed weights are made again only when they are stale.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/session/bucket.h"
#include "graph/session/node_profile.h"
#include "graph/session/on_device.h"
#include "graph/session/session.h"
#include "graph/session/tiles.h"
#include "graph/weights.h"

namespace mlx::graph {

struct Session::State {
  State(Graph&& g, const SessionOptions& o, Pool& p)
      : graph(std::move(g)), options(o), pool(p), device(o.backend.device()) {}

  Graph graph;
  SessionOptions options;
  Pool& pool;
  const kernels::Device& device;

  std::vector<Held> held;              // by value: what outlives a step; empty for others
  std::vector<std::uint64_t> version;  // by value, from 1
  std::vector<char> written;           // by value: a node writes it in place
  std::vector<char> fixed_symbol;      // by symbol: a state or bind_symbol fixed it
  std::vector<char> needed_symbol;     // by symbol: an input or a state has it
  std::vector<std::int64_t> bound;     // by symbol: its size if it is fixed, else 0
  std::vector<std::int64_t> sizes;     // by symbol, in this run

  std::list<Bucket> buckets;
  Bucket* current = nullptr;
  std::uint64_t uses = 0;
  std::int64_t plans = 0;
  Memory arena;
  std::size_t arena_capacity = 0;
  int slot = 0;                     // of this run
  Tiling tiling;                    // for inference on the host; other runs are whole
  std::list<Tiles> tiles;           // by size of a tile
  Tiles* tiled = nullptr;           // the tiles of the last run, null if it was whole
  std::vector<const void*> fed;     // by value: the address that kernels read
  std::vector<FedBytes> fed_bytes;  // for a GPU: what is copied there
  std::vector<Feed> staged;         // for the next run
  RunOptions staged_options;
  bool is_staged = false;
  bool guarded_off = false;             // the guard ended the last run
  Bytes collected, handed_out;          // on the host: since the last collected(), and by it
  std::unique_ptr<OnDevice> on_device;  // null on the host

  // The step that runs, for the pool's body.
  const Step* step = nullptr;
  kernels::Args args;
  int phase = 0;
  std::function<void(std::int64_t)> body = [this](std::int64_t slice) {
    const kernels::Plan& plan = step->kernel.plan();
    plan.run(plan.state, args, phase, static_cast<int>(slice));
  };

  Bytes looked_at;  // value(), on a GPU
  Feeding::Take taking = [this](std::size_t bytes, const std::string& what) { return take(bytes, what); };

  std::vector<kernels::Call> calls;  // of run_together()
  std::vector<Step*> stale;          // steps whose packed weights are older than the weights
  std::function<void(std::int64_t)> pack_body = [this](std::int64_t i) {
    pack(*current, *stale[static_cast<std::size_t>(i)]);
  };

  NodeProfile profile;

  Memory take(std::size_t bytes, const std::string& what);
  Bytes fetch(const void* data, std::size_t bytes) const;
  ByteView view(ValueId id, const void* data, std::size_t bytes) const;
  void init();
  void start(const Weights& weights);
  void create_states(const Weights* weights);
  void hold(std::size_t i, const Weights* weights);
  bool known(const Value& value) const;
  ValueId held_named(const std::string& name) const;
  void check(const Feed& feed) const;
  void bind(const std::vector<Feed>& feeds);
  const std::vector<FedBytes>& bytes_of(const std::vector<Feed>& feeds);
  void place(const std::vector<Feed>& feeds);
  kernels::RandomKey key_of(const RunOptions& run) const;
  void bind_symbol_of_feed(const Value& value, std::size_t axis, std::int64_t size);
  Bucket make_bucket_of(const std::vector<std::int64_t>& symbol_sizes) const;
  Bucket& bucket_for_sizes();
  Tiles* tiles_for(const RunOptions& run);
  void drop_buckets();
  void* address(const Bucket& bucket, ValueId id);
  void fill_pointers(Bucket& bucket);
  // The held value behind input `at` of a step, such as packed_input of its plan.
  static ValueId root_of(const Bucket& bucket, const Step& each, int at) {
    return bucket.plan.root[index(each.inputs[static_cast<std::size_t>(at)])];
  }
  std::uint64_t version_to_pack(const Bucket& bucket, const Step& each) const;
  bool holds_what_is_packed(const Bucket& bucket, const Step& each) const;
  bool is_stale(const Step& each) const;
  // Whether what a step's kernel packs is a shared weight, with its scales.
  bool packs_shared(const Bucket& bucket, const Step& each) const;
  bool only_packed(const Bucket& bucket, const Step& each, int at) const;
  const void* input_of(const Bucket& bucket, const Step& each, int at);
  void pack(const Bucket& bucket, Step& each);
  void pack_stale(Bucket& bucket, const RunOptions& run);
  void run_step(Step& step_to_run);
  void run_collective(Step& step_to_run);
  void run_together(Step* first, std::size_t count);  // steps_together()
  void run_steps(Bucket& bucket, const RunOptions& run);
  void run_timed(Step& each);
  void launch(const RunOptions& run);
  bool ends_here(const RunOptions& run, std::size_t node);
};

}  // namespace mlx::graph
