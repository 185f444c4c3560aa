// Concatenation and its gradient: checks and reference kernels, which copy elements of any type.
#include <cstring>

#include "kernels/checker.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels {

// The whole has g.n rows of g.dim elements. A row consists of one run of each part, one after another.
void check_concat(Checker& check, const Problem& problem, Geometry& g) {
  const bool forward = problem.op == Op::kConcat;
  const int first = forward ? 0 : 1;  // the parts among the inputs; the gradient's first input is dy
  if (!check.input_is(first, 1, forward ? kAny : kFloat)) return;
  const Shape& like = check.input(first);
  const std::int64_t axis = problem.attrs.axis;
  check.require(axis >= 0 && axis < like.rank, "axis must be a dim");
  if (!check.ok()) return;
  Dims whole = Checker::dims_of(like);
  std::int64_t& size = whole[static_cast<std::size_t>(axis)];
  std::int64_t inner = 1;
  for (int i = static_cast<int>(axis) + 1; i < like.rank; ++i) inner *= dim(like, i);
  g.n = 1;
  for (int i = 0; i < axis; ++i) g.n *= dim(like, i);
  size = 0;
  for (int i = first; i < problem.input_count && check.has_input(i); ++i) {
    Dims part = whole;
    if (check.input(i).rank == like.rank)
      part[static_cast<std::size_t>(axis)] = dim(check.input(i), static_cast<int>(axis));
    check.input_equals(i, part, like.dtype);
    if (!forward) check.optional_output(i - 1, part);
    if (!check.ok()) return;
    const int at = g.parts++;
    g.part_begin[at] = size * inner;
    size += part[static_cast<std::size_t>(axis)];
    g.part_size[at] = size * inner - g.part_begin[at];
  }
  for (int i = first + g.parts; i < problem.input_count; ++i)
    check.require(!check.has_input(i), "an absent part precedes another one");
  g.dim = size * inner;
  if (forward)
    check.output_equals(0, whole, like.dtype);
  else
    check.input_equals(0, whole);
}

namespace ref {
namespace {

// Calls copy(part, first byte in the whole, first byte in the part, bytes) for the rows of a slice.
template <typename Copy>
void each_part(const State& s, int phase, int slice, Copy copy) {
  const auto size = static_cast<std::int64_t>(size_of(s.g.x_type));
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    for (int part = 0; part < s.g.parts; ++part) {
      if (s.g.part_size[part] == 0) continue;
      copy(part, (row * s.g.dim + s.g.part_begin[part]) * size, row * s.g.part_size[part] * size,
           static_cast<std::size_t>(s.g.part_size[part] * size));
    }
}

void concat(const void* opaque, const Args& args, int phase, int slice) {
  auto* y = static_cast<char*>(args.outputs[0]);
  each_part(state_of(opaque), phase, slice, [&](int part, std::int64_t whole, std::int64_t own, std::size_t bytes) {
    std::memcpy(y + whole, static_cast<const char*>(args.inputs[part]) + own, bytes);
  });
}

void concat_backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const auto* dy = static_cast<const char*>(args.inputs[0]);
  each_part(s, phase, slice, [&](int part, std::int64_t whole, std::int64_t own, std::size_t bytes) {
    if (s.g.has_output[part]) std::memcpy(static_cast<char*>(args.outputs[part]) + own, dy + whole, bytes);
  });
}

}  // namespace

bool prepare_concat(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kConcat ? concat : concat_backward, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, s->g.n, s->g.n * s->g.dim * 2 * static_cast<std::int64_t>(size_of(s->g.x_type)));
  return true;
}

}  // namespace ref
}  // namespace mlx::kernels
