// The request is read in one pass whatever the order of its keys; what depends on several of them is checked at the
// end.
#include "serve/infer_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "serve/binary_tensors.h"

namespace mlx::serve {
namespace {

constexpr std::size_t kMostSizes = 8;  // of a shape

// Parameters that are not known say nothing.
struct BinaryParameters {
  std::optional<std::size_t> size{};
  std::optional<bool> data{}, all{};
};

BinaryParameters read_parameters(JsonReader& in) {
  BinaryParameters out;
  in.object([&](const std::string& key) {
    if (key == "binary_data_size") {
      const std::int64_t size = in.integer();
      if (size < 0) in.fail_here("'binary_data_size' is negative");
      out.size = static_cast<std::size_t>(size);
    } else if (key == "binary_data") {
      out.data = in.boolean();
    } else if (key == "binary_data_output") {
      out.all = in.boolean();
    } else {
      in.skip();
    }
  });
  return out;
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
      tensor.bytes = read_parameters(in).size;
    } else {
      in.skip();
    }
  });
  if (!name || !datatype || !shape || (!data && !tensor.bytes)) {
    const std::string which = name ? fmt::format("input '{}'", tensor.name) : "an input";
    fail(ErrorKind::kUsage, "{} needs name, datatype, shape and data", which);
  }
  if (data && tensor.bytes) fail(ErrorKind::kUsage, "input '{}' has both data and binary data", tensor.name);
  return tensor;
}

struct AskedOutput {
  std::string name;
  std::optional<bool> binary;
};

std::vector<AskedOutput> read_outputs(JsonReader& in, const infer::Signature& signature) {
  std::vector<AskedOutput> outputs;
  for (in.begin_array(); in.next_element();) {
    std::string name;
    std::optional<bool> binary;
    in.object([&](const std::string& key) {
      if (key == "name") {
        name = in.string();
      } else if (key == "parameters") {
        binary = read_parameters(in).data;
      } else {
        in.skip();
      }
    });
    if (std::ranges::find(signature.outputs, name, &infer::TensorSpec::name) == signature.outputs.end()) {
      std::vector<std::string_view> names;
      for (const infer::TensorSpec& output : signature.outputs) names.push_back(output.name);
      fail(ErrorKind::kUsage, "the model has no output '{}'; it has {}", name, fmt::join(names, ", "));
    }
    if (std::ranges::find(outputs, name, &AskedOutput::name) != outputs.end())
      in.fail_here(fmt::format("output '{}' is asked for twice", name));
    outputs.push_back({name, binary});
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

namespace {

// The bytes of the inputs follow the JSON in the order of the inputs.
void read_binary(std::string_view bytes, DataAs as, InferRequest& request) {
  for (InputTensor& tensor : request.inputs) {
    if (!tensor.bytes) continue;
    if (*tensor.bytes > bytes.size())
      fail(ErrorKind::kUsage, "input '{}': {} bytes of binary data, the body has {} left", tensor.name, *tensor.bytes,
           bytes.size());
    const std::string_view own = bytes.substr(0, *tensor.bytes);
    bytes.remove_prefix(own.size());
    if (as == DataAs::kFloats) {
      tensor.values = floats_of(tensor, own);
      tensor.lengths = {static_cast<std::int64_t>(tensor.values.size())};
    } else {
      tensor.data = request.text.size();
      request.text += json_of(tensor, own);
    }
  }
  if (!bytes.empty()) fail(ErrorKind::kUsage, "{} bytes behind the JSON belong to no input", bytes.size());
}

void set_outputs(const std::vector<AskedOutput>& asked, bool all, const infer::Signature& signature,
                 InferRequest& request) {
  for (const AskedOutput& output : asked) {
    request.outputs.push_back(output.name);
    if (output.binary.value_or(all)) request.binary.push_back(output.name);
  }
  if (!asked.empty()) return;
  for (const infer::TensorSpec& output : signature.outputs) request.outputs.push_back(output.name);
  if (all) request.binary = request.outputs;
}

}  // namespace

InferRequest parse_infer_request(std::string_view body, std::size_t json, const infer::Signature& signature,
                                 DataAs data) {
  InferRequest request;
  if (json > body.size())
    fail(ErrorKind::kUsage, "Inference-Header-Content-Length is {}, the body has {} bytes", json, body.size());
  JsonReader in(body.substr(0, json));
  bool inputs = false, all = false;
  std::vector<AskedOutput> outputs;
  in.object([&](const std::string& key) {
    if (key == "id") {
      request.id = in.string();
    } else if (key == "inputs") {
      inputs = true;
      for (in.begin_array(); in.next_element();) request.inputs.push_back(read_tensor(in, data));
    } else if (key == "rows" && signature.takes == infer::Takes::kRows) {
      request.rows = read_row_objects(in);
    } else if (key == "outputs") {
      outputs = read_outputs(in, signature);
    } else if (key == "parameters") {
      all = read_parameters(in).all.value_or(false);
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
  if (data == DataAs::kText) request.text = body.substr(0, json);
  read_binary(body.substr(json), data, request);
  set_outputs(outputs, all, signature, request);
  return request;
}

}  // namespace mlx::serve
