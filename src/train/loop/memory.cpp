// The peak of a training: the largest of its phases, each of which is a sum.

#include "train/loop/memory.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/process_use.h"
#include "dist/all_gather.h"
#include "dist/local_ranks.h"
#include "dist/sealed.h"
#include "dist/traffic.h"
#include "graph/passes/split_updates.h"
#include "graph/session/recompute.h"
#include "train/evaluate/evaluate.h"
#include "train/evaluate/tally.h"
#include "train/loop/local_sgd.h"

namespace mlx::train {
namespace {

// The store's memory for a file that it stores (store/pack/blob_writer.cpp): up to three windows of the file that are
// read, hashed and compressed, and its threads' compressors.
constexpr std::int64_t kStoreWindow = std::int64_t{8} << 20;
constexpr std::int64_t kCompressor = std::int64_t{2} << 20, kCompressors = std::int64_t{5} << 20;
// Code that the first steps load or generate, stacks, and the allocator's overhead: 1 MiB for a perceptron, 11 for a
// transformer with oneDNN's products.
constexpr std::int64_t kProcess = std::int64_t{6} << 20;

std::vector<std::int64_t> sizes_of(const graph::Graph& graph, std::int64_t batch, std::int64_t sequence) {
  std::vector<std::int64_t> sizes(graph.symbols.size(), std::max<std::int64_t>(1, sequence));
  const int of_batch = graph.value(graph.inputs.at(0)).dims.at(0).symbol();
  if (of_batch >= 0) sizes[static_cast<std::size_t>(of_batch)] = batch;
  return sizes;
}

std::int64_t bytes_of_parameters(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  const std::vector<std::int64_t> ones(graph.symbols.size(), 1);
  for (const graph::Value& value : graph.values)
    if (value.role == graph::Role::kParameter) bytes += static_cast<std::int64_t>(graph::concrete(value, ones).bytes());
  return bytes;
}

bool has_checkpoints(const TrainConfig& config, const TrainingSize& size) {
  const CheckpointInterval& every = config.checkpoint_every;
  if (config.keep_state) return true;  // at the end
  if (every.seconds > 0) return true;  // it is not known when
  const double steps =
      every.steps > 0 ? static_cast<double>(every.steps) : every.epochs * static_cast<double>(size.steps_per_epoch);
  return steps < static_cast<double>(size.steps);
}

// A copy of the model, whose weights the evaluating session shares, and what that session plans. Weights that a batch
// norm is folded into are new.
std::int64_t validation_bytes(const nn::Built& built, const TrainConfig& config, const TrainingData& data,
                              kernels::Backend backend, int threads) {
  if (!data.valid) return 0;
  const data::Description& about = data.valid->describe();
  const std::int64_t batch = evaluation_batch(about, built.context);
  const graph::Graph used = graph::to_inference(built.graph);
  const graph::PlannedMemory planned =
      graph::inference_memory(used, sizes_of(used, batch, built.context), backend, threads);
  const auto held = static_cast<std::int64_t>(planned.held);
  if (backend.can().own_memory) {  // copies of the model stay with the host
    return held + static_cast<std::int64_t>(planned.arena + planned.fed);
  }
  const bool folds = std::ranges::any_of(
      used.nodes, [](const graph::Node& node) { return node.op == graph::Op::kBatchNormInference; });
  const std::int64_t runs = static_cast<std::int64_t>(planned.arena + planned.packed) +
                            about.batch_bytes({.batch = batch, .context = built.context});
  const std::int64_t kept = tally_bytes(about);
  const std::int64_t averages = config.optimizer.average ? bytes_of_parameters(built.graph) : 0;
  return held + averages + (folds ? held : 0) + runs + kept;
}

// `state`: what is stored, of which `copy` is in memory for that.
std::int64_t checkpoint_bytes(std::int64_t state, std::int64_t copy) {
  if (state <= kStoreWindow) return copy + state + kCompressor;
  return copy + (state <= 2 * kStoreWindow ? 2 : 3) * kStoreWindow + kCompressors;
}

// `free`: for a GPU whose free memory is the limit, else 0.
[[noreturn]] void refuse(const TrainConfig& config, const TrainingData& data, const MemoryForecast& least,
                         std::int64_t allowed, std::int64_t free) {
  const auto text = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  const std::string needs = fmt::format(
      "{}: the training needs {}{}: weights and optimizer {}, activations {} even with recomputation; ", config.file,
      text(least.peak), least.device.empty() ? "" : " of the GPU's memory", text(least.weights), text(least.arena));
  const std::string smaller = fmt::format("a smaller [train] batch, accumulate = {}", 2 * config.accumulate);
  if (free > 0) {
    throw Error(ErrorKind::kUsage, fmt::format("{}{} are free", needs, text(free)),
                "another program may hold memory: nvidia-smi; else " + smaller + ", or --device cpu");
  }
  // With a reserve for the program itself, whose need varies, and for the data, which takes up to a quarter of what is
  // allowed.
  const data::Description& train = data.train->describe();
  const std::int64_t bytes = train.bytes + (data.valid ? data.valid->describe().bytes : 0);
  const std::int64_t enough = least.peak + least.peak / 32 + std::min(bytes, least.peak / 3);
  throw Error(ErrorKind::kUsage, fmt::format("{}{} are allowed", needs, text(allowed)),
              fmt::format("{}, or --memory {}MiB", smaller, (enough >> 20) + 1));
}

// Refuses a need beyond the machine's memory before any of it is taken; otherwise the kernel would kill the program in
// the middle.
void check_machine(const TrainConfig& config, const MemoryForecast& forecast) {
  const std::int64_t there = machine_memory();
  if (forecast.peak <= there) return;
  const auto text = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: the training needs {}, of which weights and optimizer take {}, and this machine has {}",
                          config.file, text(forecast.peak), text(forecast.weights), text(there)),
              fmt::format("use a smaller model, a smaller [train] batch, accumulate = {}, or --memory SIZE, which "
                          "recomputes parts of the forward pass",
                          2 * config.accumulate));
}

