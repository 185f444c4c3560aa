// A grammar's rules as an automaton over bytes, with calls of rules. It does not change once it is made. Used by
// states.h, which runs it.
//
// It refuses, with kUsage and the name of the rule: left recursion, rules that no text ends, and what would be too
// large.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "infer/grammar/rules.h"

namespace mlx::infer::grammar {

struct Node {
  enum class Kind : std::uint8_t {
    kEnd,        // of a rule
    kByte,       // `value`, then to `next`
    kCharacter,  // of the class that `value` begins, then to `next`
    kSplit,      // to `next` and to `value`
    kCall,       // the rule that begins at node `value`, then to `next`
  };
  Kind kind = Kind::kEnd;
  std::uint32_t next = 0, value = 0;
};

// What may follow some bytes of a character: by byte, the number of such a table, kWhole or kNone.
struct Continuations {
  static constexpr std::uint16_t kNone = 0xFFFF, kWhole = 0xFFFE;
  std::array<std::uint16_t, 256> by_byte{};
  auto operator<=>(const Continuations&) const = default;
};

class Automaton {
 public:
  static constexpr std::uint32_t kEndNode = 0;

  // `what` names the grammar in messages. `blank`: the text may have a blank in front.
  Automaton(const Rules& rules, const std::string& what, bool blank = false);

  std::uint32_t start() const { return start_; }
  const Node& node(std::uint32_t number) const { return nodes_[number]; }
  const Continuations& continuations(std::uint32_t number) const { return tables_[number]; }
  std::size_t size() const { return nodes_.size(); }

 private:
  std::uint32_t add(Node node);
  std::uint32_t compile(const Expression& expression, std::uint32_t next);
  std::uint32_t compile_repeat(const Expression& expression, std::uint32_t next);
  std::uint16_t table(const Continuations& of);
  std::uint16_t table_of(const CodePoints& set);
  std::uint16_t table_of(const CodePoints& set, char32_t prefix, int bytes);
  void resolve_calls();
  // The nodes from which the end of their rule is reached, with bytes or without any.
  std::vector<bool> reaching_end(bool with_bytes) const;
  std::vector<bool> reachable() const;
  void check(const Rules& rules) const;
  void check_ends(const Rules& rules) const;
  void check_left_recursion(const Rules& rules) const;

  std::string what_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> rule_starts_;
  std::vector<Continuations> tables_;
  std::map<Continuations, std::uint16_t> numbers_;
  std::map<CodePoints, std::uint16_t> classes_;
  std::array<std::uint16_t, 4> any_{};  // by the number of bytes that follow: all characters; 0: not made yet
  std::uint32_t start_ = 0;
};

}  // namespace mlx::infer::grammar
