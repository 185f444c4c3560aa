// train.toml: [data], [model], [train], read strictly; the resolved form, with every default written out, is part of a
// run's key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/loader.h"
#include "data/split.h"
#include "graph/passes.h"
#include "nn/family.h"
#include "train/checkpoint_interval.h"
#include "train/schedule.h"
#include "train/selection.h"

namespace mlx::train {

struct TrainConfig {
  // [data]
  std::string dataset;  // a reference: "data/fashion"
  std::string train_split = "train";
  std::string valid_split;       // "" for none
  std::int64_t valid_count = 0;  // or so many examples (of text, bytes at its end) held out of the train split
  double valid_share = 0;        // or this share of them
  data::Reading reading;         // of rows and text
  data::Augment augment;
  // [model]
  std::string name;                       // the artifact: "clf"
  std::string init;                       // a model that the training starts from; "" for none
  std::string file;                       // for messages
  std::shared_ptr<const TomlNode> model;  // its table, read by nn::build once the dataset's shape is known
  // [train]
  std::int64_t epochs = 1, batch = 128;
  std::uint64_t seed = 1;
  graph::OptimizerSpec optimizer;  // with clip, and whether gradients are summed and weights averaged
  Schedule schedule;
  float label_smoothing = 0;
  std::int64_t accumulate = 1;  // micro-batches that a batch is cut into
  double ema = 0;               // decay of the weights' average; 0: none
  SelectionConfig selection;
  CheckpointInterval checkpoint_every;
  std::string loss;        // "softmax", "binary", "mse", "huber"; "" for what fits the targets
  double huber_delta = 1;  // in standard deviations of the target
};

TrainConfig read_train_config(const std::string& file);  // kUsage with file, line, key and what was expected; kNotFound
// Canonical JSON of everything that can change the result except the dataset's digest; `built` has the resolved model.
std::string resolved(const TrainConfig& config, const nn::Built& built);
// kUsage where the loss that the config names is not one for such targets.
graph::LossSpec loss_spec(const TrainConfig& config, data::TargetKind targets);

}  // namespace mlx::train
