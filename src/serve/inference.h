// Requests and answers of POST /v2/models/NAME/infer: JSON to normalised examples, logits to JSON.
// Source: KServe "Open Inference Protocol" v2, REST, without the binary tensor extension.
//
// Used by service.cpp. Knows the model's signature and nothing of HTTP.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/normalize.h"
#include "nn/model.h"

namespace mlx::serve {

enum class Output { kProbabilities, kLabel, kClass };

struct InferRequest {
  std::string id;
  std::int64_t count = 0;       // examples
  std::vector<float> images;    // count * height * width * channels, normalised as in training
  std::vector<Output> outputs;  // in the order of the answer
};

class Signature {
 public:
  Signature(const nn::Model& model, std::string input, std::int64_t classes);

  // Pixels are on the scale of bytes, 0 … 255, as UINT8 or FP32; shapes [N,H,W,C], [N,H*W*C], and [N,H,W] for one
  // channel. kCorrupt for malformed JSON, kUsage for what does not fit the model; both say where and what was expected.
  InferRequest parse(std::string_view body) const;

  struct Names {
    std::string model, version;
  };
  // `logits`: count * classes. A tie goes to the lower class.
  std::string answer(const InferRequest& request, std::span<const float> logits, const Names& names) const;
  // The arrays "inputs" and "outputs" of the model's metadata, as `"inputs":[…],"outputs":[…]`.
  std::string metadata() const;

 private:
  std::int64_t check_shape(const std::vector<std::int64_t>& shape, std::size_t values) const;
  void normalize(std::vector<float>& pixels) const;
  std::string shapes() const;  // "[N,28,28,1], [N,28,28] or [N,784]"

  std::int64_t height_, width_, channels_, example_, classes_;
  std::string input_;
  std::vector<std::string> labels_;
  data::Normalization normalization_;
  data::PixelTable table_;
};

}  // namespace mlx::serve
