// From a forward graph to one that trains it (loss, backward, optimizer), and to one that measures the loss.

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/passes/optimizers.h"
#include "graph/passes/rewrite.h"

namespace mlx::graph {
namespace {

struct Loss {
  ValueId labels = kNone, loss = kNone, correct = kNone, counted = kNone;
};

// The gradient of the logits where it comes from two losses.
struct Distilled {
  ValueId logits = kNone, gradient = kNone;
};

// Adds the loss operation, with its targets.
void add_target_loss(Graph& graph, const LossSpec& spec, ValueId predictions, Loss& loss) {
  loss.labels = graph.input("targets", DType::kF32, graph.value(predictions).dims);
  const bool soft = spec.name == "soft", binary = spec.name == "binary";
  Attrs attrs;
  attrs.rate = soft || binary ? spec.label_smoothing : 0.0f;
  attrs.delta = spec.name == "huber" ? spec.delta : 0.0f;
  const Op op = soft ? Op::kSoftCrossEntropy : binary ? Op::kBinaryCrossEntropy : Op::kRegressionLoss;
  const std::vector<ValueId> outputs = graph.add(op, attrs, {predictions, loss.labels}, "loss");
  loss.loss = outputs[0];
  if (!soft && !binary) return;
  loss.correct = outputs[2];
  loss.counted = outputs[3];
}

Loss add_loss(Graph& graph, const LossSpec& spec) {
  if (graph.outputs.empty()) fail(ErrorKind::kUsage, "the graph has no output to compare with labels");
  const ValueId logits = graph.outputs[0];
  Dims dims = graph.value(logits).dims;
  if (dims.empty()) fail(ErrorKind::kUsage, "the output '{}' has no classes", graph.value(logits).name);
  dims.pop_back();
  Loss loss;
  if (spec.name != "softmax") {
    add_target_loss(graph, spec, logits, loss);
    return loss;
  }
  loss.labels = graph.input("labels", DType::kS32, dims);
  Attrs attrs;
  attrs.rate = spec.label_smoothing;
  const std::vector<ValueId> outputs = graph.add(Op::kSoftmaxCrossEntropy, attrs, {logits, loss.labels}, "loss");
  loss.loss = outputs[0];
  loss.correct = outputs[2];
  loss.counted = outputs[3];
  return loss;
}

ValueId weighted_sum(Graph& graph, ValueId a, float factor_a, ValueId b, float factor_b, const std::string& name) {
  Attrs factors;
  factors.scale_a = factor_a, factors.scale_b = factor_b;
  return graph.add(Op::kScaledAdd, factors, {a, b}, name)[0];
}

// Adds what the logits have to learn from the teacher's to the loss of the data (LossSpec::share). The divergence is
// the cross-entropy less what it is at least, the teacher's own.
Distilled add_distillation(Graph& graph, const LossSpec& spec, ValueId logits, ValueId teacher, Loss& loss) {
  const float cooled = 1 / spec.temperature, weight = spec.share * spec.temperature * spec.temperature;
  const auto at_temperature = [&](ValueId x, const char* name) { return weighted_sum(graph, x, cooled, x, 0, name); };
  const ValueId of_student = at_temperature(logits, "distillation.logits"),
                of_teacher = at_temperature(teacher, "distillation.teacher");
  const ValueId targets = graph.add(Op::kSoftmax, {}, {of_teacher}, "distillation.targets")[0];
  const std::vector<ValueId> made = graph.add(Op::kSoftCrossEntropy, {}, {of_student, targets}, "distillation.loss");
  const ValueId least = graph.add(Op::kSoftCrossEntropy, {}, {of_teacher, targets}, "distillation.least")[0];
  const ValueId of_data = graph.nodes[producer(graph, loss.loss)].outputs.at(1);
  const ValueId divergence = weighted_sum(graph, made[0], 1, least, -1, "distillation.divergence");
  loss.loss = weighted_sum(graph, loss.loss, 1 - spec.share, divergence, weight, "distillation");
  return {logits, weighted_sum(graph, of_data, 1 - spec.share, made[1], weight * cooled, "distillation.gradient")};
}

// Assigns a stream of random numbers to each dropout without one: a hash (FNV-1a) of its name, so that other layers do
// not matter.
void choose_streams(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.op != Op::kDropout || node.attrs.stream != 0) continue;
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const char c : node.name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    node.attrs.stream = hash;
  }
}

