// How a model that is being trained is on the validation split. Used by the training loop.
#pragma once

#include "base/interruption.h"
#include "base/parallel.h"
#include "graph/session/session.h"
#include "kernels/backend.h"
#include "nn/family.h"
#include "train/loop/share_state.h"
#include "train/loop/training_data.h"

namespace mlx::train {

// `tensors`: of the forward graph; not copied. `data.valid` is there.
Validation validate(const nn::Built& built, const graph::Tensors& tensors, const TrainingData& data,
                    kernels::Backend backend, Pool& pool, const Interruption& interruption);

}  // namespace mlx::train
