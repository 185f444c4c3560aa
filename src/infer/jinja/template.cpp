// See template.h.
#include "infer/jinja/template.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "infer/jinja/tree.h"

namespace mlx::infer::jinja {
namespace {

// Calls `work`, whose faults become errors with the line that it left in its argument.
template <typename Work>
auto with_place(const std::string& what, const Work& work) {
  int line = 1;
  try {
    return work(line);
  } catch (const Fault& wrong) {
    throw Error(wrong.kind, fmt::format("{}, line {}: {}", what, line, printable(wrong.message)));
  }
}

}  // namespace

struct Template::Parsed {
  Body body;
};

Template::Template(std::string_view source, std::string what) : what_(std::move(what)) {
  if (source.size() > kLongestTemplate)
    fail(ErrorKind::kUsage, "{} has more than {}", what_, format_bytes(kLongestTemplate));
  if (!is_utf8(source)) fail(ErrorKind::kCorrupt, "{} is not UTF-8", what_);
  parsed_ = with_place(what_, [&](int& line) { return std::make_unique<const Parsed>(Parsed{parse(source, line)}); });
}
Template::~Template() = default;
Template::Template(Template&& other) noexcept = default;
Template& Template::operator=(Template&& other) noexcept = default;

std::string Template::render(const Json& variables, const std::tm& now, const Limits& limits) const {
  return with_place(what_, [&](int& line) { return run(parsed_->body, variables, now, limits, line); });
}

}  // namespace mlx::infer::jinja