// The part of a GPU's free memory that a training may use: all but a share that kernels and libraries take when they
// first run, and that is lost when the driver rounds sizes up.
std::int64_t usable(std::int64_t free) {
  return free - free / 32;
}

// What a rank holds outside of its session, in bytes: of its own part of the model, and of the whole model, which only
// the rank that decides has at times. For a rank alone they are the same.
struct HeldApart {
  std::int64_t own_model = 0, own_state = 0;
  std::int64_t model = 0, state = 0;  // 0 where another rank decides
  std::int64_t best = 0;
  std::int64_t largest = 0;  // tensor of the whole state
};

// Calls `each(value, bytes, bytes of the whole)` for what outlives a step of a part of the model.
template <typename Each>
void for_each_held(const graph::Graph& graph, const graph::Partition& partition, const Each& each) {
  const std::vector<std::int64_t> ones(graph.symbols.size(), 1);
  for (const graph::Value& value : graph.values) {
    if (!graph::outlives_step(value.role) || value.name.ends_with(graph::kGradientSum)) continue;
    const auto bytes = static_cast<std::int64_t>(graph::concrete(value, ones).bytes());
    const graph::Cut* const cut = partition.cut_of(value.name);
    each(value, bytes, bytes * (cut && cut->axis >= 0 ? partition.parts : 1));
  }
}

std::int64_t bytes_of_gradients(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Value& value : graph.values)
    if (value.name.ends_with(graph::kGradientSum))
      bytes += static_cast<std::int64_t>(graph::concrete(value, {}).bytes());
  return bytes;
}

HeldApart held_apart(const TrainingStep& training, const nn::Built& built, const TrainConfig& config,
                     const data::Description& data, kernels::Backend backend, bool decides) {
  HeldApart out;
  const auto add_whole = [&](const graph::Graph& graph, const graph::Partition& partition) {
    for_each_held(graph, partition, [&](const graph::Value& value, std::int64_t, std::int64_t whole) {
      if (partition.stage.copies(value.name)) return;
      out.state += whole;
      out.largest = std::max(out.largest, whole);
      if (built.graph.find(value.name) != graph::kNone) out.model += whole;
    });
  };
  const graph::Partition& own = training.part().partition();
  for_each_held(training.graph(), own, [&](const graph::Value& value, std::int64_t bytes, std::int64_t) {
    out.own_state += bytes;
    if (built.graph.find(value.name) != graph::kNone) out.own_model += bytes;
  });
  for (int stage = 0; stage < own.stage.stages; ++stage) {
    if (stage == own.stage.stage) {
      add_whole(training.graph(), own);
      continue;
    }
    const graph::Partitioned other = part_of_model(built, config, stage * own.parts);
    add_whole(training_graph_of(built, config, data, backend, other, 1).graph, other.partition);
  }
  if (const OptimizerShard* const shard = training.shard()) {
    out.own_state += shard->size().largest_rank;
    out.state += shard->size().all;
    out.largest = std::max(out.largest, shard->size().largest_tensor);
  }
  const std::int64_t waiting = config.async * bytes_of_gradients(training.graph());  // a checkpoint has them
  out.own_state += waiting;
  out.state += waiting;
  if (!decides && training.part().divided()) out.model = out.state = 0;
  if (!decides && training.shard()) out.state = 0;
  if (config.selection.keep_best) out.best = out.model;
  return out;
}

