// The request is read in one pass whatever the order of its keys; what depends on several of them is checked at the
// end.
#include "serve/inference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>

#include "base/error.h"
#include "serve/json_reader.h"

namespace mlx::serve {
namespace {

constexpr std::string_view kNames[] = {"probabilities", "label", "class"};

struct Tensor {
  std::optional<std::string> name, datatype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> lengths;  // of data's levels
  std::vector<float> values;
};

void once(JsonReader& in, std::set<std::string>& seen, const std::string& key) {
  if (!seen.insert(key).second) in.fail_here(fmt::format("'{}' is given twice", key));
}

// The binary tensor extension announces itself in parameters.
void read_parameters(JsonReader& in) {
  std::string key;
  for (in.begin_object(); in.next_key(key);) {
    const bool binary = key.starts_with("binary_data");
    if (binary && !(in.at_boolean() && !in.boolean())) {
      fail(ErrorKind::kUsage, "'{}': binary tensor data is not supported; send and ask for JSON arrays", key);
    }
    if (!binary) in.skip();
  }
}

std::vector<std::int64_t> read_shape(JsonReader& in) {
  std::vector<std::int64_t> shape;
  for (in.begin_array(); in.next_element();) {
    shape.push_back(in.integer());
    if (shape.size() > 8) in.fail_here("a shape of more than 8 sizes");
  }
  return shape;
}

Tensor read_tensor(JsonReader& in) {
  Tensor tensor;
  std::string key;
  std::set<std::string> seen;
  for (in.begin_object(); in.next_key(key);) {
    once(in, seen, key);
    if (key == "name") {
      tensor.name = in.string();
    } else if (key == "datatype") {
      tensor.datatype = in.string();
    } else if (key == "shape") {
      tensor.shape = read_shape(in);
    } else if (key == "data") {
      tensor.lengths = in.numbers(tensor.values);
    } else if (key == "parameters") {
      read_parameters(in);
    } else {
      in.skip();
    }
  }
  return tensor;
}

Output output_named(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<Output>(i);
  fail(ErrorKind::kUsage, "the model has no output '{}'; it has {}", name, fmt::join(kNames, ", "));
}

std::vector<Output> read_outputs(JsonReader& in) {
  std::vector<Output> outputs;
  for (in.begin_array(); in.next_element();) {
    std::string key, name;
    for (in.begin_object(); in.next_key(key);) {
      if (key == "name") {
        name = in.string();
      } else if (key == "parameters") {
        read_parameters(in);
      } else {
        in.skip();
      }
    }
    const Output output = output_named(name);
    if (std::ranges::find(outputs, output) != outputs.end())
      in.fail_here(fmt::format("output '{}' is asked for twice", name));
    outputs.push_back(output);
  }
  return outputs;
}

void check_bytes(const Tensor& tensor) {
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const float v = tensor.values[i];
    if (!(v >= 0 && v <= 255) || v != std::floor(v)) {
      fail(ErrorKind::kUsage, "input '{}': data[{}] is {}, no UINT8", *tensor.name, i, v);
    }
  }
}

// Where data is nested it says its shape itself.
void check_nesting(const Tensor& tensor) {
  const std::vector<std::int64_t>& lengths = *tensor.lengths;
  if (lengths.size() > 1 && lengths != *tensor.shape) {
    fail(ErrorKind::kUsage, "input '{}': data is nested as [{}], its shape says [{}]", *tensor.name,
         fmt::join(lengths, ","), fmt::join(*tensor.shape, ","));
  }
}

template <typename Append>
void append_output(std::string& to, Output output, std::string_view datatype, const std::vector<std::int64_t>& shape,
                   Append append) {
  fmt::format_to(std::back_inserter(to), R"({{"name":"{}","datatype":"{}","shape":[{}],"data":[)",
                 kNames[static_cast<std::size_t>(output)], datatype, fmt::join(shape, ","));
  append();
  to += "]}";
}

void append_softmax(std::string& to, std::span<const float> logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float v : logits) sum += std::exp(v - top);
  for (const float v : logits) {
    fmt::format_to(std::back_inserter(to), "{},", static_cast<float>(std::exp(v - top) / sum));
  }
}

}  // namespace

Signature::Signature(const nn::Model& model, std::string input, std::int64_t classes)
    : height_(model.preprocessing.height),
      width_(model.preprocessing.width),
      channels_(model.preprocessing.channels),
      example_(height_ * width_ * channels_),
      classes_(classes),
      input_(std::move(input)),
      labels_(model.labels),
      normalization_(model.preprocessing.normalization),
      table_(normalization_) {
  if (table_.channels() != channels_) {
    fail(ErrorKind::kCorrupt, "the model normalises {} channels of images that have {}", table_.channels(), channels_);
  }
  for (std::int64_t c = static_cast<std::int64_t>(labels_.size()); c < classes_; ++c)
    labels_.push_back(std::to_string(c));
}

std::string Signature::shapes() const {
  std::string out = fmt::format("[N,{},{},{}]", height_, width_, channels_);
  out += channels_ == 1 ? fmt::format(", [N,{},{}] or [N,{}]", height_, width_, example_)
                        : fmt::format(" or [N,{}]", example_);
  return out;
}

