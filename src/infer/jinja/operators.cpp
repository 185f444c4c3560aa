// See operators.h.
#include "infer/jinja/operators.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace mlx::infer::jinja {
namespace {

[[noreturn]] void no_such_operation(std::string_view name, const Value& left, const Value& right) {
  for (const Value* const side : {&left, &right}) {
    if (!side->is<Undefined>()) continue;
    const Undefined& nothing = std::get<Undefined>(side->held);
    fault(nothing.name ? fmt::format("'{}' is undefined", *nothing.name) : "the value is undefined");
  }
  fault(fmt::format("'{}' is not for {} and {}", name, type_name(left), type_name(right)));
}

void check_divisor(double divisor) {
  if (divisor == 0) fault("division by 0");
}

Value of_integers(char kind, std::int64_t left, std::int64_t right) {
  std::int64_t out = 0;
  bool overflow = false;
  if (kind == '+') {
    overflow = __builtin_add_overflow(left, right, &out);
  } else if (kind == '-') {
    overflow = __builtin_sub_overflow(left, right, &out);
  } else if (kind == '*') {
    overflow = __builtin_mul_overflow(left, right, &out);
  } else {
    check_divisor(static_cast<double>(right));
    overflow = right == -1 && left == std::numeric_limits<std::int64_t>::min();
    if (!overflow) {
      const std::int64_t rest = left % right;
      const bool down = rest != 0 && (rest < 0) != (right < 0);
      out = kind == '%' ? (down ? rest + right : rest) : left / right - (down ? 1 : 0);
    }
  }
  if (overflow) unsupported("an integer of more than 63 bits");
  return {out};
}

Value power_of_integers(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  for (bool overflow = false; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) overflow |= __builtin_mul_overflow(out, base, &out);
    if (exponent > 1) overflow |= __builtin_mul_overflow(base, base, &base);
    if (overflow) unsupported("an integer of more than 63 bits");
  }
  return {out};
}

Value power(const Value& base, const Value& exponent) {
  if (base.is_integer() && exponent.is_integer() && exponent.integer() >= 0)
    return power_of_integers(base.integer(), exponent.integer());
  const double x = base.number(), y = exponent.number();
  if (x == 0 && y < 0) fault("0 to a negative power");
  if (x < 0 && std::isfinite(y) && y != std::floor(y)) unsupported("a complex number");
  const double out = std::pow(x, y);
  if (std::isinf(out) && std::isfinite(x) && std::isfinite(y)) fault("the power is too large");
  return {out};
}

Value of_numbers(char kind, double left, double right) {
  if (kind == '+') return {left + right};
  if (kind == '-') return {left - right};
  if (kind == '*') return {left * right};
  check_divisor(right);
  double rest = std::fmod(left, right);
  if (rest != 0 && (rest < 0) != (right < 0)) rest += right;
  if (kind == '%') return {rest == 0 ? std::copysign(0.0, right) : rest};
  const double quotient = (left - rest) / right;
  return {quotient == 0 ? std::copysign(0.0, left / right) : std::round(quotient)};
}

Value repeated(const Value& value, std::int64_t times, Budget& budget) {
  times = std::max<std::int64_t>(times, 0);
  if (value.is_string()) {
    const std::string& text = value.string();
    if (text.empty()) return value;
    budget.steps(static_cast<std::uint64_t>(times));
    budget.bytes(text.size() * static_cast<std::uint64_t>(times));
    std::string out;
    for (; times > 0; --times) out += text;
    return string_value(std::move(out), budget);
  }
  std::vector<Value> items;
  const auto& part = value.list().items;
  if (part.empty()) return value;
  for (; times > 0; --times) {
    budget.steps(part.size());
    items.insert(items.end(), part.begin(), part.end());
  }
  return list_value(std::move(items), value.list().kind, budget);
}

Value joined(const Value& left, const Value& right, Budget& budget) {
  if (left.is_string()) {
    budget.bytes(left.string().size() + right.string().size());
    return string_value(left.string() + right.string(), budget);
  }
  budget.steps(left.list().items.size() + right.list().items.size());
  std::vector<Value> items = left.list().items;
  items.insert(items.end(), right.list().items.begin(), right.list().items.end());
  return list_value(std::move(items), left.list().kind, budget);
}

bool is_sequence(const Value& value) {
  return value.is_string() || value.is_list();
}

}  // namespace

Value calculate(std::string_view name, const Value& left, const Value& right, Budget& budget) {
  need_list(left);
  need_list(right);
  const char kind = name == "//" ? 'i' : name[0];
  if (left.is_number() && right.is_number()) {
    if (name == "**") return power(left, right);
    const bool integers = left.is_integer() && right.is_integer();
    if (kind == '/') {
      check_divisor(right.number());
      return {left.number() / right.number()};
    }
    return integers ? of_integers(kind, left.integer(), right.integer())
                    : of_numbers(kind, left.number(), right.number());
  }
  const bool same = (left.is_string() && right.is_string()) ||
                    (left.is_list() && right.is_list() && left.list().kind == right.list().kind);
  if (kind == '+' && same) return joined(left, right, budget);
  if (name == "**") no_such_operation(name, left, right);
  if (kind == '*' && is_sequence(left) && right.is_integer()) return repeated(left, right.integer(), budget);
  if (kind == '*' && is_sequence(right) && left.is_integer()) return repeated(right, left.integer(), budget);
  if (kind == '%' && left.is_string()) unsupported("formatting text with %");
  no_such_operation(name, left, right);
}

Value signed_value(std::string_view sign, const Value& value) {
  if (!value.is_number()) fault(fmt::format("'{}' is not for {}", sign, type_name(value)));
  if (sign == "+") return value.is<bool>() ? Value{value.integer()} : value;
  if (value.is<double>()) return {-value.number()};
  if (value.integer() == std::numeric_limits<std::int64_t>::min()) unsupported("an integer of more than 63 bits");
  return {-value.integer()};
}

}  // namespace mlx::infer::jinja
