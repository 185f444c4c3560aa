// Chooses the kernel for a problem (table.h): the first of the backend's own kernels that serves it, else one of the
// backends below.
#include "kernels/table.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/backend_row.h"
#include "kernels/geometry.h"
#include "kernels/on_host.h"

namespace mlx::kernels {
namespace {

bool serves(const BackendRow& row, const Problem& problem, Prepared& prepared) {
  for (const Kernel& kernel : kernels_of(row)) {
    if (kernel.op != problem.op) continue;
    Plan plan;
    if (kernel.prepare(problem, plan)) {
      prepared = Prepared(plan, row.name);
      return true;
    }
    // A kernel that declines may already have allocated; the owner frees it.
    const Prepared declined(plan, row.name);
  }
  return false;
}

std::string text_of(const Shape& shape) {
  if (shape.rank < 0) return "absent";
  std::string text = name_of(shape.dtype);
  text += '[';
  for (int i = 0; i < shape.rank && i < kMaxRank; ++i)
    text += fmt::format("{}{}", i ? "," : "", shape.dims[static_cast<std::size_t>(i)]);
  return text + ']';
}

std::string text_of(const Problem& problem) {
  std::string text = name_of(problem.op);
  text += '(';
  for (int i = 0; i < problem.input_count; ++i) text += (i ? ", " : "") + text_of(problem.inputs[i]);
  text += ") -> (";
  for (int i = 0; i < problem.output_count; ++i) text += (i ? ", " : "") + text_of(problem.outputs[i]);
  return text + ')';
}

}  // namespace

Prepared prepare(const Problem& problem, const Backend& backend) {
  Geometry geometry;
  if (const std::string wrong = describe(problem, geometry); !wrong.empty())
    fail(ErrorKind::kUsage, "{}: {}", text_of(problem), wrong);
  Prepared prepared;
  for (const BackendRow* row = &backend.row(); row; row = row_below(*row))
    if (row->is_faster && row->is_faster(problem, geometry) && serves(*row, problem, prepared)) return prepared;
  for (const BackendRow* row = &backend.row(); row; row = row_below(*row))
    if (serves(*row, problem, prepared)) return prepared;
  if (backend.can().own_memory && row_of(problem.op).primitive)
    return prepare_on_host(problem, prepare(problem, best_backend()), backend.device());
  fail(ErrorKind::kUsage, "no kernel of the backend '{}' serves {}", backend.name(), text_of(problem));
}

}  // namespace mlx::kernels
