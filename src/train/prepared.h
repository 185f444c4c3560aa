// What a training knows of its data and its model before the first step: the same on every rank. Used by trainer.cpp
// and other_rank.cpp.
#pragma once

#include "base/progress.h"
#include "data/dataset.h"
#include "nn/model.h"
#include "store/pack/store.h"
#include "train/config/config.h"
#include "work/work.h"

namespace mlx::train {

struct Prepared {
  TrainConfig config;      // names everything that it left to the data or the device
  data::Description data;  // of the train split
  nn::Built built;
};

// `base`: the model that training starts from, without tensors; null for none. `teacher`: likewise the one that it
// learns from ([distill]).
Prepared prepare(const store::Store& store, const Digest& dataset, TrainConfig config, const nn::Model* base,
                 kernels::Backend backend, Progress& progress, const nn::Model* teacher = nullptr);

// The training as work, without the name of its command and the model that it starts from.
work::Work work_of(const Prepared& prepared, const Digest& dataset, kernels::Backend backend);

}  // namespace mlx::train