// The nodes of one parameter's update: [first, last) of the graph's. Without a parameter they only read the gradient.
struct UpdateNodes {
  ValueId parameter = kNone, gradient = kNone;
  std::size_t first = 0, last = 0;
};

// Moves each update to where its gradient is known and nothing reads the parameter any more, so that gradients have
// short lives.
void update_early(Graph& graph, const std::vector<UpdateNodes>& updates) {
  const std::size_t first_update = updates.empty() ? graph.nodes.size() : updates.front().first;
  std::vector<int> last_touch(graph.values.size(), -1);
  for (std::size_t i = 0; i < first_update; ++i) {
    for (const std::vector<ValueId>* ids : {&graph.nodes[i].inputs, &graph.nodes[i].outputs}) {
      for (const ValueId id : *ids) {
        if (id != kNone) last_touch[static_cast<std::size_t>(id)] = static_cast<int>(i);
      }
    }
  }
  std::vector<std::pair<int, Node>> ordered;
  ordered.reserve(graph.nodes.size());
  for (std::size_t i = 0; i < first_update; ++i) ordered.emplace_back(static_cast<int>(i), std::move(graph.nodes[i]));
  for (const UpdateNodes& update : updates) {
    int after = last_touch[static_cast<std::size_t>(update.gradient)];
    if (update.parameter != kNone) after = std::max(after, last_touch[static_cast<std::size_t>(update.parameter)]);
    for (std::size_t i = update.first; i < update.last; ++i) ordered.emplace_back(after, std::move(graph.nodes[i]));
  }
  std::ranges::stable_sort(ordered, {}, [](const auto& each) { return each.first; });
  for (std::size_t i = 0; i < ordered.size(); ++i) graph.nodes[i] = std::move(ordered[i].second);
}

// One parameter and its gradient.
struct Trained {
  ValueId parameter = kNone, gradient = kNone;
};

// Adds the inputs of a stage's gradients that come from elsewhere.
std::vector<GivenGradient> add_given(Graph& graph, const Stage& stage, StageTraining& ids) {
  std::vector<GivenGradient> given;
  const auto add = [&](const std::string& name, ValueId& gradient) {
    const ValueId value = graph.find(name);
    gradient = graph.input(name + ".grad", DType::kF32, graph.value(value).dims);
    given.push_back({value, gradient});
  };
  if (!stage.output.empty()) {
    ids.output = graph.find(stage.output);
    add(stage.output, ids.output_gradient);
  }
  if (stage.is_last() && !stage.rows.empty()) add(stage.rows, ids.rows_gradient);
  return given;
}

std::vector<Trained> trained_parameters(Graph& graph, ValueId loss, const Distilled& distilled, const Stage& stage,
                                        StageTraining& ids) {
  std::vector<ValueId> parameters;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].role == Role::kParameter && !stage.copies(graph.values[i].name))
      parameters.push_back(static_cast<ValueId>(i));
  }
  std::vector<ValueId> wanted = parameters;
  if (!stage.input.empty()) wanted.push_back(ids.input = graph.find(stage.input));
  if (!stage.is_last() && stage.is_first() && !stage.rows.empty()) wanted.push_back(graph.find(stage.rows));
  std::vector<ValueId> gradients;
  if (distilled.gradient != kNone) {
    gradients = differentiate(graph, kNone, wanted, {{distilled.logits, distilled.gradient}});
  } else if (stage.is_whole()) {
    gradients = differentiate(graph, loss, wanted);
  } else {
    gradients = differentiate(graph, loss, wanted, add_given(graph, stage, ids));
  }
  for (std::size_t i = parameters.size(); i < wanted.size(); ++i) {
    (wanted[i] == ids.input ? ids.input_gradient : ids.rows_gradient) = gradients[i];
    graph.outputs.push_back(gradients[i]);
  }
  std::vector<Trained> trained;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (gradients[i] != kNone) trained.push_back({parameters[i], gradients[i]});
  }
  return trained;
}

