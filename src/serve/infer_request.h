// The body of POST /v2/models/NAME/infer. Source: KServe "Open Inference Protocol" v2, REST, with the binary tensor
// data extension (binary_tensors.h). `rows` is a form of mlx's own: one JSON object for each row of a table.
//
// Used by images.cpp and rows.cpp, which know what their tensors mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/signature.h"
#include "serve/json_reader.h"

namespace mlx::serve {

// What becomes of a tensor's data while the request is read: kFloats reads numbers, the short way for images; kText
// keeps the text, for data whose datatype has to be known first.
enum class DataAs { kFloats, kText };

struct InputTensor {
  std::string name, datatype;
  std::vector<std::int64_t> shape;
  std::vector<float> values;          // kFloats
  std::vector<std::int64_t> lengths;  // kFloats: of data's levels
  std::size_t data = 0;               // kText: the offset of the data in the request's text
  std::optional<std::size_t> bytes;   // of its data behind the JSON; nullopt where that is in the JSON
};

struct InferRequest {
  std::string id;
  std::string text;  // the JSON, and behind it what came as bytes
  std::vector<InputTensor> inputs;
  std::vector<std::string> outputs;  // names, in the order of the answer; of all outputs if none is asked for
  std::vector<std::string> binary;   // those of them that are answered as bytes
  std::optional<std::vector<std::string>> rows;  // JSON objects, each on one line
};

// kCorrupt for malformed JSON, kUsage for what the protocol or the signature's outputs do not allow; both say where and
// what was expected. Rows are refused where the model does not take rows.
// `json`: how many bytes of the body are JSON; the tensors' bytes follow.
InferRequest parse_infer_request(std::string_view body, std::size_t json, const infer::Signature& signature,
                                 DataAs data);

// kUsage where nested data says another shape than the tensor does. `lengths`: of the levels that data has.
void check_nesting(const InputTensor& tensor, const std::vector<std::int64_t>& lengths);

}  // namespace mlx::serve
