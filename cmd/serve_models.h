// The models of `mlx serve`, as they are asked for and as their aliases move while it runs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/cli/cli.h"
#include "cmd/release_guard.h"
#include "kernels/backend.h"
#include "registry/versions/artifacts.h"
#include "serve/options.h"

namespace mlx::cmd {

// Each set of weights is loaded once, whatever number of names it is served under.
class ServeModels {
 public:
  struct Options {
    std::vector<std::string> words;      // MODEL or NAME=MODEL
    kernels::DType cache{};              // how keys and values are kept
    std::vector<ReleaseBound> bounds{};  // beyond which a version that has taken another one's place is rolled back
    std::uint64_t window = 0;  // examples that are compared at once with what a model was trained on; 0: none are
  };
  ServeModels(Options options, Context& context);

  // Throws kUsage for two of one name, and as open_model().
  std::vector<serve::ModelSpec> load();
  const std::vector<std::string>& titles() const { return titles_; }  // of what was loaded: "clf@v2"
  kernels::Backend backend() const { return backend_; }
  bool follows_aliases() const;  // of any model
  // Where an alias has moved since, loads its version and hands it to the server. Runs on another thread, while no
  // other one uses the repository. What cannot be served is told once, and tried again. A version
  // beyond the bounds is rolled back.
  void look(serve::Control& control);

 private:
  struct Served {
    std::string word;      // without NAME=
    std::string name{};    // that requests call it by
    bool renamed = false;  // by NAME=
    std::string title{};   // of what is served, "clf@v2"
    std::string digest{};  // of the version that is served
    std::string alias{};   // in it, which may move; "" for none
    registry::Version version{};
    std::shared_ptr<serve::ModelMetrics> metrics{};
    ReleaseGuard guard{{}};
    bool taken_back = false;                // the alias was moved back to what is served then
    std::string told{};                     // why the alias, or its version, is not served
    std::string refused{};                  // the version that cannot be served
    double wait = 0, again = 0;             // until it is tried again
    std::shared_ptr<monitor::Live> live{};  // that watches it, if any does
    std::vector<std::string> drifted{};     // columns of which was told
    std::string unwatched{};                // why nothing watches it
  };
  serve::ModelSpec load(Served& served);
  serve::ModelSpec load_counted(Served& next);
  void follow(Served& served, serve::Control& control);
  void take_back_if_broken(Served& served, serve::Control& control);
  std::shared_ptr<monitor::Live> watcher(const std::shared_ptr<const infer::Model>& model,
                                         const registry::Version& version);
  static void tell_drift(Served& served, serve::Control& control);
  std::shared_ptr<const infer::Model> known(const std::string& digest) const;

  Context& context_;
  Options options_;
  kernels::Backend backend_;
  std::vector<std::string> titles_;
  std::vector<Served> served_;
  std::map<std::string, std::weak_ptr<const infer::Model>> models_;  // by digest
};

}  // namespace mlx::cmd
