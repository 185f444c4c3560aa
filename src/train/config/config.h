// train.toml: [data], [model], [train], parsed strictly. The resolved form, with every default, is part of a run's key.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "graph/passes/passes.h"
#include "kernels/backend.h"
#include "nn/family.h"
#include "train/config/checkpoint_interval.h"
#include "train/config/local_sgd_config.h"
#include "train/config/schedule.h"
#include "train/config/selection.h"

namespace mlx::train {

// A config as it was read: by its text and what overrides it, it can be read again elsewhere.
struct ConfigSource {
  std::string file, text;         // `file` is for messages
  std::vector<std::string> sets;  // "train.epochs=20"
};

// [distill]: a model whose logits are learned from, beside the data (graph::LossSpec).
struct DistillConfig {
  std::string teacher;  // a reference; "" for none
  double temperature = 2, share = 0.5;
  bool wanted() const { return !teacher.empty(); }
};

inline constexpr std::int64_t kMostWaiting = 16;  // TrainConfig::async

struct TrainConfig {
  ConfigSource source;
  // [data]
  std::string dataset;  // a reference: "data/fashion"
  std::string train_split = "train";
  std::string valid_split;           // "" for none
  data::HoldOut hold_out;            // of the train split, for validation
  std::int64_t shuffle_buffer = 0;   // examples that an epoch's order is drawn from at a time; 0: all
  double leaks = 0.01;               // the largest share of a split's examples that may be in the train split too
  std::optional<double> near_leaks;  // that may be almost there; without it only a warning
  data::Reading reading;             // the keys of each kind of data, and how splits are divided
  // [model]
  std::string name;                       // the artifact: "clf"
  std::string init;                       // the model that training starts from; "" for none
  std::string file;                       // for messages
  std::shared_ptr<const TomlNode> model;  // its table, which nn::build reads once the dataset's shape is known
  DistillConfig distill;
  // [train]
  std::shared_ptr<const TomlNode> train;  // its table, which settle() reads again
  std::int64_t epochs = 1, batch = 128;
  bool batch_given = false, optimizer_given = false;  // otherwise settle() chooses them
  const data::Kind* guessed = nullptr;                // the kind that defaults assume before the data is known
  std::uint64_t seed = 1;
  graph::OptimizerSpec optimizer;  // with clip, and whether gradients are summed and weights averaged
  Schedule schedule;
  float label_smoothing = 0;
  std::int64_t accumulate = 1;  // the number of micro-batches in a batch; in local SGD in a worker's share of it
  LocalSgdConfig local_sgd;
  std::string wire = "f32";  // "f32" or "bf16": how gradients, or with local SGD moves of weights, go to other ranks
  std::int64_t tp = 1;       // the number of ranks that hold the parts of each layer
  std::int64_t pp = 1;       // the number of stages of layers, each on `tp` ranks of its own
  std::int64_t ranks_of_model() const { return tp * pp; }
  std::int64_t zero = 0;   // 1: ranks share the optimizer's state; changes no bit
  std::int64_t async = 0;  // steps that may wait for their update, for which the next steps do not wait
  bool sums_micro_batches() const { return accumulate > 1 || async > 0; }  // apart from the update
  bool balance = false;             // ranks get micro-batches by how fast they are; changes no bit
  bool synchronised_norms = false;  // batch norm is over the micro-batches of all ranks, and not over each
  double ema = 0;                   // decay of the weights' average; 0: none
  SelectionConfig selection;
  CheckpointInterval checkpoint_every;
  bool keep_state = true;       // keep the optimizer state of a done training, so that it can be extended
  std::string loss;             // "softmax", "binary", "mse", "huber"; "": the one that fits the targets
  double huber_delta = 1;       // in standard deviations of the target
  std::string precision;        // one of precision_words(), or ""; the training uses precision_of()
  std::string precision_place;  // for messages: "train.toml:9: [train] precision", "--precision"
  std::string options;          // command-line options that override keys, for resuming: " --precision bf16"
  bool portable = false;        // numerics: the same bits on every machine (kernels::portable_backend), else native
};

// Throws kUsage with file, line, key and what was expected; kNotFound. `sets`, "train.epochs=20", override the file.
TrainConfig read_train_config(const std::string& file, const std::vector<std::string>& sets = {});
// The same for the file's text.
TrainConfig parse_train_config(const std::string& text, const std::string& file,
                               const std::vector<std::string>& sets = {});
// What divides the model: "tp = 2, pp = 4"; "" if nothing does.
std::string division_text(const TrainConfig& config);
// Throws kUsage if so many ranks cannot hold whole models.
void check_ranks(const TrainConfig& config, std::int64_t ranks);
// Sets the defaults that depend on the data: the optimizer (Kind::optimizer), and a batch of 128. With fewer than 1024
// training `examples` the batch is the largest power of two that gives an epoch eight batches.
void settle(TrainConfig& config, const data::Kind& kind, std::int64_t examples);
constexpr std::int64_t kEnoughExamples = 1024;  // from here on the default batch does not depend on them
// Canonical JSON of everything that can change the result except the dataset's digest; `built` has the resolved model.
// The checkpoint interval is not part of it.
std::string resolved(const TrainConfig& config, const nn::Built& built);
std::vector<std::string> precision_words();       // "f32", "tf32", "bf16", "fp16", "auto"
const char* name_of(graph::Precision precision);  // the word for it
// Overrides the file's precision with one of these words, from --precision.
void set_precision(TrainConfig& config, const std::string& word);
// "native" or "portable", from --numerics.
void set_numerics(TrainConfig& config, const std::string& word);
// The precision of products. It never changes silently, because the one in use is part of the resolved form. "auto" is
// bf16 if this backend multiplies it fast and the loss is one of classes, labels or tokens; numeric targets may be
// finer than bf16's 8 bits. The default is "auto" if the backend prefers bf16, else f32. Throws kUsage if tf32 or fp16
// is requested from a backend that lacks it, kMissing for bf16.
graph::Precision precision_of(const TrainConfig& config, const data::Description& data, kernels::Backend backend);
// Throws kUsage if the config's loss does not suit such targets.
graph::LossSpec loss_spec(const TrainConfig& config, data::TargetKind targets);

}  // namespace mlx::train
