// The problems of primitive operations that every kernel of the table is tested on: transposes, slices, concatenation,
// gathering, arithmetic with broadcasting, reductions, products of stacks of matrices.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cases.h"

namespace mlx::kernels::test {
namespace {

IntList list_of(const Dims& values) {
  IntList list;
  for (const std::int64_t value : values) list.at[static_cast<std::size_t>(list.count++)] = value;
  return list;
}

// Numbers of any type: kernels that only move them must keep every bit.
Tensor any(DType type, const Dims& dims, std::uint64_t seed) {
  if (type == DType::kF32) return odd(random(dims, seed));
  if (is_half(type)) return stored(random(dims, seed), type);
  if (type != DType::kI64) return integers(type, dims, type == DType::kU8 ? 0 : -100, 100, seed);
  Tensor wide = zeros(type, dims);
  const Tensor narrow = integers(DType::kS32, dims, -100, 100, seed);
  for (std::int64_t i = 0; i < wide.shape.count(); ++i)
    wide.data<std::int64_t>()[i] = std::int64_t{narrow.data<std::int32_t>()[i]} << 33;
  return wide;
}

const std::vector<DType> kTypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kS32,
                                   DType::kS8,  DType::kU8,   DType::kI64};

void transposes(Cases& cases) {
  struct Transpose {
    Dims x, axes;
  };
  const std::vector<Transpose> table = {{{}, {}},
                                        {{7}, {0}},
                                        {{0, 5}, {1, 0}},
                                        {{1, 1}, {1, 0}},
                                        {{15, 17}, {1, 0}},
                                        {{16, 16}, {1, 0}},
                                        {{33, 100}, {1, 0}},
                                        {{3, 5, 7}, {0, 1, 2}},
                                        {{3, 5, 7}, {2, 1, 0}},
                                        {{2, 9, 3, 33}, {0, 2, 1, 3}},
                                        {{2, 5, 6, 3}, {0, 3, 1, 2}},
                                        {{2, 3, 18, 31}, {0, 2, 3, 1}},
                                        {{2, 1, 3, 2, 1, 2, 3, 2}, {7, 6, 5, 4, 3, 2, 1, 0}},
                                        {{300, 260}, {1, 0}}};
  for (const auto& [x, axes] : table) {
    Attrs attrs;
    attrs.axes = list_of(axes);
    Dims y;
    for (const std::int64_t axis : axes) y.push_back(x[static_cast<std::size_t>(axis)]);
    const bool small = x.size() > 2 && x.size() < 8;
    for (const DType type : small ? kTypes : std::vector{DType::kF32})
      cases.push_back({fmt::format("[{}] {} by [{}]", fmt::join(x, ","), name_of(type), fmt::join(axes, ",")),
                       Op::kTranspose,
                       attrs,
                       {any(type, x, 1)},
                       {shape_of(type, y)},
                       {},
                       {}});
  }
}

void slices(Cases& cases) {
  struct Slice {
    Dims x, axes, starts, ends, steps, y;
  };
  const std::vector<Slice> table = {{{10}, {0}, {2}, {7}, {}, {5}},
                                    {{10}, {0}, {-3}, {kToEnd}, {}, {3}},
                                    {{10}, {0}, {1}, {-1}, {3}, {3}},
                                    {{10}, {0}, {8}, {3}, {}, {0}},
                                    {{10}, {0}, {-100}, {100}, {4}, {3}},
                                    {{0, 4}, {0}, {0}, {kToEnd}, {}, {0, 4}},
                                    {{3, 4, 5}, {}, {}, {}, {}, {3, 4, 5}},
                                    {{3, 4, 5}, {1}, {1}, {3}, {}, {3, 2, 5}},
                                    {{3, 40, 17}, {2, 0}, {1, 1}, {17, 3}, {1, 1}, {2, 40, 16}},
                                    {{3, 40, 17}, {0, 1, 2}, {0, 1, 0}, {3, 40, 17}, {2, 3, 2}, {2, 13, 9}},
                                    {{9, 200, 33}, {1}, {5}, {-6}, {}, {9, 189, 33}}};
  for (const auto& [x, axes, starts, ends, steps, y] : table) {
    Attrs attrs;
    attrs.axes = list_of(axes), attrs.starts = list_of(starts), attrs.ends = list_of(ends),
    attrs.steps = list_of(steps);
    const std::string name = fmt::format("[{}] to [{}]", fmt::join(x, ","), fmt::join(y, ","));
    for (const DType type : x.size() == 1 ? kTypes : std::vector{DType::kF32})
      cases.push_back({name + name_of(type), Op::kSlice, attrs, {any(type, x, 1)}, {shape_of(type, y)}, {}, {}});
    cases.push_back({name, Op::kSliceBackward, attrs, {random(y, 2)}, {f32(x)}, {}, {}});
  }
}

void concats(Cases& cases) {
  struct Concat {
    std::int64_t axis;
    std::vector<Dims> parts;
  };
  const std::vector<Concat> table = {{0, {{3}}},
                                     {0, {{1}, {0}, {17}}},
                                     {1, {{3, 2}, {3, 5}}},
                                     {0, {{3, 2}, {1, 2}, {0, 2}}},
                                     {1, {{0, 2}, {0, 3}}},
                                     {2, {{40, 7, 3, 5}, {40, 7, 16, 5}, {40, 7, 1, 5}}},
                                     {1, {{2, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}}}};
  for (const auto& [axis, parts] : table) {
    Attrs attrs;
    attrs.axis = axis;
    Dims y = parts[0];
    y[static_cast<std::size_t>(axis)] = 0;
    for (const Dims& part : parts) y[static_cast<std::size_t>(axis)] += part[static_cast<std::size_t>(axis)];
    const std::string name = fmt::format("{} parts to [{}]", parts.size(), fmt::join(y, ","));
    for (const DType type : parts.size() == 3 ? kTypes : std::vector{DType::kF32}) {
      Case test{name + name_of(type), Op::kConcat, attrs, {}, {shape_of(type, y)}, {}, {}};
      for (std::size_t i = 0; i < parts.size(); ++i) test.inputs.push_back(any(type, parts[i], i));
      cases.push_back(std::move(test));
    }
    Case back{name, Op::kConcatBackward, attrs, {random(y, 1)}, {}, {}, {}};
    for (const Dims& part : parts) {
      back.inputs.push_back(random(part, 2));
      back.outputs.push_back(f32(part));
    }
    cases.push_back(back);
    back.outputs.back() = absent().shape;
    if (parts.size() > 1) cases.push_back(std::move(back));
  }
}

void gathers(Cases& cases) {
  struct Gather {
    Dims x;
    std::int64_t axis;
    Dims indices, y;
  };
  const std::vector<Gather> table = {{{9}, 0, {}, {}},
                                     {{9}, 0, {0}, {0}},
                                     {{9, 16}, 0, {5}, {5, 16}},
                                     {{3, 9, 17}, 1, {2, 4}, {3, 2, 4, 17}},
                                     {{3, 5, 9}, 2, {7}, {3, 5, 7}},
                                     {{2, 0, 3}, 1, {4}, {2, 4, 3}},
                                     {{0, 9}, 1, {3}, {0, 3}},
                                     {{50, 64}, 0, {600}, {600, 64}}};
  for (const auto& [x, axis, indices, y] : table) {
    Attrs attrs;
    attrs.axis = axis;
    const int size = static_cast<int>(x[static_cast<std::size_t>(axis)]);
    const Tensor narrow = integers(DType::kS32, indices, -size - 2, size + 1, 3);
    Tensor wide = zeros(DType::kI64, indices);
    for (std::int64_t i = 0; i < wide.shape.count(); ++i) wide.data<std::int64_t>()[i] = narrow.data<std::int32_t>()[i];
    if (wide.shape.count() > 2) wide.data<std::int64_t>()[1] = std::int64_t{1} << 40;
    const std::string name = fmt::format("[{}] at [{}] of {}", fmt::join(x, ","), fmt::join(indices, ","), axis);
    for (const DType type : kTypes)
      cases.push_back(
          {name + name_of(type), Op::kGather, attrs, {any(type, x, 1), narrow}, {shape_of(type, y)}, {}, {}});
    cases.push_back({name + " i64", Op::kGather, attrs, {any(DType::kF32, x, 1), wide}, {f32(y)}, {}, {}});
    cases.push_back({name, Op::kGatherBackward, attrs, {narrow, random(y, 2)}, {f32(x)}, {}, {}});
    cases.push_back({name + " i64", Op::kGatherBackward, attrs, {wide, random(y, 2)}, {f32(x)}, {}, {}});
  }
}

const std::vector<std::pair<Arithmetic, const char*>> kArithmetics = {
    {Arithmetic::kAdd, "add"}, {Arithmetic::kSub, "sub"}, {Arithmetic::kMul, "mul"}, {Arithmetic::kDiv, "div"},
    {Arithmetic::kMax, "max"}, {Arithmetic::kMin, "min"}, {Arithmetic::kPow, "pow"}};

void arithmetic(Cases& cases) {
  struct Shapes {
    Dims a, b, y;
  };
  std::vector<Shapes> table = {{{}, {}, {}},
                               {{3}, {}, {3}},
                               {{1}, {17}, {17}},
                               {{3, 1}, {5}, {3, 5}},
                               {{4, 33}, {33}, {4, 33}},
                               {{4, 33}, {4, 1}, {4, 33}},
                               {{2, 1, 7}, {5, 1}, {2, 5, 7}},
                               {{0, 3}, {3}, {0, 3}},
                               {{2, 1}, {2, 0}, {2, 0}},
                               {{2, 3, 1, 16, 1, 2, 1, 3}, {1, 16, 1, 2, 1, 3}, {2, 3, 1, 16, 1, 2, 1, 3}},
                               {{7, 6, 64}, {7, 1, 64}, {7, 6, 64}}};
  for (const std::int64_t n : kCounts) table.push_back({{n}, {n}, {n}});
  for (const auto& [a, b, y] : table)
    for (const auto& [each, word] : kArithmetics) {
      Attrs attrs;
      attrs.arithmetic = each;
      const std::string name = fmt::format("{} [{}] [{}]", word, fmt::join(a, ","), fmt::join(b, ","));
      const bool pow = each == Arithmetic::kPow;  // of positive numbers, or most is NaN
      const Tensor first = pow ? uniform(a, 0.1f, 2.0f, 1) : random(a, 1), second = random(b, 2);
      cases.push_back({name, Op::kArithmetic, attrs, {first, second}, {f32(y)}, {}, {}});
      cases.push_back({name, Op::kArithmeticBackward, attrs, {first, second, random(y, 3)}, {f32(y), f32(y)}, {}, {}});
      if (y.size() != 2) continue;
      cases.push_back({name + " odd", Op::kArithmetic, attrs, {odd(first), second}, {f32(y)}, {}, {}});
      cases.push_back({name + " odd b", Op::kArithmetic, attrs, {first, odd(second)}, {f32(y)}, {}, {}});
      cases.push_back({name + " of b",
                       Op::kArithmeticBackward,
                       attrs,
                       {first, second, random(y, 3)},
                       {absent().shape, f32(y)},
                       {},
                       {}});
    }
}

void reductions(Cases& cases) {
  struct Reduce {
    Dims x, axes;
  };
  std::vector<Reduce> table = {{{}, {}},
                               {{3, 4}, {}},
                               {{0, 4}, {0}},
                               {{4, 0}, {0}},
                               {{4, 0}, {1}},
                               {{1, 1}, {1}},
                               {{5, 17}, {0}},
                               {{300, 33}, {0}},
                               {{3, 5, 7}, {1}},
                               {{3, 5, 7}, {2, 0}},
                               {{3, 5, 16}, {0, 1}},
                               {{2, 3, 2, 3, 2, 3, 2, 3}, {1, 3, 5, 7}},
                               {{2, 3, 2, 3, 2, 3, 2, 3}, {0, 2, 4, 6}}};
  for (const std::int64_t n : kCounts) table.push_back({{2, n}, {1}});
  for (const auto& [x, axes] : table)
    for (const auto& [each, word] : {std::pair{Reduction::kSum, "sum"},
                                     {Reduction::kMean, "mean"},
                                     {Reduction::kMax, "max"},
                                     {Reduction::kMin, "min"}})
      for (const bool keep : {false, true}) {
        Attrs attrs;
        attrs.reduction = each, attrs.axes = list_of(axes), attrs.keep_dims = keep;
        Dims y;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const bool gone =
              axes.empty() || std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
          if (!gone || keep) y.push_back(gone ? 1 : x[i]);
        }
        const std::string name = fmt::format("{} of [{}] over [{}]", word, fmt::join(x, ","), fmt::join(axes, ","));
        const Tensor from = random(x, 1);
        const Case forward{name, Op::kReduce, attrs, {from}, {f32(y)}, {}, {}};
        cases.push_back(forward);
        if (keep) continue;
        cases.push_back({name + " odd", Op::kReduce, attrs, {odd(from, 3.0f)}, {f32(y)}, {}, {}});
        const bool selects = each == Reduction::kMax || each == Reduction::kMin;
        Case back{name, Op::kReduceBackward, attrs, {random(y, 2)}, {f32(x)}, {}, {}};
        if (selects) back.inputs.insert(back.inputs.end(), {from, output_of(forward, 0)});
        cases.push_back(std::move(back));
      }
}

