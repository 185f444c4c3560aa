// Passes from graph to graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/memory.h"
#include "graph/passes/partition.h"
#include "graph/weights.h"
#include "kernels/backend.h"

namespace mlx::graph {

struct WithWeights {
  Graph graph;
  std::shared_ptr<const Weights> weights;
};

// Options of a training graph's optimizer: they determine the values that it adds to the forward graph.
struct OptimizerSpec {
  std::string name = "sgd";  // one of optimizer_names()
  float momentum = 0.9f, weight_decay = 0.0f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  bool nesterov = true;
  float clip = 0.0f;        // gradients are scaled down to this norm over all of them; 0: never
  bool accumulate = false;  // gradients are summed over micro-batches before the updates
  bool average = false;     // keeps a running average of each trained parameter, the state "NAME.ema"
};
std::vector<std::string> optimizer_names();  // "sgd", "adamw", "lion", "muon"
struct LossSpec {
  // "softmax"; "soft", the same with class probabilities; "binary" (sigmoid cross-entropy), "mse", "huber"
  std::string name = "softmax";
  float label_smoothing = 0.0f;  // of softmax, soft and binary
  float delta = 1.0f;            // of huber
  // Of softmax and soft, distillation (Hinton et al. 2015): with a share, output 1 of the graph has a teacher's logits,
  // and the loss is (1 - share) times its own and share · temperature² times the divergence of softmax(logits /
  // temperature) from the teacher's (Kullback-Leibler, in nats, mean over the rows).
  float share = 0.0f, temperature = 1.0f;
};
// A forward graph with a frozen teacher beside it, for to_training: output 0 is the student's, output 1 the teacher's.
// `teacher`: an inference graph over the same inputs; its values have kTeacher before their names, and its parameters
// and states are constants. Throws kUsage if its inputs or its output differ from the student's.
inline constexpr const char* kTeacher = "teacher.";
Graph with_teacher(const Graph& student, const Graph& teacher);
// The precision of products in training, and the backend's capabilities for it. With bf16 (Kalamkar et al. 2019) and
// f16 (Micikevicius et al. 2018) these are rounded to the type: inputs of linear layers and convolutions, the gradients
// of their outputs, and convolutions' outputs to a batch norm. Parameters, their gradients, sums and everything else
// stay f32. With tf32 everything is stored as f32, and factors are rounded when they are multiplied. With f16 gradients
// are scaled (kernels/loss_scale.h), by the state kLossScale.
enum class Precision { kF32, kTF32, kBF16, kF16 };
struct PrecisionSpec {
  // Not an aggregate: {precision, true} would set a capability.
  PrecisionSpec(Precision wanted = Precision::kF32, const kernels::Capabilities& backend = {})
      : precision(wanted), can(backend) {}
  Precision precision;
  kernels::Capabilities can;
};
inline constexpr const char* kLossScale = "loss_scale";  // state f32[2]; a training starts with kFirstLossScale, 0
// What the training graph of a stage (stages.h) has beside the loss of the last one.
struct StageTraining {
  // What comes from the stage before, or goes to the next, and the gradients that go the other way. Those that come are
  // inputs; those that go are whole when the node that writes them has run. kNone for none.
  ValueId input = kNone, input_gradient = kNone, output = kNone, output_gradient = kNone;
  ValueId rows_gradient = kNone;  // goes from the first stage to the last one
  std::size_t late_begin = 0;     // the nodes from here to update_begin wait for it; update_begin if there are none
  // The norm over all gradients, if they are clipped: f32[1] inputs of the runs before, and of all runs. The second of
  // each is of what ranks with other parts have too, and must be gathered.
  struct Norms {
    ValueId whole = kNone, part = kNone;
  };
  Norms before, total;
  struct Run {
    int run = 0;                     // of Stage::runs
    std::size_t begin = 0, end = 0;  // its nodes, counted from update_begin
    Norms norms;                     // of this run and those before
  };
  std::vector<Run> runs;
  std::size_t apply_begin = 0;  // the nodes from here on, counted from update_begin, need the total
};
struct TrainingGraph {
  Graph graph;
  ValueId labels = kNone;         // input: "labels" s32[…] for softmax, "targets" f32[…,outputs] for the others
  ValueId learning_rate = kNone;  // input f32[1]
  ValueId loss = kNone, correct = kNone, counted = kNone;  // outputs; mse and huber have only the loss
  ValueId accumulation = kNone;   // input f32[2]: factors of the sum so far and of this micro-batch's gradients
  ValueId average = kNone;        // input f32[2]: factors of the average so far and of the new weights
  ValueId gradient_norm = kNone;  // output f32[1], if gradients are clipped
  ValueId loss_scale = kNone;     // state f32[2], in f16
  ValueId state_norm = kNone;     // output f32[1], if the host cannot look: finite if the state after a step is
  std::size_t loss_end = 0;       // the nodes before this one compute the loss, and write no parameter
  std::size_t update_begin = 0;   // with `accumulate`: the nodes from here on are for the last micro-batch only
  StageTraining stage;            // of a graph that is one stage of a model
  int slots = 1;                  // the micro-batches whose values are kept at a time; see kept()

