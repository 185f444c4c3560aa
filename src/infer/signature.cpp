// The signature for each kind of input. The names of outputs are part of the server's interface and do not change.

#include "infer/signature.h"

#include "base/error.h"
#include "infer/examples.h"
#include "nn/model_json.h"

namespace mlx::infer {
namespace {

constexpr std::int64_t kAny = -1;

std::vector<std::int64_t> shape_of(const graph::Dims& dims) {
  std::vector<std::int64_t> shape;
  for (const graph::Dim& dim : dims) shape.push_back(dim.symbolic() ? kAny : dim.size);
  return shape;
}

TensorSpec tensor_of(const graph::Value& value) {
  return {value.name, nn::datatype_name(value.dtype), shape_of(value.dims)};
}

void add_outputs(Signature& signature) {
  switch (signature.gives) {
    case data::TargetKind::kClass:
      signature.outputs = {
          {"probabilities", "FP32", {kAny, signature.width()}}, {"label", "BYTES", {kAny}}, {"class", "INT64", {kAny}}};
      return;
    case data::TargetKind::kLabels:
      signature.outputs = {{"probabilities", "FP32", {kAny, signature.width()}}};
      return;
    case data::TargetKind::kNumbers:
      for (const std::string& name : signature.labels) signature.outputs.push_back({name, "FP64", {kAny}});
      return;
    case data::TargetKind::kTokens:
      signature.outputs = {{"text_output", "BYTES", {1}}};
      return;
  }
}

// The number of outputs that the network computes for each example.
std::int64_t width_of(const nn::Model& model) {
  const graph::Dims& dims = model.graph.value(model.graph.outputs.at(0)).dims;
  if (dims.size() != 2 || dims[1].symbolic()) {
    fail(ErrorKind::kCorrupt, "the model's output is {}, expected [batch, outputs]", to_text(model.graph, dims));
  }
  return dims[1].size;
}

Signature of_images(const nn::Model& model) {
  const data::Preprocessing& p = model.preprocessing;
  if (static_cast<std::int64_t>(p.normalization.mean.size()) != p.channels) {
    fail(ErrorKind::kCorrupt, "the model normalises {} channels, but its images have {}", p.normalization.mean.size(),
         p.channels);
  }
  Signature out;
  out.takes = Takes::kImages;
  out.example = p.height * p.width * p.channels;
  out.inputs = {{model.graph.value(model.graph.inputs[0]).name, "UINT8", {kAny, p.height, p.width, p.channels}}};
  out.labels = model.labels;
  const std::int64_t classes = width_of(model);
  if (!out.labels.empty() && out.width() != classes)
    fail(ErrorKind::kCorrupt, "the model has {} labels for {} classes", out.labels.size(), classes);
  while (out.width() < classes) out.labels.push_back(std::to_string(out.labels.size()));
  return out;
}

Signature of_rows(const nn::Model& model) {
  const data::RowSchema& schema = *model.preprocessing.rows;
  Signature out;
  out.takes = Takes::kRows;
  out.gives = schema.kind;
  out.example = schema.width();
  for (const data::Column& column : schema.features)
    out.inputs.push_back({column.name, column.is_number() ? "FP64" : "BYTES", {kAny}});
  out.labels = schema.outputs();
  if (out.width() != width_of(model))
    fail(ErrorKind::kCorrupt, "the model's columns have {} outputs, its graph {}", out.width(), width_of(model));
  return out;
}

Signature of_text(const nn::Model& model) {
  Signature out;
  out.takes = Takes::kText;
  out.gives = data::TargetKind::kTokens;
  out.context = context_of(model);
  out.inputs = {{"text_input", "BYTES", {1}}};
  return out;
}

Signature of_tensors(const nn::Model& model) {
  Signature out;
  for (const graph::ValueId input : model.graph.inputs) out.inputs.push_back(tensor_of(model.graph.value(input)));
  for (const graph::ValueId output : model.graph.outputs) out.outputs.push_back(tensor_of(model.graph.value(output)));
  return out;
}

}  // namespace

Signature signature_of(const nn::Model& model) {
  const bool one_input = model.graph.inputs.size() == 1 && !model.graph.outputs.empty();
  const data::Kind* const kind = kind_of(model);
  if (one_input && kind && kind->windows) {
    Signature out = of_text(model);
    add_outputs(out);
    return out;
  }
  const bool images = model.preprocessing.height > 0;
  if (!one_input || (!images && !model.preprocessing.rows)) return of_tensors(model);
  Signature out = images ? of_images(model) : of_rows(model);
  out.batches = true;
  add_outputs(out);
  return out;
}

}  // namespace mlx::infer
