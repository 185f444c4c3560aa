// The models of `mlx serve`, as they are asked for and as their aliases move while it runs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "kernels/backend.h"
#include "registry/versions/artifacts.h"
#include "serve/options.h"

namespace mlx::cmd {

// Each set of weights is loaded once, whatever number of names it is served under.
class ServeModels {
 public:
  // `words`: MODEL or NAME=MODEL. `cache`: how keys and values are kept.
  ServeModels(std::vector<std::string> words, kernels::DType cache, Context& context);

  // Throws kUsage for two of one name, and as open_model().
  std::vector<serve::ModelSpec> load();
  const std::vector<std::string>& titles() const { return titles_; }  // of what was loaded: "clf@v2"
  kernels::Backend backend() const { return backend_; }
  // Where an alias has moved since, loads its version and hands it to the server. Runs on another thread, while no
  // other one uses the repository. What cannot be served is told once, and tried again.
  void look(serve::Control& control);

 private:
  struct Served {
    std::string word;            // without NAME=
    std::string name{};          // that requests call it by
    bool renamed = false;        // by NAME=
    std::string title{};         // of what is served, "clf@v2"
    std::string digest{};        // of the version that is served
    bool by_alias = false;       // so that it may move
    std::string told{};          // why the alias, or its version, is not served
    std::string refused{};       // the version that cannot be served
    double wait = 0, again = 0;  // until it is tried again
  };
  serve::ModelSpec load(Served& served);
  void follow(Served& served, serve::Control& control);
  std::shared_ptr<const infer::Model> known(const std::string& digest) const;

  Context& context_;
  kernels::DType cache_;
  kernels::Backend backend_;
  std::vector<std::string> words_, titles_;
  std::vector<Served> served_;
  std::map<std::string, std::weak_ptr<const infer::Model>> models_;  // by digest
};

}  // namespace mlx::cmd
