// The answer to POST /v2/models/NAME/infer and the description of a model's tensors.
// Source: KServe "Open Inference Protocol" v2, REST.
#pragma once

#include <string>
#include <vector>

#include "infer/answers.h"
#include "infer/signature.h"
#include "serve/exchange.h"
#include "serve/infer_request.h"

namespace mlx::serve {

struct ModelNames {
  std::string model, version;
};

// `answers` are those of a model with this signature; the outputs are those that the request asks for. The class is the
// likeliest, the lowest of several.
Reply infer_answer(const InferRequest& request, const infer::Signature& signature, const infer::Answers& answers,
                   const ModelNames& names);

// {"name":…,"datatype":…,"shape":[…]} for each, with commas; of one with `parameters` (JSON), those too.
std::string tensors_json(const std::vector<infer::TensorSpec>& tensors, const std::string& parameters = {});

}  // namespace mlx::serve
