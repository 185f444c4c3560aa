// The table of kinds (kind.h). It is passed to whoever reads it, so that a test can extend it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "registry/operations/kind.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

class Kinds {
 public:
  explicit Kinds(std::vector<const Kind*> rows) : rows_(std::move(rows)) {}  // which outlive it
  const std::vector<const Kind*>& rows() const { return rows_; }
  const Kind* find(std::string_view name) const;  // nullptr for a kind of a newer mlx
  const Kind& at(std::string_view name) const;    // kCorrupt then, with the way out
  Kinds with(const Kind& kind) const;             // and this one
  // What it takes to make the operation.
  Right right_of(const Operation& operation) const;

 private:
  std::vector<const Kind*> rows_;
};

const Kinds& known_kinds();  // all that this mlx knows

}  // namespace mlx::registry