// Where ranks hold parts, a checkpoint is stored tensor by tensor, and two of them are whole in memory; others but the
// one that decides give their parts as they are.
std::int64_t checkpoint_of(const HeldApart& apart) {
  if (apart.state == 0) return 0;
  const bool divided = apart.state > apart.own_state;
  return checkpoint_bytes(apart.state + apart.best, apart.best + (divided ? 2 * apart.largest : apart.state));
}

// The largest of the phases. A model that is divided starts whole on one rank; a state that is resumed never is.
std::int64_t peak_of(const MemoryForecast& f, const TrainingSize& size, const HeldApart& apart) {
  if (!f.device.empty()) return f.weights + f.arena + f.batches + f.validation;
  const std::int64_t steps = f.process + f.weights + f.arena + f.batches + f.frames + apart.best;
  const bool divided = apart.model > apart.own_model;
  const std::int64_t read = divided ? f.process + apart.model : 0;
  const std::int64_t start = f.process + f.weights + (size.resumed ? apart.own_state + apart.best : apart.own_model);
  const std::int64_t end = f.process + f.weights + f.arena + f.batches + f.frames + apart.model;
  return std::max({read, start, steps + f.validation, steps + f.checkpoint, end, peak_memory()});
}

// Of micro-batches (StepSum, DeviceStepSum), beside their states in the graph.
std::int64_t bytes_of_sums(const graph::TrainingGraph& training, const TrainConfig& config, int ranks,
                           kernels::Backend backend) {
  if (!config.sums_micro_batches()) return 0;
  if (backend.can().own_memory) return DeviceStepSum::memory(training, config.accumulate, ranks);
  const graph::Graph& graph = training.graph;
  return (1 + config.async) * dist::GradientSum::memory(bytes_of_gradients(graph), ranks,
                                                        static_cast<int>(config.accumulate), wire_of(config),
                                                        config.balance);
}

// The most examples of a batch that a rank may have.
std::int64_t share_of_batch(const TrainConfig& config, int ranks) {
  const auto parts = static_cast<int>(config.accumulate);
  if (!config.balance || ranks == 1) return config.batch / ranks;
  return config.batch / parts * dist::most_of_shares(ranks, parts);
}

// What so many ranks sum in a step.
std::vector<SummedValue> summed(const graph::TrainingGraph& training, const TrainConfig& config, int sharers,
                                kernels::Backend backend, SummedNodes nodes = {}) {
  const auto cuts = [backend](std::int64_t elements) { return OptimizerShard::cuts_of(elements, backend); };
  return StepSum::summed(training, config.accumulate, wire_of(config), nodes,
                         shares_updates(config, sharers) ? StepSum::CutsOf(cuts) : StepSum::CutsOf());
}

// What each of them sends for its batch norms.
dist::Traffic traffic_of_norms(const graph::TrainingGraph& training, int sharers) {
  dist::Traffic out;
  for (const graph::Node& node : training.graph.nodes) {
    if (node.op != graph::Op::kAllGather) continue;
    const auto bytes = static_cast<std::int64_t>(graph::concrete(training.graph.value(node.inputs[0]), {}).bytes());
    const dist::Traffic of_norm = dist::traffic_of_gather(bytes, sharers);
    out.bytes += of_norm.bytes;
    out.messages += of_norm.messages;
  }
  return out;
}

// What each StepSum of a step sums.
std::vector<std::vector<dist::SummedArray>> arrays_of(const graph::TrainingGraph& training, const TrainConfig& config,
                                                      int sharers, kernels::Backend backend) {
  std::vector<std::vector<dist::SummedArray>> out;
  if (!config.sums_micro_batches() || config.local_sgd.wanted()) return out;
  const std::size_t late = training.stage.late_begin;
  for (const SummedNodes nodes : {SummedNodes{0, late}, SummedNodes{late, training.update_begin}}) {
    if (nodes.begin >= training.update_begin) continue;
    out.emplace_back();
    for (const SummedValue& value : summed(training, config, sharers, backend, nodes))
      out.back().push_back(value.array);
  }
  return out;
}

