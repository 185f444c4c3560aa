// Golden outputs: what a version answered to some inputs when they were kept, so that another machine, or a server
// before it switches to the version, can see that it answers the same. Kept with a version as an attachment. Used by
// `mlx golden` and by serving.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "data/batches.h"
#include "graph/graph.h"
#include "infer/model.h"

namespace mlx::infer {

// Images and rows: inputs f32[N,example] as the network takes them, outputs f32[N,width] before softmax or units. Text:
// tokens s32[T]; outputs f32[1,vocabulary], the logits behind the last, or of an encoder the states f32[T,width].
struct Golden {
  graph::Tensor inputs, outputs;
};

inline constexpr std::int64_t kMostGolden = 4096;  // examples or tokens

// Throws kUsage if the model takes neither images, rows nor text.
void check_takes_golden(const Model& model);
// What the model answers now. `inputs` as above; throws kCorrupt if the model does not take them.
Golden golden_of(const Model& model, graph::Tensor inputs);
// Inputs from the first `examples` of a batch of images or rows.
graph::Tensor golden_examples(const Model& model, const data::BatchView& batch, std::int64_t examples);
graph::Tensor golden_tokens(const std::vector<std::int32_t>& tokens);

// The largest difference of an output now, as a share of the largest golden one; infinite if one is not finite.
double difference_now(const Model& model, const Golden& golden);
// What another machine's kernels may differ by: more where they round activations.
double allowed_difference(const Model& model);
// Throws kNo, with the difference, if it is more. `name`: of the golden outputs.
void check_golden(const Model& model, const Golden& golden, const std::string& name);

// As a file of safetensors. Reading throws kCorrupt, naming `what`.
Bytes encode_golden(const Golden& golden);
Golden decode_golden(ByteView bytes, const std::string& what);

}  // namespace mlx::infer
