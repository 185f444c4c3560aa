// The rules of a grammar, whatever notation they came in: GBNF (gbnf.h) or a JSON schema (json_schema.h). Compiled by
// automaton.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mlx::infer::grammar {

// Ranges of code points with both ends, ascending, that do not touch; no surrogates.
using CodePoints = std::vector<std::pair<char32_t, char32_t>>;
// Sorts and merges; what is no character is left out.
CodePoints code_points(CodePoints ranges);
CodePoints all_but(const CodePoints& set);
CodePoints common(const CodePoints& a, const CodePoints& b);
bool contains(const CodePoints& set, char32_t code);

inline constexpr std::uint32_t kNoLimit = UINT32_MAX;

struct Expression {
  enum class Kind : std::uint8_t {
    kLiteral,    // these bytes
    kCharacter,  // one of `characters`
    kRule,
    kSequence,  // all of `parts`; of none: nothing
    kChoice,    // one of `parts`
    kRepeat,    // parts[0], `least` to `most` times
  };
  Kind kind = Kind::kSequence;
  std::string text{};
  CodePoints characters{};
  std::size_t rule = 0;
  std::vector<Expression> parts{};
  std::uint32_t least = 0, most = 0;
};

Expression text(std::string bytes);
Expression character(CodePoints of);
Expression rule(std::size_t number);
Expression sequence(std::vector<Expression> parts);
Expression choice(std::vector<Expression> parts);
Expression repeat(Expression what, std::uint32_t least, std::uint32_t most);
Expression maybe(Expression what);
// One of these texts, at least one: what several of them begin with comes once, so that few places are open at a time.
Expression one_of(std::vector<std::string> texts);

struct Rule {
  std::string name;  // for messages
  Expression body;
};

struct Rules {
  std::vector<Rule> rules;
  std::size_t root = 0;
  std::size_t add(std::string name, Expression body) {
    rules.push_back({std::move(name), std::move(body)});
    return rules.size() - 1;
  }
};

// The same texts with these around them.
Rules between(std::string before, Rules rules, std::string after);

}  // namespace mlx::infer::grammar