// Replaces gradients by their sums over micro-batches; each is added as soon as it is known. Returns the input of
// factors.
ValueId accumulate(Graph& graph, std::vector<Trained>& trained) {
  const ValueId factors = graph.input("accumulation", DType::kF32, {Dim::of(2)});
  std::vector<UpdateNodes> sums;
  for (Trained& each : trained) {
    const std::string name = graph.value(each.parameter).name + kGradientSum;
    UpdateNodes nodes{kNone, each.gradient, graph.nodes.size(), graph.nodes.size() + 1};
    const ValueId sum = graph.state(name, graph.value(each.parameter).dims);
    graph.add(Op::kAccumulate, {}, {sum, each.gradient, factors}, name);
    each.gradient = sum;
    sums.push_back(nodes);
  }
  update_early(graph, sums);
  return factors;
}

// Adds a parameter's gradient to the norm of those before it.
void add_to_norm(Graph& graph, const Trained& each, const Partition& partition, StageTraining::Norms& norms) {
  const std::string name = graph.value(each.parameter).name;
  ValueId& sum = partition.cut_of(name) ? norms.part : norms.whole;
  std::vector<ValueId> inputs{each.gradient};
  if (sum != kNone) inputs.push_back(sum);
  sum = graph.add(Op::kNorm, {}, std::move(inputs), name + ".norm")[0];
}

// The norms of this stage's runs of parameters, each after those of the runs before it, which come from other stages.
StageTraining::Norms norms_in_runs(Graph& graph, const std::vector<Trained>& trained, const Partition& partition,
                                   TrainingGraph& ids) {
  StageTraining& stage = ids.stage;
  const auto add_inputs = [&](const std::string& name) -> StageTraining::Norms {
    const ValueId whole = graph.input(name, DType::kF32, {Dim::of(1)});
    if (partition.parts == 1) return {whole, kNone};
    return {whole, graph.input(name + ".part", DType::kF32, {Dim::of(1)})};
  };
  stage.before = add_inputs("gradient_norm.before");
  stage.total = add_inputs("gradient_norm.total");
  for (const Trained& each : trained) {
    const int run = partition.stage.run_of.find(graph.value(each.parameter).name)->second;
    if (stage.runs.empty() || stage.runs.back().run != run)
      stage.runs.push_back({run, graph.nodes.size() - ids.update_begin, 0, stage.before});
    add_to_norm(graph, each, partition, stage.runs.back().norms);
    stage.runs.back().end = graph.nodes.size() - ids.update_begin;
  }
  for (const StageTraining::Run& run : stage.runs)
    for (const ValueId id : {run.norms.whole, run.norms.part})
      if (id != kNone && graph.value(id).role == Role::kActivation) graph.outputs.push_back(id);
  stage.apply_begin = graph.nodes.size() - ids.update_begin;
  return stage.total;
}

// The norm over all gradients as one vector, parameter after parameter. Gradients that every part has count once.
ValueId norm_of_all(Graph& graph, const std::vector<Trained>& trained, const Partition& partition, TrainingGraph& ids) {
  StageTraining::Norms norms;
  if (!partition.stage.is_whole()) {
    norms = norms_in_runs(graph, trained, partition, ids);
  } else {
    for (const Trained& each : trained) add_to_norm(graph, each, partition, norms);
  }
  if (norms.part == kNone) return norms.whole;
  Attrs attrs;
  attrs.groups = partition.parts;
  std::vector<ValueId> inputs{graph.add(Op::kAllGather, attrs, {norms.part}, "gradient_norm.parts")[0]};
  if (norms.whole != kNone) inputs.push_back(norms.whole);
  return graph.add(Op::kNorm, {}, std::move(inputs), "gradient_norm.whole")[0];
}

DType factor_type(Precision precision) {
  if (precision == Precision::kBF16) return DType::kBF16;
  return precision == Precision::kF16 ? DType::kF16 : DType::kF32;
}

void multiply_in_tf32(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (op_def(node.op).product) node.attrs.tf32 = true;
  }
}

// Multiplies the gradient of the loss by the loss scale, before it is rounded. Returns the state.
ValueId scale_gradients(Graph& graph, ValueId loss) {
  const ValueId state = graph.state(kLossScale, {Dim::of(2)});
  graph.nodes[producer(graph, loss)].inputs.push_back(state);
  return state;
}

