// What a tokenizer.json looks for in text: a string or a regular expression. Used by normalisers, pre-tokenisers and
// decoders.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "data/subword/regex.h"

namespace mlx::data::subword {

class Pattern {
 public:
  explicit Pattern(std::string text) : text_(std::move(text)) {}
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}

  // As Regex::each.
  template <typename Visit>
  void each(std::string_view text, Regex::Budget& budget, const Visit& visit) const {
    if (regex_) return regex_->each(text, budget, visit);
    std::size_t done = 0;
    while (!text_.empty()) {
      const std::size_t found = text.find(text_, done);
      if (found == std::string_view::npos) break;
      if (found > done) visit(done, found, false);
      done = found + text_.size();
      visit(found, done, true);
    }
    if (done < text.size()) visit(done, text.size(), false);
  }
  template <typename Visit>
  void each(std::string_view text, const Visit& visit) const {
    Regex::Budget budget(text);
    each(text, budget, visit);
  }
  // True if this is quickly seen.
  bool surely_absent(std::string_view text) const { return !regex_ && text.find(text_) == std::string_view::npos; }
  // "" for a string.
  const std::string& regex() const { return regex_ ? regex_->pattern() : none_; }

 private:
  std::string text_, none_;
  std::optional<Regex> regex_;
};

// The key "pattern": {"String": …} or {"Regex": …}, or a string. Throws kCorrupt, naming `what`.
Pattern read_pattern(const Json& json, const std::string& what);

}  // namespace mlx::data::subword
