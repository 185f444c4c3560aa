// Rows of a table: a tensor for each column, or a JSON object for each row. Both become lines of JSON, which the reader
// of tables takes: missing values and unknown categories are what they are to `mlx predict`, with the same bits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "data/rows.h"
#include "infer/examples.h"
#include "serve/examples.h"
#include "serve/infer_answer.h"

namespace mlx::serve {
namespace {

// The datatypes that a column may have. Of integers: the range.
struct Datatype {
  std::string_view name;
  enum class Is : std::uint8_t { kReal, kInteger, kBool, kText } is;
  double least = 0, most = 0;
};
constexpr Datatype kDatatypes[] = {
    {"FP32", Datatype::Is::kReal},
    {"FP64", Datatype::Is::kReal},
    {"INT8", Datatype::Is::kInteger, -0x1p7, 0x1p7 - 1},
    {"INT16", Datatype::Is::kInteger, -0x1p15, 0x1p15 - 1},
    {"INT32", Datatype::Is::kInteger, -0x1p31, 0x1p31 - 1},
    {"INT64", Datatype::Is::kInteger, -0x1p63, 0x1p63},
    {"UINT8", Datatype::Is::kInteger, 0, 0x1p8 - 1},
    {"UINT16", Datatype::Is::kInteger, 0, 0x1p16 - 1},
    {"UINT32", Datatype::Is::kInteger, 0, 0x1p32 - 1},
    {"UINT64", Datatype::Is::kInteger, 0, 0x1p64},
    {"BOOL", Datatype::Is::kBool},
    {"BYTES", Datatype::Is::kText},
};

const Datatype& datatype_of(const InputTensor& tensor) {
  for (const Datatype& datatype : kDatatypes)
    if (datatype.name == tensor.datatype) return datatype;
  std::vector<std::string_view> names;
  for (const Datatype& datatype : kDatatypes) names.push_back(datatype.name);
  fail(ErrorKind::kUsage, "input '{}': datatype '{}' is not supported; expected {}", tensor.name, tensor.datatype,
       fmt::join(names, ", "));
}

// The cells of one column, as JSON.
class ColumnReader {
 public:
  ColumnReader(const InputTensor& tensor, std::string_view body)
      : tensor_(tensor), datatype_(datatype_of(tensor)), in_(body, tensor.data) {}

  std::vector<std::string> read() {
    const std::vector<std::int64_t>& shape = tensor_.shape;
    const bool fits = !shape.empty() && shape[0] >= 1 && (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1));
    if (!fits) {
      fail(ErrorKind::kUsage, "input '{}': shape [{}] does not fit; expected [N] or [N,1]", tensor_.name,
           fmt::join(shape, ","));
    }
    std::vector<std::int64_t> lengths{0};
    for (in_.begin_array(); in_.next_element(); ++lengths[0]) {
      const bool nested = in_.at_array();
      if (lengths[0] == 0 && nested) lengths.push_back(1);
      if (nested != (lengths.size() == 2)) in_.fail_here("data mixes values and arrays");
      if (nested) {
        read_nested();
      } else {
        cells_.push_back(cell());
      }
    }
    check_nesting(tensor_, lengths);
    if (lengths[0] != shape[0]) {
      fail(ErrorKind::kUsage, "input '{}': data holds {} values, shape [{}] needs {}", tensor_.name, lengths[0],
           fmt::join(shape, ","), shape[0]);
    }
    return std::move(cells_);
  }

 private:
  void read_nested() {
    in_.begin_array();
    if (!in_.next_element()) in_.fail_here("an empty array within data");
    cells_.push_back(cell());
    if (in_.next_element()) in_.fail_here("an array of more than one value within data");
  }

  std::string cell() {
    if (in_.at_null()) return std::string(in_.raw());
    switch (datatype_.is) {
      case Datatype::Is::kText:
        if (!in_.at_string()) expected("text in quotes");
        return std::string(in_.raw());
      case Datatype::Is::kBool:
        if (!in_.at_boolean()) expected("true or false");
        return in_.boolean() ? "true" : "false";
      case Datatype::Is::kInteger:
        return integer();
      case Datatype::Is::kReal:
        return real();
    }
    CHECK(false);
    return {};
  }

