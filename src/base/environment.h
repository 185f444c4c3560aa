// What the world around the program says to it: environment variables and the user's home folder. Read by cmd/ alone
// and handed down, so that everything below it can be tested with another world.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace mlx {

struct Environment {
  std::function<std::optional<std::string>(const std::string&)> variable;  // unset: there are none
  std::string home;                                                        // "": there is none

  // nullopt where it is not set; an empty value counts as not set.
  std::optional<std::string> get(const std::string& name) const {
    std::optional<std::string> value = variable ? variable(name) : std::nullopt;
    return value && !value->empty() ? value : std::nullopt;
  }
};

}  // namespace mlx
