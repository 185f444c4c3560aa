// The API keys that `mlx serve` asks for: those of the repository (`mlx key api`), or of a file, as they are and as
// they become while it runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "serve/options.h"

namespace mlx::cmd {

class ServeKeys {
 public:
  // `file`: what `mlx key api list --json` has written; "" for the repository, if there is one.
  ServeKeys(const std::string& file, Context& context);

  // nullopt if none are asked for. Throws kUsage, naming the file, for what is no list of keys.
  std::optional<std::vector<serve::ApiKey>> now();
  // Tells the server of changes. Runs on another thread, while no other one uses the repository.
  void look(serve::Control& control);

 private:
  std::optional<std::vector<serve::ApiKey>> read();
  bool changed();

  const std::string file_;
  Context& context_;
  std::string seen_;  // what the keys were read from
  double again_ = 0;  // when a repository is looked at again that is costly to look at
};

}  // namespace mlx::cmd
