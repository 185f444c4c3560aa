// Parsing and matching of .mlxignore; matching takes time in proportion to pattern times path, whatever the pattern.
#include "store/worktree/ignore.h"

namespace mlx::store {

std::vector<IgnoreRule> parse_ignore(std::string_view text) {
  std::vector<IgnoreRule> rules;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    while (line.ends_with(' ') && !line.ends_with("\\ ")) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    IgnoreRule rule;
    if (line.front() == '!') {
      rule.negated = true;
      line.remove_prefix(1);
    }
    if (line.ends_with('/')) {
      rule.folders_only = true;
      line.remove_suffix(1);
    }
    if (line.starts_with('/')) {
      rule.anchored = true;
      line.remove_prefix(1);
    }
    rule.anchored = rule.anchored || line.find('/') != std::string_view::npos;
    rule.pattern = line;
    if (!rule.pattern.empty()) rules.push_back(std::move(rule));
  }
  return rules;
}

// Dynamic programming over the pattern: reached[j] says that the pattern read so far can match the first j bytes.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::vector<bool> reached(text.size() + 1, false);
  reached[0] = true;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    std::vector<bool> next(text.size() + 1, false);
    if (c == '*') {
      bool across = i + 1 < pattern.size() && pattern[i + 1] == '*';
      if (across) ++i;
      // "**/" also matches no part at all: "a/**/b" is "a/b" too.
      bool parts = across && i + 1 < pattern.size() && pattern[i + 1] == '/';
      if (parts) ++i;
      bool open = false;
      for (std::size_t j = 0; j <= text.size(); ++j) {
        if (parts) {
          // Matches nothing, or up to a "/".
          next[j] = reached[j] || (open && j > 0 && text[j - 1] == '/');
          open = open || reached[j];
          continue;
        }
        if (j > 0 && text[j - 1] == '/' && !across) open = false;
        open = open || reached[j];
        next[j] = open;
      }
    } else {
      bool any = c == '?';
      if (c == '\\' && i + 1 < pattern.size()) c = pattern[++i];
      for (std::size_t j = 0; j < text.size(); ++j) {
        next[j + 1] = reached[j] && (any ? text[j] != '/' : text[j] == c);
      }
    }
    reached = std::move(next);
  }
  return reached[text.size()];
}

bool is_ignored(const IgnoreRules* rules, std::string_view path, bool folder) {
  for (; rules; rules = rules->above.get()) {
    std::string_view inside = path.substr(rules->base.size());
    std::size_t slash = inside.rfind('/');
    std::string_view name = slash == std::string_view::npos ? inside : inside.substr(slash + 1);
    for (auto rule = rules->rules.rbegin(); rule != rules->rules.rend(); ++rule) {
      if (rule->folders_only && !folder) continue;
      if (glob_matches(rule->pattern, rule->anchored ? inside : name)) return !rule->negated;
    }
  }
  return false;
}

}  // namespace mlx::store