// What all updates wait for if gradients are clipped or scaled; see Update.
struct Applied {
  ValueId factor = kNone, taken = kNone;
};
Applied factor_of_gradients(Graph& graph, const std::vector<Trained>& trained, float clip, const Partition& partition,
                            TrainingGraph& ids) {
  if (trained.empty()) return {};
  Attrs attrs;
  attrs.clip = clip;
  std::vector<ValueId> inputs{norm_of_all(graph, trained, partition, ids)};
  if (ids.loss_scale != kNone) inputs.push_back(ids.loss_scale);
  const std::vector<ValueId> made = graph.add(Op::kGradientScale, attrs, std::move(inputs), "gradient_scale");
  if (clip > 0) {
    ids.gradient_norm = made[1];
    graph.outputs.push_back(made[1]);
  }
  return {made[0], ids.loss_scale != kNone ? made[2] : kNone};
}

void add_average(Graph& graph, ValueId parameter, ValueId factors) {
  const std::string name = graph.value(parameter).name + kAverage;
  const ValueId average = graph.state(name, graph.value(parameter).dims);
  graph.add(Op::kAccumulate, {}, {average, parameter, factors}, name);
}

// Where nobody can look at a GPU's memory after each step. In double, so that no square overflows.
ValueId norm_of_state(Graph& graph) {
  ValueId norm = kNone;
  for (std::size_t i = 0, count = graph.values.size(); i < count; ++i) {
    const Value value = graph.values[i];
    const bool left = value.role == Role::kParameter || value.role == Role::kState;
    if (!left || value.dtype != DType::kF32 || value.name == kLossScale || value.name.ends_with(kGradientSum)) continue;
    std::vector<ValueId> inputs{static_cast<ValueId>(i)};
    if (norm != kNone) inputs.push_back(norm);
    norm = graph.add(Op::kNorm, {}, std::move(inputs), value.name + ".left")[0];
  }
  if (norm != kNone) graph.outputs.push_back(norm);
  return norm;
}

// Moves the nodes that wait for the gradient of rows behind the others.
void put_last(Graph& graph, ValueId rows_gradient) {
  std::vector<char> waits(graph.values.size(), 0);
  waits[index(rows_gradient)] = 1;
  const auto is_late = [&](const Node& node) {
    const bool late =
        std::ranges::any_of(node.inputs, [&](ValueId id) { return id != kNone && waits[index(id)] != 0; });
    for (const ValueId id : node.outputs)
      if (late && id != kNone) waits[index(id)] = 1;
    return late;
  };
  std::vector<Node> early, late;
  for (Node& node : graph.nodes) {
    const bool waiting = is_late(node);
    (waiting ? late : early).push_back(std::move(node));
  }
  std::ranges::move(late, std::back_inserter(early));
  graph.nodes = std::move(early);
}

// Of the gradient of rows.
std::size_t first_reader(const TrainingGraph& training) {
  const std::vector<Node>& nodes = training.graph.nodes;
  const auto reads = [&](const Node& node) {
    return std::ranges::find(node.inputs, training.stage.rows_gradient) != node.inputs.end();
  };
  return static_cast<std::size_t>(std::ranges::find_if(nodes, reads) - nodes.begin());
}

// remove_dead renumbers, so the values that the caller wants are found again by name.
TrainingGraph cleaned(const Graph& graph, const Loss& loss, const TrainingGraph& ids) {
  TrainingGraph result;
  result.graph = remove_dead(graph);
  const auto again = [&](ValueId id) { return id == kNone ? kNone : result.graph.find(graph.value(id).name); };
  result.labels = again(loss.labels);
  result.learning_rate = again(ids.learning_rate);
  result.accumulation = again(ids.accumulation);
  result.average = again(ids.average);
  result.gradient_norm = again(ids.gradient_norm);
  result.loss_scale = again(ids.loss_scale);
  result.state_norm = again(ids.state_norm);
  result.loss = again(loss.loss);
  result.correct = again(loss.correct);
  result.counted = again(loss.counted);
  result.stage = ids.stage;
  StageTraining& stage = result.stage;
  for (ValueId* id : {&stage.input, &stage.input_gradient, &stage.output, &stage.output_gradient, &stage.rows_gradient,
                      &stage.before.whole, &stage.before.part, &stage.total.whole, &stage.total.part})
    *id = again(*id);
  for (StageTraining::Run& run : stage.runs) run.norms = {again(run.norms.whole), again(run.norms.part)};
  result.loss_end = producer(result.graph, result.loss != kNone ? result.loss : stage.output) + 1;
  // Everything in the updates is needed, so only nodes before them were removed.
  result.update_begin = result.graph.nodes.size() - (graph.nodes.size() - ids.update_begin);
  stage.late_begin = result.update_begin;
  if (result.loss != kNone && stage.rows_gradient != kNone) stage.late_begin = first_reader(result);
  // They are taken as soon as they are written, and need not stay until the end of the step.
  std::erase_if(result.graph.outputs, [&](ValueId id) {
    return id == stage.output || id == stage.input_gradient || (result.loss == kNone && id == stage.rows_gradient);
  });
  return result;
}

}  // namespace

