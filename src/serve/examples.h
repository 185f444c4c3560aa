// How the tensors of a request become what a network takes. One implementation for each kind of model that computes
// requests in batches: images.cpp, rows.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "infer/model.h"
#include "serve/infer_request.h"

namespace mlx::serve {

struct Examples {
  std::int64_t count = 0;     // at least 1
  std::vector<float> values;  // count * signature().example, as the network takes them
};

// Threads: read() may be called from several at once.
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;
  virtual DataAs data() const = 0;
  // Moves the data out of the request, which `body` is the text of. kUsage and kCorrupt for what does not fit the
  // model.
  virtual Examples read(InferRequest& request, std::string_view body) const = 0;
  // A photo as the body of a request. kUsage for models that take none.
  virtual Examples read_photo(std::string_view body) const;
  virtual std::string inputs_json() const = 0;  // of the model's metadata, without brackets
};

// `model` outlives the reader.
std::unique_ptr<ExampleReader> image_reader(const infer::Model& model);
std::unique_ptr<ExampleReader> row_reader(const infer::Model& model);

}  // namespace mlx::serve
