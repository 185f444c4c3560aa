// Environment variables and the user's home folder. cmd/ reads them once and passes them down, so that everything below
// it can be tested in another environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace mlx {

struct Environment {
  std::function<std::optional<std::string>(const std::string&)> variable;  // if empty, no variable is set
  std::string home;                                                        // "" if there is none

  // nullopt if it is not set; an empty value counts as not set.
  std::optional<std::string> get(const std::string& name) const {
    std::optional<std::string> value = variable ? variable(name) : std::nullopt;
    return value && !value->empty() ? value : std::nullopt;
  }
};

// This process's own: the one place that reads it. For cmd/, for tests, and for what the C library reads itself
// (work/numerics.cpp).
Environment process_environment();

}  // namespace mlx