TrainingGraph to_training(const Graph& forward, const OptimizerSpec& optimizer, float label_smoothing) {
  return to_training(forward, optimizer, LossSpec{"softmax", label_smoothing});
}

TrainingGraph to_training(const Graph& forward, const OptimizerSpec& optimizer, const LossSpec& loss_spec,
                          const PrecisionSpec& precision, const Partition& partition) {
  const std::vector<char> hidden = hidden_matrices(forward);
  const DType factors = factor_type(precision.precision);
  const kernels::Capabilities& can = precision.can;
  Graph graph = forward;
  choose_streams(graph);
  fuse_activations(graph, false);
  const Stage& stage = partition.stage;
  CHECK(stage.is_whole() || (optimizer.accumulate && precision.precision != Precision::kF16));
  CHECK(loss_spec.share == 0 || (stage.is_whole() && precision.precision != Precision::kF16));
  Loss loss;
  Distilled distilled;
  if (stage.is_last()) {
    loss = add_loss(graph, loss_spec);
    if (loss_spec.share > 0)
      distilled = add_distillation(graph, loss_spec, graph.outputs[0], graph.outputs.at(1), loss);
    graph.outputs = {loss.loss};
    if (loss.correct != kNone) graph.outputs.insert(graph.outputs.end(), {loss.correct, loss.counted});
  }
  TrainingGraph ids;
  std::vector<Trained> trained = trained_parameters(graph, loss.loss, distilled, stage, ids.stage);
  if (precision.precision == Precision::kF16) ids.loss_scale = scale_gradients(graph, loss.loss);
  if (factors != DType::kF32) multiply_in_half(graph, factors, can);
  if (can.adds_in_norms) fuse_residuals(graph);
  if (factors != DType::kF32) store_in_half(graph, factors, can);
  if (can.gelu_in_linear) fuse_gelu(graph);
  ids.learning_rate = graph.input("learning_rate", DType::kF32, {Dim::of(1)});
  if (optimizer.average) ids.average = graph.input("average", DType::kF32, {Dim::of(2)});
  if (optimizer.accumulate) ids.accumulation = accumulate(graph, trained);
  if (stage.is_last() && ids.stage.rows_gradient != kNone) put_last(graph, ids.stage.rows_gradient);
  ids.update_begin = graph.nodes.size();
  Applied applied;
  if (optimizer.clip > 0 || ids.loss_scale != kNone)
    applied = factor_of_gradients(graph, trained, optimizer.clip, partition, ids);
  std::vector<UpdateNodes> updates;
  for (const Trained& each : trained) {
    UpdateNodes nodes{each.parameter, each.gradient, graph.nodes.size(), 0};
    Update update{graph, optimizer, each.parameter, each.gradient, ids.learning_rate, applied.factor, applied.taken};
    update.factors = factors;
    update.hidden_matrix = hidden[static_cast<std::size_t>(each.parameter)] != 0;
    add_update(update);
    if (optimizer.average && !can.updates_together) add_average(graph, each.parameter, ids.average);
    nodes.last = graph.nodes.size();
    updates.push_back(nodes);
  }
  for (const Trained& each : trained)
    if (optimizer.average && can.updates_together) add_average(graph, each.parameter, ids.average);
  if (!optimizer.accumulate && applied.factor == kNone && !can.updates_together) update_early(graph, updates);
  if (can.own_memory) ids.state_norm = norm_of_state(graph);
  if (precision.precision == Precision::kTF32) multiply_in_tf32(graph);
  return cleaned(graph, loss, ids);
}

TrainingGraph with_loss(const Graph& inference) {
  Graph graph = inference;
  const Loss loss = add_loss(graph, {});
  for (const ValueId id : {loss.loss, loss.correct, loss.counted}) graph.outputs.push_back(id);
  TrainingGraph ids;
  ids.update_begin = graph.nodes.size();
  return cleaned(graph, loss, ids);
}

}  // namespace mlx::graph
