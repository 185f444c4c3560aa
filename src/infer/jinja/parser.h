// What the parsers of expressions and of statements share: the tokens, and where the parser stands. Used by parser.cpp
// and expressions.cpp.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "infer/jinja/lexer.h"
#include "infer/jinja/tree.h"

namespace mlx::infer::jinja {

constexpr int kDeepestTree = 120;

[[noreturn]] void syntax_fault(std::string message);

class Tokens {
 public:
  Tokens(std::vector<Token> tokens, int& line) : tokens_(std::move(tokens)), line_(line) { line_ = now().line; }

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return line_; }
  Token next() {
    Token token = now();
    if (at_ + 1 < tokens_.size()) ++at_;
    line_ = now().line;
    return token;
  }
  bool is(Token::Kind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool is_operator(std::string_view text) const { return is(Token::Kind::kOperator, text); }
  bool is_name(std::string_view text) const { return is(Token::Kind::kName, text); }
  bool take_operator(std::string_view text) { return is_operator(text) && (next(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (next(), true); }
  std::string name() {
    if (now().kind != Token::Kind::kName) unexpected("a name");
    return next().text;
  }
  void expect_operator(std::string_view text) {
    if (!take_operator(text)) unexpected(fmt::format("'{}'", text));
  }
  [[noreturn]] void unexpected(std::string_view wanted) const;

  // Counts how deep things are in each other, while it lives.
  class Deeper {
   public:
    explicit Deeper(Tokens& tokens) : tokens_(tokens) {
      if (++tokens_.depth_ > kDeepestTree) syntax_fault("too many things in each other");
    }
    ~Deeper() { --tokens_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Tokens& tokens_;
  };

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int& line_;
};

// With `condition`: also "a if b else c".
ExpressionPtr parse_expression(Tokens& tokens, bool condition = true);
// Also "a, b".
ExpressionPtr parse_tuple(Tokens& tokens, bool condition = true);
// The filters behind "|"; `value` may be null: what a block holds.
ExpressionPtr parse_filters(Tokens& tokens, ExpressionPtr value);
ExpressionPtr parse_filter(Tokens& tokens, ExpressionPtr value);  // "|" is taken

}  // namespace mlx::infer::jinja
