// Sets of characters, and the short forms of expressions.
#include "infer/grammar/rules.h"

#include <algorithm>
#include <span>

namespace mlx::infer::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

constexpr int kDeepestPrefix = 50;

// Of ascending texts, which all begin with the same `from` bytes.
Expression rest_of(std::span<const std::string> texts, std::size_t from, int depth) {
  std::vector<Expression> either;
  while (!texts.empty()) {
    const std::string& first = texts.front();
    const auto alike = [&](const std::string& other) {
      return first.size() > from && other.size() > from && first[from] == other[from];
    };
    std::size_t count = 1;
    while (depth < kDeepestPrefix && count < texts.size() && alike(texts[count])) ++count;
    if (count == 1) {
      either.push_back(text(first.substr(from)));
    } else {
      const std::string& last = texts[count - 1];  // what the ends of a sorted range share, all of it shares
      const auto same = static_cast<std::size_t>(std::ranges::mismatch(first, last).in1 - first.begin());
      either.push_back(sequence({text(first.substr(from, same - from)), rest_of(texts.first(count), same, depth + 1)}));
    }
    texts = texts.subspan(count);
  }
  return choice(std::move(either));
}

}  // namespace

CodePoints code_points(CodePoints ranges) {
  std::ranges::sort(ranges);
  CodePoints out;
  const auto add = [&out](char32_t low, char32_t high) {
    if (low > high) return;
    if (!out.empty() && low <= out.back().second + 1 && !(out.back().second < kFirstSurrogate && low > kLastSurrogate))
      out.back().second = std::max(out.back().second, high);
    else
      out.emplace_back(low, high);
  };
  for (auto [low, high] : ranges) {
    high = std::min(high, kLast);
    add(low, std::min<char32_t>(high, kFirstSurrogate - 1));
    add(std::max<char32_t>(low, kLastSurrogate + 1), high);
  }
  return out;
}

CodePoints all_but(const CodePoints& set) {
  CodePoints out;
  char32_t next = 0;
  for (const auto& [low, high] : set) {
    if (low > next) out.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= kLast) out.emplace_back(next, kLast);
  return code_points(std::move(out));
}

CodePoints common(const CodePoints& a, const CodePoints& b) {
  CodePoints out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t low = std::max(a[i].first, b[j].first), high = std::min(a[i].second, b[j].second);
    if (low <= high) out.emplace_back(low, high);
    a[i].second < b[j].second ? ++i : ++j;
  }
  return out;
}

bool contains(const CodePoints& set, char32_t code) {
  return std::ranges::any_of(set, [code](const auto& range) { return range.first <= code && code <= range.second; });
}

Expression text(std::string bytes) {
  return {.kind = Expression::Kind::kLiteral, .text = std::move(bytes)};
}

Expression character(CodePoints of) {
  return {.kind = Expression::Kind::kCharacter, .characters = std::move(of)};
}

Expression rule(std::size_t number) {
  return {.kind = Expression::Kind::kRule, .rule = number};
}

Expression sequence(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.kind = Expression::Kind::kSequence, .parts = std::move(parts)};
}

Expression choice(std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return {.kind = Expression::Kind::kChoice, .parts = std::move(parts)};
}

Expression repeat(Expression what, std::uint32_t least, std::uint32_t most) {
  Expression out{.kind = Expression::Kind::kRepeat};
  out.parts.push_back(std::move(what));
  out.least = least;
  out.most = most;
  return out;
}

Expression maybe(Expression what) {
  return repeat(std::move(what), 0, 1);
}

Expression one_of(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return rest_of(texts, 0, 0);
}

Rules between(std::string before, Rules rules, std::string after) {
  rules.root = rules.add("root", sequence({text(std::move(before)), rule(rules.root), text(std::move(after))}));
  return rules;
}

}  // namespace mlx::infer::grammar