std::int64_t Signature::check_shape(const std::vector<std::int64_t>& shape, std::size_t values) const {
  using Sizes = std::vector<std::int64_t>;
  const Sizes rest = shape.empty() ? Sizes() : Sizes(shape.begin() + 1, shape.end());
  const bool fits = rest == Sizes{height_, width_, channels_} || rest == Sizes{example_} ||
                    (channels_ == 1 && rest == Sizes{height_, width_});
  if (!fits || shape[0] < 1) {
    fail(ErrorKind::kUsage, "input '{}': shape [{}] does not fit; expected {}", input_, fmt::join(shape, ","),
         shapes());
  }
  const auto count = static_cast<std::int64_t>(values);
  if (count % example_ != 0 || count / example_ != shape[0]) {
    fail(ErrorKind::kUsage, "input '{}': data holds {} values, shape [{}] needs {} times {}", input_, count,
         fmt::join(shape, ","), shape[0], example_);
  }
  return shape[0];
}

// Whole values take the table of training and evaluation; others its formula.
void Signature::normalize(std::vector<float>& pixels) const {
  std::size_t c = 0;
  const auto channels = static_cast<std::size_t>(channels_);
  for (float& pixel : pixels) {
    if (pixel >= 0 && pixel <= 255 && pixel == std::floor(pixel)) {
      pixel = table_.channel(static_cast<std::int64_t>(c))[static_cast<std::size_t>(pixel)];
    } else {
      pixel =
          static_cast<float>((double{pixel} / 255.0 - double{normalization_.mean[c]}) / double{normalization_.std[c]});
    }
    if (++c == channels) c = 0;
  }
}

InferRequest Signature::parse(std::string_view body) const {
  JsonReader in(body);
  InferRequest request;
  std::optional<std::vector<Tensor>> inputs;
  std::string key;
  std::set<std::string> seen;
  for (in.begin_object(); in.next_key(key);) {
    once(in, seen, key);
    if (key == "id") {
      request.id = in.string();
    } else if (key == "inputs") {
      inputs.emplace();
      for (in.begin_array(); in.next_element();) inputs->push_back(read_tensor(in));
    } else if (key == "outputs") {
      request.outputs = read_outputs(in);
    } else if (key == "parameters") {
      read_parameters(in);
    } else {
      in.skip();
    }
  }
  in.end();
  if (!inputs) fail(ErrorKind::kUsage, "the request has no 'inputs'");
  if (inputs->size() != 1)
    fail(ErrorKind::kUsage, "{} inputs given, the model takes one: '{}'", inputs->size(), input_);
  Tensor& tensor = inputs->front();
  if (!tensor.name || !tensor.datatype || !tensor.shape || !tensor.lengths) {
    fail(ErrorKind::kUsage, "an input needs name, datatype, shape and data");
  }
  if (*tensor.name != input_)
    fail(ErrorKind::kUsage, "the model has no input '{}'; it takes '{}'", *tensor.name, input_);
  if (*tensor.datatype != "UINT8" && *tensor.datatype != "FP32") {
    fail(ErrorKind::kUsage, "input '{}': datatype '{}' is not supported; expected UINT8 or FP32", input_,
         *tensor.datatype);
  }
  request.count = check_shape(*tensor.shape, tensor.values.size());
  check_nesting(tensor);
  if (*tensor.datatype == "UINT8") check_bytes(tensor);
  normalize(tensor.values);
  request.images = std::move(tensor.values);
  if (request.outputs.empty()) request.outputs = {Output::kProbabilities, Output::kLabel, Output::kClass};
  return request;
}

std::string Signature::answer(const InferRequest& request, std::span<const float> logits, const Names& names) const {
  std::string out = "{\"model_name\":";
  append_json_string(out, names.model);
  out += ",\"model_version\":";
  append_json_string(out, names.version);
  if (!request.id.empty()) {
    out += ",\"id\":";
    append_json_string(out, request.id);
  }
  out += ",\"outputs\":[";
  const auto classes = static_cast<std::size_t>(classes_);
  const auto row = [&](std::int64_t i) { return logits.subspan(static_cast<std::size_t>(i) * classes, classes); };
  const auto top = [&](std::int64_t i) { return std::ranges::max_element(row(i)) - row(i).begin(); };
  for (const Output output : request.outputs) {
    switch (output) {
      case Output::kProbabilities:
        append_output(out, output, "FP32", {request.count, classes_}, [&] {
          for (std::int64_t i = 0; i < request.count; ++i) append_softmax(out, row(i));
          out.pop_back();
        });
        break;
      case Output::kLabel:
        append_output(out, output, "BYTES", {request.count}, [&] {
          for (std::int64_t i = 0; i < request.count; ++i) {
            if (i > 0) out += ',';
            append_json_string(out, labels_[static_cast<std::size_t>(top(i))]);
          }
        });
        break;
      case Output::kClass:
        append_output(out, output, "INT64", {request.count}, [&] {
          for (std::int64_t i = 0; i < request.count; ++i) {
            if (i > 0) out += ',';
            out += std::to_string(top(i));
          }
        });
        break;
    }
    out += ',';
  }
  out.back() = ']';
  out += '}';
  return out;
}

std::string Signature::metadata() const {
  std::string out = "\"inputs\":[{\"name\":";
  append_json_string(out, input_);
  fmt::format_to(std::back_inserter(out), ",\"datatype\":\"UINT8\",\"shape\":[-1,{},{},{}],\"parameters\":{{", height_,
                 width_, channels_);
  out +=
      R"("datatypes":"UINT8, FP32","scale":"pixels from 0 to 255 in either datatype; normalised by the server","shapes":)";
  append_json_string(out, shapes());
  fmt::format_to(
      std::back_inserter(out),
      R"(}}}}],"outputs":[{{"name":"probabilities","datatype":"FP32","shape":[-1,{}]}},)"
      R"({{"name":"label","datatype":"BYTES","shape":[-1]}},{{"name":"class","datatype":"INT64","shape":[-1]}}])",
      classes_);
  return out;
}

}  // namespace mlx::serve
