// The problems of losses and softmax: rows of any width, labels that are ignored, certain ones, numbers that are not
// finite; with a factor of the gradient, and with logits and gradients in half precision.
#include <fmt/format.h>

#include "cases.h"

namespace mlx::kernels::test {
namespace {

void cross_entropies(Cases& cases) {
  for (const std::int64_t v : kWidths)
    for (const std::int64_t rows : {0, 1, 5, 1000}) {
      Attrs attrs;
      const std::string name = fmt::format("[{},{}]", rows, v);
      const Tensor x = uniform({rows, v}, -5.0f, 5.0f, 1);
      const Tensor labels = integers(DType::kS32, {rows}, -1, static_cast<int>(v), 2);  // some are outside: ignored
      const Shape one = f32({1}), count = shape_of(DType::kS32, {1});
      for (const float smoothing : {0.0f, 0.1f}) {
        attrs.rate = smoothing;
        cases.push_back(
            {name, Op::kSoftmaxCrossEntropy, attrs, {x, labels}, {one, f32({rows, v}), count, count}, {}, {}});
      }
      cases.push_back({name + " loss only", Op::kSoftmaxCrossEntropy, attrs, {x, labels}, {one}, {}, {}});
      cases.push_back({name, Op::kSoftmax, {}, {x}, {f32({rows, v})}, {}, {}});
      if (rows == 5) {
        cases.push_back({name + " not finite", Op::kSoftmax, {}, {odd(x)}, {f32({rows, v})}, {}, {}});
        cases.push_back({name + " not finite",
                         Op::kSoftmaxCrossEntropy,
                         {},
                         {odd(x), labels},
                         {one, f32({rows, v}), count, count},
                         {},
                         {}});
      }
    }
}

// e^-t for t up to 125, far into the denormals and beyond.
void exponents(Cases& cases) {
  constexpr std::int64_t kRows = 4001;
  Tensor x = zeros(DType::kF32, {kRows, 2});
  for (std::int64_t i = 0; i < kRows; ++i) x.data<float>()[2 * i + 1] = -static_cast<float>(i) / 32.0f;
  cases.push_back({"exponents", Op::kSoftmax, {}, {x}, {f32({kRows, 2})}, {}, {}});
}

// Shares of two classes in each row, as mixup has them.
Tensor mixed(std::int64_t rows, std::int64_t v) {
  Tensor shares = zeros(DType::kF32, {rows, v});
  for (std::int64_t r = 0; r < rows; ++r) {
    shares.data<float>()[r * v + r % v] += 0.7f;
    shares.data<float>()[r * v + (r * 5 + 3) % v] += 0.3f;
  }
  return shares;
}

void soft_losses(Cases& cases) {
  const Shape one = f32({1}), count = shape_of(DType::kS32, {1});
  for (const std::int64_t v : {1, 10, 16, 17, 1000}) {
    for (const std::int64_t rows : {0, 1, 5, 300}) {
      const std::string name = fmt::format("[{},{}]", rows, v);
      const Tensor x = uniform({rows, v}, -5.0f, 5.0f, 1);
      const Tensor shares = mixed(rows, v);
      for (const float smoothing : {0.0f, 0.1f}) {
        Attrs attrs;
        attrs.rate = smoothing;
        cases.push_back({name, Op::kSoftCrossEntropy, attrs, {x, shares}, {one, f32({rows, v}), count, count}, {}, {}});
      }
      cases.push_back({name + " loss only", Op::kSoftCrossEntropy, {}, {x, shares}, {one}, {}, {}});
    }
  }
}

void target_losses(Cases& cases) {
  const Shape one = f32({1}), count = shape_of(DType::kS32, {1});
  for (const std::int64_t n : kCounts) {
    const std::string name = fmt::format("[{}]", n);
    const Tensor x = uniform({n, 1}, -8.0f, 8.0f, 1), far = uniform({n, 1}, -90.0f, 90.0f, 4);
    const Tensor labels = uniform({n, 1}, 0.0f, 1.0f, 2), numbers = uniform({n, 1}, -8.0f, 8.0f, 3);
    Tensor certain = labels;
    for (std::int64_t i = 0; i < n; ++i) certain.data<float>()[i] = labels.data<float>()[i] > 0.5f ? 1.0f : 0.0f;
    Attrs smoothing, huber;
    smoothing.rate = 0.1f;
    huber.delta = 1.5f;
    const Op binary = Op::kBinaryCrossEntropy, regression = Op::kRegressionLoss;
    cases.push_back({name, binary, {}, {x, labels}, {one, f32({n, 1}), count, count}, {}, {}});
    cases.push_back({name + " certain", binary, {}, {far, certain}, {one, f32({n, 1}), count, count}, {}, {}});
    cases.push_back({name + " smoothed", binary, smoothing, {x, certain}, {one, f32({n, 1}), count, count}, {}, {}});
    cases.push_back({name + " loss only", binary, {}, {x, certain}, {one}, {}, {}});
    cases.push_back({name, regression, {}, {x, numbers}, {one, f32({n, 1})}, {}, {}});
    cases.push_back({name + " huber", regression, huber, {x, numbers}, {one, f32({n, 1})}, {}, {}});
    cases.push_back({name + " loss only", regression, huber, {x, numbers}, {one}, {}, {}});
    if (n != 65) continue;
    cases.push_back({name + " not finite", binary, {}, {odd(x), certain}, {one, f32({n, 1}), count, count}, {}, {}});
    cases.push_back({name + " not finite", regression, huber, {odd(x), numbers}, {one, f32({n, 1})}, {}, {}});
  }
}

// Every loss with such a factor, logits stored so and the gradient so.
struct Form {
  Tensor factor;
  DType logits = DType::kF32, gradient = DType::kF32;
  std::string name() const {
    return fmt::format("{} to {}{}", name_of(logits), name_of(gradient), factor.absent() ? "" : " with a factor");
  }
};

void rows_of(Cases& cases, const Form& form, std::int64_t rows, std::int64_t v, bool finite = true) {
  const Shape one = f32({1}), count = shape_of(DType::kS32, {1}), gradient = shape_of(form.gradient, {rows, v});
  const std::string name = fmt::format("[{},{}] {}{}", rows, v, form.name(), finite ? "" : " not finite");
  const Tensor far = uniform({rows, v}, -5.0f, 5.0f, 1), x = stored(finite ? far : odd(far, 3.0f), form.logits);
  const Tensor labels = integers(DType::kS32, {rows}, -1, static_cast<int>(v), 2);
  for (const float smoothing : {0.0f, 0.1f}) {
    Attrs attrs;
    attrs.rate = smoothing;
    cases.push_back(
        {name, Op::kSoftmaxCrossEntropy, attrs, {x, labels, form.factor}, {one, gradient, count, count}, {}, {}});
    cases.push_back(
        {name, Op::kSoftCrossEntropy, attrs, {x, mixed(rows, v), form.factor}, {one, gradient, count, count}, {}, {}});
  }
  const Tensor targets = uniform({rows, v}, 0.0f, 1.0f, 3);
  cases.push_back(
      {name, Op::kBinaryCrossEntropy, {}, {x, targets, form.factor}, {one, gradient, count, count}, {}, {}});
  cases.push_back({name + " loss only", Op::kSoftmaxCrossEntropy, {}, {x, labels, form.factor}, {one}, {}, {}});
  if (form.logits != DType::kF32) return;
  cases.push_back({name, Op::kRegressionLoss, {}, {x, targets, form.factor}, {one, gradient}, {}, {}});
}

// Rows that begin at every offset from what is aligned, that a warp takes, a block, and a large one, several times
// over.
void forms(Cases& cases) {
  for (const DType half : {DType::kBF16, DType::kF16}) {
    for (const Form& form : {Form{scalar(1024.0f), half, half}, Form{absent(), half, half},
                             Form{scalar(-0.375f), DType::kF32, half}, Form{absent(), half, DType::kF32}}) {
      for (const std::int64_t v : {1, 17, 130, 1027}) rows_of(cases, form, 9, v);
      rows_of(cases, form, 0, 17);
      rows_of(cases, form, 5, 1600, false);
    }
    rows_of(cases, {scalar(65536.0f), half, half}, 3, 20003);
  }
  const Form f32_form{scalar(3.0f), DType::kF32, DType::kF32};
  for (const std::int64_t v : {1, 64, 1024, 1029, 5003, 16384, 20003}) rows_of(cases, f32_form, v < 5000 ? 9 : 3, v);
  rows_of(cases, f32_form, 5, 1600, false);
  for (const std::int64_t v : {1024, 1029, 20003})
    cases.push_back({fmt::format("[9,{}]", v), Op::kSoftmax, {}, {uniform({9, v}, -5.0f, 5.0f, 1)}, {f32({9, v})}});
}

}  // namespace

void losses(Cases& cases) {
  for (void (*add)(Cases&) : {cross_entropies, exponents, soft_losses, target_losses, forms}) add(cases);
}

}  // namespace mlx::kernels::test