  // What a session keeps of the micro-batches that wait for other stages.
  KeptValues kept() const {
    return {slots > 1 ? (stage.late_begin < update_begin ? stage.late_begin : loss_end) : 0, slots};
  }
};
inline constexpr const char* kGradientSum =
    ".grad_sum";  // suffix of a parameter's name: a state that does not outlive a step
inline constexpr const char* kAverage = ".ema";
// Forward graph + loss on its first output + backward + optimizer. One-dimensional parameters (biases, norms) have no
// weight decay. Gradients are clipped by the norm over all of them (Pascanu et al. 2013); the updates wait for it.
// `partition`: of a forward graph that is one part of a model; the norm is that of the whole model then.
TrainingGraph to_training(const Graph& forward, const OptimizerSpec& optimizer, const LossSpec& loss,
                          const PrecisionSpec& precision = {}, const Partition& partition = {});
// The same with softmax cross-entropy.
TrainingGraph to_training(const Graph& forward, const OptimizerSpec& optimizer, float label_smoothing);

// For a graph with its backward pass and without its updates: computes products in `half`, bf16 or f16. A value is cast
// once, where the first product needs it, and the cast value is kept for the backward pass. Weights are cast if `can`
// says that products read them; else the kernels that pack them round them. Without half_throughout attention stays
// f32, and so do convolutions with groups or of up to four channels, whose fast kernels are f32.
void multiply_in_half(Graph& graph, DType half, const kernels::Capabilities& can);
// For such a graph: a value that nothing needs as f32 is stored as `half` by the operation that computes it, and its
// casts are removed. With half_throughout the loss also takes its logits and gives its gradient in `half`.
void store_in_half(Graph& graph, DType half, const kernels::Capabilities& can);
// For a graph with its backward pass and without its updates, if adds_in_norms: fuses a sum into the norm that reads
// it, and what is added to a norm's gradient into that gradient. The values stay the same. Run it before store_in_half,
// which then stores a residual in `half`.
void fuse_residuals(Graph& graph);
// For such a graph, if gelu_in_linear, after store_in_half: fuses gelu and its gradient into the products of the
// preceding linear layers (op_list.h, kLinear), if they are stored in the same type.
void fuse_gelu(Graph& graph);

// Which image input a graph is to compute itself, and the names of its new inputs (kernels/op.h, kAugment).
struct RawImages {
  std::string images;                                  // f32[batch,H,W,C], which is no longer an input then
  std::string pixels, changes, table;                  // u8[batch,H,W,C], s32[batch,6], f32[C,256]
  bool mixed = false;                                  // each image is mixed with a partner, whose inputs follow
  std::string partner_pixels, partner_changes, share;  // u8[batch,H,W,C], s32[batch,6], f32[1]
};
// A forward graph that computes its images from bytes, for to_training. Throws kUsage if it has no such input.
Graph augment_inside(const Graph& forward, const RawImages& raw);

// A forward graph in which these parameters are constants, for to_training. A batch norm below which nothing is trained
// uses its running statistics and does not update them, as in inference.
Graph freeze(const Graph& forward, const std::vector<std::string>& parameters);

// A forward graph whose batch norms are over the rows of so many ranks, which have equally many each, for to_training:
// collective operations exchange the statistics, and in the backward pass the sums, of each rank's rows.
Graph synchronise_norms(const Graph& forward, std::int64_t ranks);
bool has_batch_norm(const Graph& forward);

// Low-rank adapters (Hu et al. 2021): the layer of each target W [N,K] gets W.lora_a [rank,K] and W.lora_b [N,rank],
// and computes x·Wᵀ + alpha/rank · (x·Aᵀ)·Bᵀ.
struct LoraSpec {
  std::int64_t rank = 8;
  float alpha = 8, dropout = 0;      // dropout: on the adapter's input
  std::vector<std::string> targets;  // names of weights, among lora_targets()
};
inline constexpr const char* kLoraA = ".lora_a";
inline constexpr const char* kLoraB = ".lora_b";
// Weights that can be adapted: those of linear layers that share them with no other node, except the output layer's.
// Those in groups, NAME.groups, count as NAME.weight, which they were made of; they are not merged.
struct LoraTarget {
  std::string name;
  std::int64_t outputs = 0, inputs = 0;
};
std::vector<LoraTarget> lora_targets(const Graph& forward);
Graph add_lora(const Graph& forward, const LoraSpec& spec);
// The graph before add_lora. Adds the adapters to the weights in `tensors`.
Graph merge_lora(const Graph& forward, Tensors& tensors);

// Replaces the primitive operations of an imported graph, forward or for inference, by core ones that compute the same
// up to rounding: a product with a matrix of weights, and an added bias, becomes a linear layer; a mean over height and
// width becomes average pooling; a sum of equal shapes becomes an addition. Names stay. Weights [K,N] become [N,K],
// biases [1,N] become [N]; all others are shared. Weights with other readers are not transposed, and their products
// stay.
WithWeights raise(const Graph& forward, const Weights& weights);

// Drops dropout and makes batch norm use its running statistics. kCorrupt if another operation would change weights or
// states.
Graph to_inference(const Graph& forward);
// Whether the graph takes ids[batch,sequence] and gives logits for each of them, from those before it alone.
bool is_language_model(const Graph& inference);
// The same for states, from all ids of the sequence: it has attention in both directions.
bool is_encoder(const Graph& inference);
// How many tokens a graph over ids knows: as many as it gives logits for, or, of an encoder, as the table has rows that
// they are looked up in. 0 if that is no number.
std::int64_t vocabulary_size(const Graph& graph);
// An encoder's inference graph for sequences of several lengths. It has another input, lengths s32[batch]: how many of
// its ids are a sequence's; the others change nothing. Names and weights stay. kUsage unless is_encoder().
struct EncodingGraph {
  Graph graph;
  ValueId ids = kNone, lengths = kNone, states = kNone;
};
EncodingGraph to_encoding(const Graph& inference);
// Whether positions influence each other only through attention with learned or rotary positions. Core operations keep
// to that; primitive ones may mix positions.
bool decodes_with_cache(const Graph& inference);
// A language model's inference graph for decoding. It has another input, positions s32[batch]: the number of tokens
// that each sequence already holds. It keeps their keys and values as states NAME.k_cache, NAME.v_cache
// [batch,context,width]. Names and weights stay. kUsage unless decodes_with_cache(). With `blocks` all sequences share
// states of so many blocks, [blocks,kCacheBlock,width], and the input blocks s32[batch,context / kCacheBlock, rounded
// up] says which are a sequence's. `cache`: of the states, f32, f16, or s8 with scales (kernels/cache_bytes.h).
struct DecodingGraph {
  Graph graph;
  ValueId ids = kNone, positions = kNone, blocks = kNone, logits = kNone;
  std::int64_t context = 0;  // the number of positions
};
inline constexpr std::int64_t kCacheBlock = 128;  // positions
DecodingGraph to_decoding(const Graph& inference, std::int64_t blocks = 0, DType cache = DType::kF32);
// For inference: folds batch norm into the preceding convolution or linear layer (changes `tensors`), and fuses
// activations.
Graph fuse(const Graph& inference, Tensors& tensors);
// The same with shared weights: weights that change are new, all others stay shared.
WithWeights fuse(const Graph& inference, const Weights& weights);
// Adds the loss to an inference graph, for evaluation: the labels as input; loss, correct and counted as outputs.
TrainingGraph with_loss(const Graph& inference);
// Removes nodes and values that no output or state write needs, and renumbers the rest.
Graph remove_dead(const Graph& graph);

}  // namespace mlx::graph
