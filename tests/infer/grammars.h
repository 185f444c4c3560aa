// What a grammar accepts, byte by byte.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "infer/grammar/gbnf.h"
#include "infer/grammar/json_schema.h"
#include "infer/grammar/states.h"

namespace mlx::infer::test {

class Acceptor {
 public:
  explicit Acceptor(const grammar::Rules& rules)
      : states_(std::make_shared<const grammar::Automaton>(rules, "test"), "test") {}

  bool accepts(std::string_view text) {
    const grammar::States::Set set = after(text);
    return set != grammar::States::kNone && states_.may_end(set);
  }
  // Whether a text of the grammar begins so.
  bool begins(std::string_view text) { return after(text) != grammar::States::kNone; }

 private:
  grammar::States::Set after(std::string_view text) {
    grammar::States::Set set = states_.number_of(states_.start());
    for (const char c : text) set = states_.row(set)[static_cast<unsigned char>(c)];
    return set;
  }

  grammar::States states_;
};

inline Acceptor of_gbnf(std::string_view source) {
  return Acceptor(grammar::parse_gbnf(source, "test"));
}
inline Acceptor of_schema(std::string_view source) {
  return Acceptor(grammar::parse_schema(source, "test"));
}

}  // namespace mlx::infer::test
