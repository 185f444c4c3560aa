// The request is read in one pass whatever the order of its keys; what depends on several of them is checked at the
// end.
#include "serve/infer_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace mlx::serve {
namespace {

constexpr std::size_t kMostSizes = 8;  // of a shape

// The binary tensor extension announces itself in parameters.
void read_parameters(JsonReader& in) {
  in.object([&](const std::string& key) {
    const bool binary = key.starts_with("binary_data");
    if (binary && !(in.at_boolean() && !in.boolean())) {
      fail(ErrorKind::kUsage, "'{}': binary tensor data is not supported; send and ask for JSON arrays", key);
    }
    if (!binary) in.skip();
  });
}

std::vector<std::int64_t> read_shape(JsonReader& in) {
  std::vector<std::int64_t> shape;
  for (in.begin_array(); in.next_element();) {
    shape.push_back(in.integer());
    if (shape.size() > kMostSizes) in.fail_here(fmt::format("a shape of more than {} sizes", kMostSizes));
  }
  return shape;
}

InputTensor read_tensor(JsonReader& in, DataAs as) {
  InputTensor tensor;
  bool name = false, datatype = false, shape = false, data = false;
  in.object([&](const std::string& key) {
    if (key == "name") {
      name = true;
      tensor.name = in.string();
    } else if (key == "datatype") {
      datatype = true;
      tensor.datatype = in.string();
    } else if (key == "shape") {
      shape = true;
      tensor.shape = read_shape(in);
    } else if (key == "data" && as == DataAs::kFloats) {
      data = true;
      tensor.lengths = in.numbers(tensor.values);
    } else if (key == "data") {
      data = true;
      tensor.data = in.offset();
      in.skip();
    } else if (key == "parameters") {
      read_parameters(in);
    } else {
      in.skip();
    }
  });
  if (!name || !datatype || !shape || !data) {
    const std::string which = name ? fmt::format("input '{}'", tensor.name) : "an input";
    fail(ErrorKind::kUsage, "{} needs name, datatype, shape and data", which);
  }
  return tensor;
}

std::vector<std::string> read_outputs(JsonReader& in, const infer::Signature& signature) {
  std::vector<std::string> outputs;
  for (in.begin_array(); in.next_element();) {
    std::string name;
    in.object([&](const std::string& key) {
      if (key == "name") {
        name = in.string();
      } else if (key == "parameters") {
        read_parameters(in);
      } else {
        in.skip();
      }
    });
    if (std::ranges::find(signature.outputs, name, &infer::TensorSpec::name) == signature.outputs.end()) {
      std::vector<std::string_view> names;
      for (const infer::TensorSpec& output : signature.outputs) names.push_back(output.name);
      fail(ErrorKind::kUsage, "the model has no output '{}'; it has {}", name, fmt::join(names, ", "));
    }
    if (std::ranges::find(outputs, name) != outputs.end())
      in.fail_here(fmt::format("output '{}' is asked for twice", name));
    outputs.push_back(name);
  }
  return outputs;
}

// A line break within an object is white space: strings hold none.
std::vector<std::string> read_row_objects(JsonReader& in) {
  std::vector<std::string> rows;
  for (in.begin_array(); in.next_element();) {
    if (!in.at_object()) in.fail_here(fmt::format("rows[{}]: expected an object", rows.size()));
    rows.emplace_back(in.raw());
    JsonReader row(rows.back());
    row.object([&](const std::string&) { row.skip(); });  // refuses a key that comes twice
    std::ranges::replace(rows.back(), '\n', ' ');
  }
  if (rows.empty()) in.fail_here("'rows' is empty");
  return rows;
}

}  // namespace

void check_nesting(const InputTensor& tensor, const std::vector<std::int64_t>& lengths) {
  if (lengths.size() > 1 && lengths != tensor.shape) {
    fail(ErrorKind::kUsage, "input '{}': data is nested as [{}], its shape says [{}]", tensor.name,
         fmt::join(lengths, ","), fmt::join(tensor.shape, ","));
  }
}

InferRequest parse_infer_request(std::string_view body, const infer::Signature& signature, DataAs data) {
  JsonReader in(body);
  InferRequest request;
  bool inputs = false;
  in.object([&](const std::string& key) {
    if (key == "id") {
      request.id = in.string();
    } else if (key == "inputs") {
      inputs = true;
      for (in.begin_array(); in.next_element();) request.inputs.push_back(read_tensor(in, data));
    } else if (key == "rows" && signature.takes == infer::Takes::kRows) {
      request.rows = read_row_objects(in);
    } else if (key == "outputs") {
      request.outputs = read_outputs(in, signature);
    } else if (key == "parameters") {
      read_parameters(in);
    } else {
      in.skip();
    }
  });
  in.end();
  if (inputs && request.rows) fail(ErrorKind::kUsage, "the request has both 'inputs' and 'rows'; send one of them");
  if (!inputs && !request.rows) {
    fail(ErrorKind::kUsage, "the request has no 'inputs'{}",
         signature.takes == infer::Takes::kRows ? " and no 'rows'" : "");
  }
  if (request.outputs.empty())
    for (const infer::TensorSpec& output : signature.outputs) request.outputs.push_back(output.name);
  return request;
}

}  // namespace mlx::serve