dist::Traffic traffic_of(const graph::TrainingGraph& training, const TrainConfig& config, int sharers,
                         kernels::Backend backend) {
  dist::Traffic out = synchronises_norms(config) ? traffic_of_norms(training, sharers) : dist::Traffic{};
  const auto of_sums = backend.can().own_memory ? dist::DeviceSum::traffic : dist::traffic_of;
  for (const auto& arrays : arrays_of(training, config, sharers, backend)) {
    const dist::Traffic traffic = of_sums(arrays, sharers, static_cast<int>(config.accumulate));
    out.bytes += traffic.bytes;
    out.messages += traffic.messages;
  }
  return out;
}

// Of ranks that encrypt: those of the sums of all steps that wait. Other messages are few at a time.
std::int64_t bytes_of_frames(const graph::TrainingGraph& training, const TrainConfig& config, int sharers,
                             kernels::Backend backend) {
  std::int64_t messages = 0;
  for (const auto& arrays : arrays_of(training, config, sharers, backend))
    messages += dist::messages_at_once(arrays, sharers, static_cast<int>(config.accumulate));
  return dist::sealed_memory((1 + config.async) * messages);
}

// Takes the updates out of the graph, and returns the bytes that they take on the rank that has most of them.
std::int64_t split_off(graph::TrainingGraph& training, const TrainConfig& config, int sharers,
                       kernels::Backend backend) {
  const std::vector<std::unique_ptr<dist::Communicator>> together = dist::local_ranks(sharers);  // say nothing here
  graph::SplitUpdates split = graph::split_updates(training);
  training = split.rest;
  const OptimizerShard shard(std::move(split), summed(training, config, sharers, backend), *together[0], backend);
  return shard.size().largest_rank;
}

// The optimizer's state that is not in the session.
std::int64_t bytes_of_shard(const TrainingStep& training) {
  return training.shard() ? training.shard()->size().largest_rank : 0;
}

}  // namespace

MemoryForecast plan_memory(TrainingStep& training, const nn::Built& built, const TrainConfig& config,
                           const TrainingData& data, const TrainingSize& wanted, kernels::Backend backend) {
  TrainingSize size = wanted;
  std::int64_t free_limit = 0;  // of the device, where that is what limits
  const graph::TrainingGraph& whole = training.training();
  const HeldApart apart = held_apart(training, built, config, data.train->describe(), backend, size.decides);
  MemoryForecast out;
  LocalSgd::Memory local;
  if (config.local_sgd.wanted()) local = LocalSgd::memory(whole.graph, built.graph, config.local_sgd, wire_of(config));
  const bool own_memory = backend.can().own_memory;
  if (own_memory) out.device = backend.device_word();
  const data::Description& about = data.train->describe();
  if (!own_memory) {
    const data::BatchOptions batches{.batch = share_of_batch(config, size.ranks),
                                     .ranks = size.ranks,
                                     .context = built.context,
                                     .augment = config.reading.augment};
    const std::int64_t examples = about.examples(built.context);
    out.batches = about.batch_bytes(batches) + data::IndexList::bytes(examples, examples);
    if (has_checkpoints(config, size)) out.checkpoint = checkpoint_of(apart) + local.checkpoint;
  }
  out.validation = validation_bytes(built, config, data, backend, training.threads());
  // First count what is needed in any case, before kernels are prepared in vain.
  if (!own_memory && size.allowed == 0) {
    out.weights = out.peak = apart.own_state;
    check_machine(config, out);
  }
  const std::vector<std::int64_t> sizes = sizes_of(whole.graph, config.batch / config.accumulate, built.context);
  const graph::Stage& stage = training.part().partition().stage;
  if (!stage.is_whole()) out.batches += Pipeline::memory(whole, stage, sizes);
  if (size.encrypted) out.frames = bytes_of_frames(whole, config, size.ranks, backend);
  const graph::PlannedMemory planned = graph::planned_memory(whole.graph, sizes, backend, true, whole.kept());
  if (own_memory) {
    out.batches = 2 * static_cast<std::int64_t>(planned.fed);  // the next is sent while one is computed
    // After planning, because libraries take their memory then.
    const auto free = std::max<std::int64_t>(1, static_cast<std::int64_t>(backend.device().free_bytes()));
    if (size.allowed == 0 || size.allowed > usable(free)) {  // never without a limit
      size.allowed = usable(free);
      free_limit = free;
    }
  }
  if (!own_memory) out.process = settled_memory() + kProcess;  // after planning: the kernels' memory stays in use
  const std::int64_t sums =
      bytes_of_sums(whole, config, size.ranks, backend) + (own_memory ? 0 : local.held + bytes_of_shard(training));
  const auto take = [&](const graph::PlannedMemory& memory) {
    out.weights = static_cast<std::int64_t>(memory.held + memory.packed) + sums;
    out.arena = static_cast<std::int64_t>(memory.arena);
    out.peak = peak_of(out, size, apart);
  };
  take(planned);
  if (size.allowed == 0) check_machine(config, out);
  if (size.allowed == 0 || out.peak <= size.allowed) return out;
  const std::int64_t beside = out.peak - out.arena - static_cast<std::int64_t>(planned.packed);
  graph::Fitted fitted = graph::fit_memory(whole, sizes, backend,
                                           static_cast<std::size_t>(std::max<std::int64_t>(0, size.allowed - beside)));
  take(fitted.memory);
  out.recomputed = static_cast<std::int64_t>(fitted.nodes);
  if (out.peak > size.allowed) refuse(config, data, out, size.allowed, free_limit);
  training.use(std::move(fitted.training));
  return out;
}

