// Outputs are written straight into the text of the answer.
#include "serve/infer_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/error.h"
#include "serve/binary_tensors.h"
#include "serve/json_reader.h"

namespace mlx::serve {
namespace {

void append_head(std::string& to, const infer::TensorSpec& spec, const std::vector<std::int64_t>& shape) {
  to += "{\"name\":";
  append_json_string(to, spec.name);
  fmt::format_to(std::back_inserter(to), R"(,"datatype":"{}","shape":[{}])", spec.datatype, fmt::join(shape, ","));
}

class AnswerWriter {
 public:
  AnswerWriter(const infer::Signature& signature, const infer::Answers& answers, std::string& to)
      : signature_(signature), answers_(answers), to_(to) {}

  // As JSON, or, with its size in the JSON, as bytes behind it.
  void output(const infer::TensorSpec& spec, bool binary) {
    const std::int64_t columns = spec.shape.size() == 2 ? spec.shape[1] : 0;
    std::vector<std::int64_t> shape{answers_.count};
    if (columns > 0) shape.push_back(columns);
    append_head(to_, spec, shape);
    if (binary) {
      const std::size_t before = bytes_.size();
      binary_ = true;
      data(spec, columns);
      fmt::format_to(std::back_inserter(to_), R"(,"parameters":{{"binary_data_size":{}}}}})", bytes_.size() - before);
      return;
    }
    binary_ = false;
    to_ += ",\"data\":[";
    data(spec, columns);
    if (to_.back() == ',') to_.pop_back();
    to_ += "]}";
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void data(const infer::TensorSpec& spec, std::int64_t columns) {
    if (columns > 0) return each_value([&](double value) { number(spec, value); });
    if (signature_.gives == data::TargetKind::kNumbers) {
      const auto column = std::ranges::find(signature_.labels, spec.name) - signature_.labels.begin();
      return each_row([&](std::span<const double> row) { number(spec, row[static_cast<std::size_t>(column)]); });
    }
    each_row([&](std::span<const double> row) {
      const auto top = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
      if (spec.datatype == "BYTES") {
        text(signature_.labels[top]);
      } else {
        number(spec, static_cast<double>(top));
      }
    });
  }

  void text(const std::string& text) {
    if (binary_) return append_binary(bytes_, text);
    append_json_string(to_, text);
    to_ += ',';
  }

  void number(const infer::TensorSpec& spec, double value) {
    if (binary_) return append_binary(bytes_, spec.datatype, value);
    if (spec.datatype == "FP32") {
      fmt::format_to(std::back_inserter(to_), "{},", static_cast<float>(value));
    } else {
      fmt::format_to(std::back_inserter(to_), "{},", value);
    }
  }

  template <typename Call>
  void each_value(Call call) {
    for (const double value : answers_.values) call(value);
  }
  template <typename Call>
  void each_row(Call call) {
    const auto width = static_cast<std::size_t>(signature_.width());
    for (std::size_t i = 0; i < static_cast<std::size_t>(answers_.count); ++i)
      call(std::span(answers_.values).subspan(i * width, width));
  }

  const infer::Signature& signature_;
  const infer::Answers& answers_;
  std::string& to_;
  std::string bytes_;
  bool binary_ = false;  // the output that is written
};

}  // namespace

Reply infer_answer(const InferRequest& request, const infer::Signature& signature, const infer::Answers& answers,
                   const ModelNames& names) {
  std::string out = "{\"model_name\":";
  append_json_string(out, names.model);
  out += ",\"model_version\":";
  append_json_string(out, names.version);
  if (!request.id.empty()) {
    out += ",\"id\":";
    append_json_string(out, request.id);
  }
  out += ",\"outputs\":[";
  AnswerWriter writer(signature, answers, out);
  for (const std::string& name : request.outputs) {
    const bool binary = std::ranges::find(request.binary, name) != request.binary.end();
    writer.output(*std::ranges::find(signature.outputs, name, &infer::TensorSpec::name), binary);
    out += ',';
  }
  out.back() = ']';
  out += '}';
  Reply reply;
  if (!request.binary.empty()) {
    reply.type = "application/octet-stream";
    reply.headers = fmt::format("Inference-Header-Content-Length: {}\r\n", out.size());
    out += writer.bytes();
  }
  reply.body = std::move(out);
  return reply;
}

std::string tensors_json(const std::vector<infer::TensorSpec>& tensors, const std::string& parameters) {
  std::string out;
  for (const infer::TensorSpec& tensor : tensors) {
    if (!out.empty()) out += ',';
    append_head(out, tensor, tensor.shape);
    if (!parameters.empty()) out += ",\"parameters\":" + parameters;
    out += '}';
  }
  return out;
}

}  // namespace mlx::serve
