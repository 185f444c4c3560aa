// Arithmetic of templates. Used by run.cpp.
#pragma once

#include <string_view>

#include "infer/jinja/value.h"

namespace mlx::infer::jinja {

// "+", "-", "*", "/", "//", "%", "**", as Python has them.
Value calculate(std::string_view name, const Value& left, const Value& right, Budget& budget);
Value signed_value(std::string_view sign, const Value& value);

}  // namespace mlx::infer::jinja
