// train.toml: [data], [model], [train], read strictly; the resolved form, with every default written out, is part of a
// run's key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/dataset.h"
#include "graph/passes.h"
#include "kernels/backend.h"
#include "nn/family.h"
#include "train/checkpoint_interval.h"
#include "train/schedule.h"
#include "train/selection.h"

namespace mlx::train {

struct TrainConfig {
  // [data]
  std::string dataset;  // a reference: "data/fashion"
  std::string train_split = "train";
  std::string valid_split;  // "" for none
  data::HoldOut hold_out;   // of the train split, for validation
  data::Reading reading;    // the keys of each kind of data
  // [model]
  std::string name;                       // the artifact: "clf"
  std::string init;                       // a model that the training starts from; "" for none
  std::string file;                       // for messages
  std::shared_ptr<const TomlNode> model;  // its table, read by nn::build once the dataset's shape is known
  // [train]
  std::shared_ptr<const TomlNode> train;  // its table: settle() reads it again
  std::int64_t epochs = 1, batch = 128;
  bool batch_given = false, optimizer_given = false;  // or settle() chooses them
  const data::Kind* guessed = nullptr;                // what the defaults are for, before the data is known
  std::uint64_t seed = 1;
  graph::OptimizerSpec optimizer;  // with clip, and whether gradients are summed and weights averaged
  Schedule schedule;
  float label_smoothing = 0;
  std::int64_t accumulate = 1;  // micro-batches that a batch is cut into
  double ema = 0;               // decay of the weights' average; 0: none
  SelectionConfig selection;
  CheckpointInterval checkpoint_every;
  bool keep_state = true;       // the optimizer's, of a training that is done, so that it can go on
  std::string loss;             // "softmax", "binary", "mse", "huber"; "" for what fits the targets
  double huber_delta = 1;       // in standard deviations of the target
  std::string precision;        // one of precision_words(), or ""; a training goes on with what precision_of() says
  std::string precision_place;  // for messages: "train.toml:9: [train] precision", "--precision"
  std::string options;          // of the command line that stand for keys, to resume with: " --precision bf16"
  bool portable = false;        // numerics: the same bits on every machine (kernels::portable_backend), else native
};

// kUsage with file, line, key and what was expected; kNotFound. `sets`, "train.epochs=20", count as if the file said
// them.
TrainConfig read_train_config(const std::string& file, const std::vector<std::string>& sets = {});
// Defaults that depend on the data: the optimizer (Kind::optimizer), and a batch of 128, or of the largest power of two
// that leaves an epoch eight batches where there are fewer than 1024 `examples` to train on.
void settle(TrainConfig& config, const data::Kind& kind, std::int64_t examples);
constexpr std::int64_t kEnoughExamples = 1024;  // from here on the default batch does not depend on them
// Canonical JSON of everything that can change the result except the dataset's digest; `built` has the resolved model.
// Where checkpoints are made changes nothing.
std::string resolved(const TrainConfig& config, const nn::Built& built);
std::vector<std::string> precision_words();       // "f32", "tf32", "bf16", "fp16", "auto"
const char* name_of(graph::Precision precision);  // the word for it
// Other than what the file says: one of these words, as given with --precision.
void set_precision(TrainConfig& config, const std::string& word);
// "native" or "portable", as given with --numerics.
void set_numerics(TrainConfig& config, const std::string& word);
// What the products are made of: never changed silently, since what is used stands in the resolved form. "auto" is bf16
// where this backend multiplies it fast and the loss is one of classes, labels or tokens: targets that are numbers
// may be finer than bf16's 8 bits. Where nothing is said it is as "auto" if the backend prefers bf16, else f32. kUsage
// where tf32 or fp16 is asked for of a backend that has none, kMissing where bf16 is.
graph::Precision precision_of(const TrainConfig& config, const data::Description& data, kernels::Backend backend);
// kUsage where the loss that the config names is not one for such targets.
graph::LossSpec loss_spec(const TrainConfig& config, data::TargetKind targets);

}  // namespace mlx::train
