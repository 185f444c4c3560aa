// Images: one tensor of pixels from 0 to 255, UINT8 or FP32, or one photo. Both are prepared as in training.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "data/images/normalize.h"
#include "serve/examples.h"
#include "serve/infer_answer.h"

namespace mlx::serve {
namespace {

void check_bytes(const InputTensor& tensor) {
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const float v = tensor.values[i];
    if (!(v >= 0 && v <= 255) || v != std::floor(v)) {
      fail(ErrorKind::kUsage, "input '{}': data[{}] is {}, no UINT8", tensor.name, i, v);
    }
  }
}

class ImageReader final : public ExampleReader {
 public:
  explicit ImageReader(const infer::Model& model)
      : signature_(model.signature()),
        height_(model.about().preprocessing.height),
        width_(model.about().preprocessing.width),
        channels_(model.about().preprocessing.channels),
        preprocessing_(model.about().preprocessing),
        normalization_(preprocessing_.normalization),
        table_(normalization_) {}

  DataAs data() const override { return DataAs::kFloats; }

  Examples read(InferRequest& request, std::string_view /*body*/) const override {
    if (request.inputs.size() != 1)
      fail(ErrorKind::kUsage, "{} inputs given, the model takes one: '{}'", request.inputs.size(), name());
    InputTensor& tensor = request.inputs.front();
    if (tensor.name != name())
      fail(ErrorKind::kUsage, "the model has no input '{}'; it takes '{}'", tensor.name, name());
    if (tensor.datatype != "UINT8" && tensor.datatype != "FP32") {
      fail(ErrorKind::kUsage, "input '{}': datatype '{}' is not supported; expected UINT8 or FP32", name(),
           tensor.datatype);
    }
    Examples examples;
    examples.count = count_of(tensor);
    check_nesting(tensor, tensor.lengths);
    if (tensor.datatype == "UINT8") check_bytes(tensor);
    normalize(tensor.values);
    examples.values = std::move(tensor.values);
    return examples;
  }

  Examples read_photo(std::string_view body) const override {
    const data::PhotoForm form = preprocessing_.photo_form();
    if (form.channels != 1 && form.channels != 3)
      fail(ErrorKind::kUsage, "the model takes images of {} channels, a photo has 1 or 3", form.channels);
    const ByteView file = as_bytes(body);
    data::check_photo(file, "the photo", preprocessing_);
    Bytes pixels(static_cast<std::size_t>(form.bytes()));
    data::prepare_photo(file, "the photo", form, pixels.data());
    Examples examples;
    examples.count = 1;
    examples.values.resize(pixels.size());
    table_.apply(pixels.data(), form.height * form.width, examples.values.data());
    return examples;
  }

  std::string inputs_json() const override {
    std::string parameters =
        R"({"datatypes":"UINT8, FP32","scale":"pixels from 0 to 255 in either datatype; normalised by the server","shapes":)";
    append_json_string(parameters, shapes());
    return tensors_json(signature_.inputs, parameters + "}");
  }

 private:
  const std::string& name() const { return signature_.inputs[0].name; }

  std::string shapes() const {  // "[N,28,28,1], [N,28,28] or [N,784]"
    std::string out = fmt::format("[N,{},{},{}]", height_, width_, channels_);
    out += channels_ == 1 ? fmt::format(", [N,{},{}] or [N,{}]", height_, width_, signature_.example)
                          : fmt::format(" or [N,{}]", signature_.example);
    return out;
  }

  std::int64_t count_of(const InputTensor& tensor) const {
    using Sizes = std::vector<std::int64_t>;
    const Sizes& shape = tensor.shape;
    const std::int64_t example = signature_.example;
    const Sizes rest = shape.empty() ? Sizes() : Sizes(shape.begin() + 1, shape.end());
    const bool fits = rest == Sizes{height_, width_, channels_} || rest == Sizes{example} ||
                      (channels_ == 1 && rest == Sizes{height_, width_});
    if (!fits || shape[0] < 1) {
      fail(ErrorKind::kUsage, "input '{}': shape [{}] does not fit; expected {}", name(), fmt::join(shape, ","),
           shapes());
    }
    const auto values = static_cast<std::int64_t>(tensor.values.size());
    if (values % example != 0 || values / example != shape[0]) {
      fail(ErrorKind::kUsage, "input '{}': data holds {} values, shape [{}] needs {} times {}", name(), values,
           fmt::join(shape, ","), shape[0], example);
    }
    return shape[0];
  }

  // Whole values take the table of training and evaluation; others its formula.
  void normalize(std::vector<float>& pixels) const {
    std::size_t c = 0;
    const auto channels = static_cast<std::size_t>(channels_);
    for (float& pixel : pixels) {
      if (pixel >= 0 && pixel <= 255 && pixel == std::floor(pixel)) {
        pixel = table_.channel(static_cast<std::int64_t>(c))[static_cast<std::size_t>(pixel)];
      } else {
        pixel = static_cast<float>((double{pixel} / 255.0 - double{normalization_.mean[c]}) /
                                   double{normalization_.std[c]});
      }
      if (++c == channels) c = 0;
    }
  }

  const infer::Signature& signature_;
  std::int64_t height_, width_, channels_;
  data::Preprocessing preprocessing_;
  data::Normalization normalization_;
  data::PixelTable table_;
};

}  // namespace

Examples ExampleReader::read_photo(std::string_view /*body*/) const {
  fail(ErrorKind::kUsage, "the model takes no photos; send JSON");
}

std::unique_ptr<ExampleReader> image_reader(const infer::Model& model) {
  return std::make_unique<ImageReader>(model);
}

}  // namespace mlx::serve
