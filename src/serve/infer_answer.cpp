// Outputs are written straight into the text of the answer.
#include "serve/infer_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/error.h"
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

  void output(const infer::TensorSpec& spec) {
    const std::int64_t columns = spec.shape.size() == 2 ? spec.shape[1] : 0;
    std::vector<std::int64_t> shape{answers_.count};
    if (columns > 0) shape.push_back(columns);
    append_head(to_, spec, shape);
    to_ += ",\"data\":[";
    data(spec, columns);
    if (to_.back() == ',') to_.pop_back();
    to_ += "]}";
  }

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
        append_json_string(to_, signature_.labels[top]);
      } else {
        to_ += std::to_string(top);
      }
      to_ += ',';
    });
  }

  void number(const infer::TensorSpec& spec, double value) {
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
};

}  // namespace

std::string infer_answer(const InferRequest& request, const infer::Signature& signature, const infer::Answers& answers,
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
    writer.output(*std::ranges::find(signature.outputs, name, &infer::TensorSpec::name));
    out += ',';
  }
  out.back() = ']';
  out += '}';
  return out;
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
