// The process's environment variables.
#include "base/environment.h"

#include <cstdlib>

namespace mlx {

Environment process_environment() {
  Environment environment;
  environment.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  environment.home = environment.get("HOME").value_or("");
  return environment;
}

}  // namespace mlx
