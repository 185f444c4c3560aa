// The table of kinds (kind.h). It is passed to its readers, so that a test can extend it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/operations/kind.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

class Kinds {
 public:
  explicit Kinds(std::vector<const Kind*> rows) : rows_(std::move(rows)) {}  // the rows must outlive the table
  const std::vector<const Kind*>& rows() const { return rows_; }
  const Kind* find(std::string_view name) const;  // nullptr for a kind of a newer mlx
  const Kind& at(std::string_view name) const;    // throws kCorrupt for one, with a hint
  Kinds with(const Kind& kind) const;             // a copy with this row added
  // The right that is needed to make the operation.
  Right right_of(const Operation& operation) const;

 private:
  std::vector<const Kind*> rows_;
};

const Kinds& known_kinds();  // every kind that this mlx knows

}  // namespace mlx::registry
