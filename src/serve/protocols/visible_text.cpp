// See visible_text.h.
#include "serve/protocols/visible_text.h"

#include <algorithm>
#include <utility>

namespace mlx::serve {

std::size_t begins_at_end(std::string_view text, std::string_view word) {
  for (std::size_t size = std::min(text.size(), word.size() - 1); size > 0; --size)
    if (text.ends_with(word.substr(0, size))) return size;
  return 0;
}

std::string VisibleText::add(std::int32_t token) {
  if (ends_.contains(token)) {
    ended_ = true;
    return rest();
  }
  const std::string bytes = piece_(token, !any_);
  any_ = any_ || !bytes.empty();
  held_ += pieces_.add(bytes);
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at >= first) continue;
    first = at;
    stopped_ = stop;
  }
  if (first != std::string::npos) {
    ended_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  std::size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, begins_at_end(held_, stop));
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string VisibleText::rest() {
  if (stopped_) return {};
  return std::exchange(held_, {}) + pieces_.rest();
}

}  // namespace mlx::serve