  std::string integer() {
    const std::size_t start = in_.offset();
    const std::string_view text = in_.number_text();
    // Both bounds are tried as 64 bits, since a double does not hold them.
    std::int64_t small = 0;
    std::uint64_t large = 0;
    const char* const end = text.data() + text.size();
    const auto fits = [&](auto& value) {
      const auto [read, error] = std::from_chars(text.data(), end, value);
      return error == std::errc() && read == end && static_cast<double>(value) >= datatype_.least &&
             static_cast<double>(value) <= datatype_.most;
    };
    const bool is_signed = datatype_.least < 0;
    if (is_signed ? !fits(small) : !fits(large)) {
      fail(ErrorKind::kUsage, "body, offset {}: input '{}': data[{}] is {}, no {}", start, tensor_.name, cells_.size(),
           text.substr(0, 40), datatype_.name);
    }
    return std::string(text);
  }

  // As written, so that FP64 is what a table with this text holds; of FP32 the float.
  std::string real() {
    const std::size_t start = in_.offset();
    const std::string_view written = JsonReader(in_).number_text();
    const double value = in_.real();
    if (datatype_.name == "FP64") return std::string(written);
    const auto narrow = static_cast<float>(value);
    if (!std::isfinite(narrow)) {
      fail(ErrorKind::kUsage, "body, offset {}: input '{}': data[{}] is outside of the range of FP32", start,
           tensor_.name, cells_.size());
    }
    return fmt::format("{}", static_cast<double>(narrow));
  }

  [[noreturn]] void expected(const char* what) {
    in_.fail_here(
        fmt::format("input '{}': data[{}]: expected {} for {}", tensor_.name, cells_.size(), what, datatype_.name));
  }

  const InputTensor& tensor_;
  const Datatype& datatype_;
  JsonReader in_;
  std::vector<std::string> cells_;
};

class RowTensorReader final : public ExampleReader {
 public:
  explicit RowTensorReader(const infer::Model& model)
      : signature_(model.signature()), schema_(*model.about().preprocessing.rows) {}

  DataAs data() const override { return DataAs::kText; }

  Examples read(InferRequest& request, std::string_view body) const override {
    const data::Rows rows =
        infer::rows_of(request.rows ? lines_of(*request.rows) : lines_of(request.inputs, body), schema_, "the request");
    Examples examples;
    examples.count = rows.count;
    examples.values.resize(static_cast<std::size_t>(rows.count * signature_.example));
    for (std::int64_t i = 0; i < rows.count; ++i)
      data::write_features(rows[i], schema_, examples.values.data() + i * signature_.example);
    return examples;
  }

  std::string inputs_json() const override { return tensors_json(signature_.inputs); }

 private:
  static std::string lines_of(const std::vector<std::string>& rows) {
    std::string lines;
    for (const std::string& row : rows) lines += row + "\n";
    return lines;
  }

  std::string lines_of(const std::vector<InputTensor>& inputs, std::string_view body) const {
    if (inputs.empty()) fail(ErrorKind::kUsage, "0 inputs given, the model takes {}", known_names());
    std::vector<std::string> names;
    std::vector<std::vector<std::string>> columns;
    for (const InputTensor& tensor : inputs) {
      check_name(tensor, inputs);
      names.emplace_back();
      append_json_string(names.back(), tensor.name);
      columns.push_back(ColumnReader(tensor, body).read());
      if (columns.back().size() != columns.front().size()) {
        fail(ErrorKind::kUsage, "input '{}' has {} rows, input '{}' has {}", inputs.front().name,
             columns.front().size(), tensor.name, columns.back().size());
      }
    }
    std::string lines;
    for (std::size_t row = 0; !columns.empty() && row < columns.front().size(); ++row) {
      for (std::size_t i = 0; i < columns.size(); ++i) {
        lines += i == 0 ? '{' : ',';
        lines += names[i] + ":" + columns[i][row];
      }
      lines += "}\n";
    }
    return lines;
  }

  void check_name(const InputTensor& tensor, const std::vector<InputTensor>& inputs) const {
    if (std::ranges::find(signature_.inputs, tensor.name, &infer::TensorSpec::name) == signature_.inputs.end())
      fail(ErrorKind::kUsage, "the model has no input '{}'; it takes {}", tensor.name, known_names());
    if (std::ranges::count(inputs, tensor.name, &InputTensor::name) > 1)
      fail(ErrorKind::kUsage, "input '{}' is given twice", tensor.name);
  }

  std::string known_names() const {
    std::vector<std::string> names;
    for (const infer::TensorSpec& input : signature_.inputs) names.push_back(fmt::format("'{}'", input.name));
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const infer::Signature& signature_;
  const data::RowSchema& schema_;
};

}  // namespace

std::unique_ptr<ExampleReader> row_reader(const infer::Model& model) {
  return std::make_unique<RowTensorReader>(model);
}

}  // namespace mlx::serve
