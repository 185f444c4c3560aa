// Templates in the subset of Jinja that the chat templates of published models use, as transformers sets Jinja up. Used
// by chat.h.
//
// No code runs, and a template from anywhere ends: steps, depth, and the text that it makes have limits.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace mlx::infer::jinja {

struct Limits {
  std::uint64_t steps = 4'000'000;                 // about a second
  std::uint64_t bytes = std::uint64_t{256} << 20;  // of all texts on the way
  std::uint64_t output = std::uint64_t{64} << 20;
};
constexpr std::size_t kLongestTemplate = std::size_t{1} << 20;

class Template {
 public:
  // Throws kUsage for what is not supported, kCorrupt for what is no template; both name `what` and the line.
  Template(std::string_view source, std::string what);
  ~Template();
  Template(Template&& other) noexcept;
  Template& operator=(Template&& other) noexcept;
  // `variables`: an object. `now`: what strftime_now writes. Throws kUsage, naming the line.
  std::string render(const Json& variables, const std::tm& now, const Limits& limits = {}) const;

 private:
  struct Parsed;
  std::string what_;
  std::unique_ptr<const Parsed> parsed_;
};

}  // namespace mlx::infer::jinja