std::vector<StageMemory> least_memory(const nn::Built& built, const TrainConfig& config, const data::Description& data,
                                      int ranks, bool encrypted, kernels::Backend backend) {
  const int parts = static_cast<int>(config.tp), stages = static_cast<int>(config.pp);
  const int sharers = std::max(1, ranks / (parts * stages));
  std::vector<StageMemory> all;
  for (int stage = 0; stage < stages; ++stage) {
    // Of the ranks of a stage, the first is the one that needs most.
    const graph::Partitioned part = part_of_model(built, config, stage * parts);
    graph::TrainingGraph training =
        training_graph_of(built, config, data, backend, part, static_cast<int>(config.accumulate / sharers));
    const dist::Traffic traffic = traffic_of(training, config, sharers, backend);
    const std::int64_t frames = encrypted ? bytes_of_frames(training, config, sharers, backend) : 0;
    const std::int64_t shard = shares_updates(config, sharers) ? split_off(training, config, sharers, backend) : 0;
    const graph::Graph& graph = training.graph;
    const std::vector<std::int64_t> sizes = sizes_of(graph, config.batch / config.accumulate, built.context);
    const graph::PlannedMemory planned = graph::planned_memory(graph, sizes, backend, true, training.kept());
    MemoryForecast out;
    if (backend.can().own_memory) out.device = backend.device_word();
    out.process = kProcess;
    out.batches = data.batch_bytes({.batch = share_of_batch(config, sharers),
                                    .ranks = sharers,
                                    .context = built.context,
                                    .augment = config.reading.augment});
    if (stages > 1) out.batches += Pipeline::memory(training, part.partition.stage, sizes);
    out.weights = static_cast<std::int64_t>(planned.held + planned.packed) +
                  bytes_of_sums(training, config, sharers, backend) + shard;
    out.arena = static_cast<std::int64_t>(planned.arena);
    out.frames = frames;
    out.peak = out.process + out.weights + out.arena + out.batches + out.frames;
    all.push_back({graph::layers_of(part.graph, part.partition.stage), training.slots, out, traffic});
  }
  return all;
}

std::int64_t host_memory(const MemoryForecast& forecast) {
  return forecast.device.empty() ? forecast.peak : forecast.process + forecast.batches;
}

std::int64_t held_at_peak(kernels::Backend backend) {
  return backend.can().own_memory ? static_cast<std::int64_t>(backend.device().peak_bytes()) : peak_memory();
}

std::string to_text(const MemoryForecast& forecast) {
  const auto text = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  std::string out = fmt::format("{}memory: {} at the peak; weights and optimizer {}, activations {}, {} {}",
                                forecast.device.empty() ? "" : "GPU ", text(forecast.peak), text(forecast.weights),
                                text(forecast.arena), forecast.device.empty() ? "program and data" : "data",
                                text(forecast.process + forecast.batches));
  if (forecast.frames > 0) out += fmt::format(", encrypted messages {}", text(forecast.frames));
  if (forecast.recomputed > 0) out += fmt::format("; {} operations are recomputed in backward", forecast.recomputed);
  return out;
}

Json to_json(const MemoryForecast& forecast) {
  Json out = {{"peak", forecast.peak},
              {"process", forecast.process},
              {"weights", forecast.weights},
              {"arena", forecast.arena},
              {"batches", forecast.batches},
              {"validation", forecast.validation},
              {"checkpoint", forecast.checkpoint}};
  if (forecast.frames > 0) out["frames"] = forecast.frames;
  if (!forecast.device.empty()) out["device"] = forecast.device;
  if (forecast.recomputed > 0) out["recomputed"] = forecast.recomputed;
  return out;
}

}  // namespace mlx::train
