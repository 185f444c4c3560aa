// Takes a release back: what a version may get wrong after it has taken another one's place in a server, and whether it
// has. Used by `mlx serve --rollback-on`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/metrics.h"

namespace mlx::cmd {

// At most `share` of the answers may be errors of the model, or be slower than `seconds`.
struct ReleaseBound {
  std::string text;  // "errors=1%", "p99=50ms"
  double share = 0;
  std::optional<double> seconds{};
};
// "errors=1%,p99=50ms"; none for "". Throws kUsage.
std::vector<ReleaseBound> parse_release_bounds(const std::string& text);

class ReleaseGuard {
 public:
  explicit ReleaseGuard(std::vector<ReleaseBound> bounds) : bounds_(std::move(bounds)) {}

  void begin(serve::ModelCounts counts);  // from here on answers are the version's
  void end() { start_.reset(); }
  // What is beyond its bound, for people: at least ten answers, and more than the bound's share of all. Counts begin
  // anew after ten thousand answers, so that many good ones do not hide what comes later.
  std::optional<std::string> broken(const serve::ModelCounts& now);

 private:
  std::vector<ReleaseBound> bounds_;
  std::optional<serve::ModelCounts> start_;
};

}  // namespace mlx::cmd
