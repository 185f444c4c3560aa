// Tensors as bytes behind a request's or an answer's JSON. Source: the binary tensor data extension of Triton and of
// KServe's Open Inference Protocol v2: values in little endian, row by row; of BYTES each with its length in four
// bytes.
//
// Used by infer_request.cpp and infer_answer.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/infer_request.h"

namespace mlx::serve {

// Both throw kUsage, naming the tensor, for a datatype that is not known, bytes that are more or less than its shape
// has, and values that JSON does not have.
std::vector<float> floats_of(const InputTensor& tensor, std::string_view bytes);
// A flat array.
std::string json_of(const InputTensor& tensor, std::string_view bytes);

void append_binary(std::string& to, std::string_view datatype, double value);  // FP32, FP64, INT64
void append_binary(std::string& to, std::string_view text);                    // BYTES

}  // namespace mlx::serve