void products(Cases& cases) {
  struct Product {
    Dims a, b, y;  // leading dims
    std::int64_t m, k, n;
  };
  const std::vector<Product> table = {{{}, {}, {}, 1, 1, 1},
                                      {{}, {}, {}, 0, 4, 4},
                                      {{}, {}, {}, 4, 0, 5},
                                      {{}, {}, {}, 4, 5, 0},
                                      {{0}, {0}, {0}, 3, 3, 3},
                                      {{}, {}, {}, 15, 16, 17},
                                      {{3}, {3}, {3}, 7, 5, 33},
                                      {{2, 1}, {5}, {2, 5}, 4, 9, 65},
                                      {{4}, {}, {4}, 49, 64, 64},
                                      {{}, {2, 3}, {2, 3}, 5, 8, 16},
                                      {{2, 1, 2}, {1, 3, 1}, {2, 3, 2}, 3, 17, 15},
                                      {{2}, {2}, {2}, 70, 1100, 130}};
  for (const auto& [a, b, y, m, k, n] : table)
    for (const bool turned_a : {false, true})
      for (const bool turned_b : {false, true}) {
        Attrs attrs;
        attrs.transpose_a = turned_a, attrs.transpose_b = turned_b;
        Dims first = a, second = b, result = y;
        first.insert(first.end(), {turned_a ? k : m, turned_a ? m : k});
        second.insert(second.end(), {turned_b ? n : k, turned_b ? k : n});
        result.insert(result.end(), {m, n});
        const std::string name = fmt::format("[{}]{} [{}]{}", fmt::join(first, ","), turned_a ? "T" : "",
                                             fmt::join(second, ","), turned_b ? "T" : "");
        const Tensor x = m == 7 ? odd(random(first, 1), 3.0f) : random(first, 1);
        cases.push_back({name, Op::kMatmul, attrs, {x, random(second, 2)}, {f32(result)}, {}, {}});
      }
}

}  // namespace

void primitives(Cases& cases) {
  transposes(cases);
  slices(cases);
  concats(cases);
  gathers(cases);
  arithmetic(cases);
  reductions(cases);
  products(cases);
}

}  // namespace mlx::kernels::test
