// Expressions, by recursive descent: one function a level of precedence.
#include <algorithm>
#include <array>
#include <charconv>

#include "infer/jinja/builtins.h"
#include "infer/jinja/parser.h"

namespace mlx::infer::jinja {
namespace {

using ExpressionKind = Expression::Kind;
using TokenKind = Token::Kind;

void adopt(Expression& parent, ExpressionPtr part) {
  if (part) parent.depth = std::max(parent.depth, part->depth + 1);
  if (parent.depth > kDeepestTree) syntax_fault("too many things in each other");
  parent.parts.push_back(std::move(part));
}

ExpressionPtr make(ExpressionKind kind, int line, std::string name = {}) {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  made->name = std::move(name);
  return made;
}

ExpressionPtr make_one(ExpressionKind kind, int line, ExpressionPtr part, std::string name = {}) {
  ExpressionPtr made = make(kind, line, std::move(name));
  adopt(*made, std::move(part));
  return made;
}

ExpressionPtr make_two(ExpressionKind kind, int line, ExpressionPtr left, ExpressionPtr right, std::string name = {}) {
  ExpressionPtr made = make_one(kind, line, std::move(left), std::move(name));
  adopt(*made, std::move(right));
  return made;
}

ExpressionPtr constant(Value value, int line) {
  ExpressionPtr made = make(ExpressionKind::kConstant, line);
  made->value = std::move(value);
  return made;
}

Value text_constant(std::string text) {
  return {std::make_shared<const std::string>(std::move(text))};
}

ExpressionPtr parse_unary(Tokens& tokens, bool filters = true);

Value number_constant(const Token& token) {
  const char *const begin = token.text.data(), *const end = begin + token.text.size();
  if (token.kind == TokenKind::kInteger) {
    std::int64_t number = 0;
    if (std::from_chars(begin, end, number).ec != std::errc()) unsupported("an integer of more than 63 bits");
    return {number};
  }
  double number = 0;
  if (std::from_chars(begin, end, number).ec != std::errc()) unsupported(fmt::format("the number {}", token.text));
  return {number};
}

ExpressionPtr parse_list(Tokens& tokens, int line) {
  ExpressionPtr list = make(ExpressionKind::kList, line);
  while (!tokens.is_operator("]")) {
    if (!list->parts.empty()) tokens.expect_operator(",");
    if (tokens.is_operator("]")) break;
    adopt(*list, parse_expression(tokens));
  }
  tokens.expect_operator("]");
  return list;
}

ExpressionPtr parse_dict(Tokens& tokens, int line) {
  ExpressionPtr dict = make(ExpressionKind::kDict, line);
  while (!tokens.is_operator("}")) {
    if (!dict->parts.empty()) tokens.expect_operator(",");
    if (tokens.is_operator("}")) break;
    adopt(*dict, parse_expression(tokens));
    tokens.expect_operator(":");
    adopt(*dict, parse_expression(tokens));
  }
  tokens.expect_operator("}");
  return dict;
}

ExpressionPtr parse_parentheses(Tokens& tokens, int line) {
  if (tokens.take_operator(")")) return make(ExpressionKind::kTuple, line);
  ExpressionPtr inside = parse_tuple(tokens);
  tokens.expect_operator(")");
  return inside;
}

ExpressionPtr parse_name(const Token& token) {
  const std::string& name = token.text;
  if (name == "true" || name == "True") return constant({true}, token.line);
  if (name == "false" || name == "False") return constant({false}, token.line);
  if (name == "none" || name == "None") return constant({None{}}, token.line);
  return make(ExpressionKind::kName, token.line, name);
}

ExpressionPtr parse_primary(Tokens& tokens) {
  const Token token = tokens.next();
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name(token);
    case TokenKind::kString: {
      std::string text = token.text;
      while (tokens.now().kind == TokenKind::kString) text += tokens.next().text;
      return constant(text_constant(std::move(text)), token.line);
    }
    case TokenKind::kInteger:
    case TokenKind::kNumber:
      return constant(number_constant(token), token.line);
    case TokenKind::kOperator:
      if (token.text == "(") return parse_parentheses(tokens, token.line);
      if (token.text == "[") return parse_list(tokens, token.line);
      if (token.text == "{") return parse_dict(tokens, token.line);
      break;
    default:
      break;
  }
  syntax_fault(token.text.empty() ? "a value is missing" : fmt::format("expected a value, got '{}'", token.text));
}

ExpressionPtr parse_brackets(Tokens& tokens, ExpressionPtr of, int line) {
  const auto bound = [&tokens, line]() -> ExpressionPtr {
    if (tokens.is_operator(":") || tokens.is_operator("]")) return constant({None{}}, line);
    return parse_expression(tokens);
  };
  ExpressionPtr first = tokens.is_operator("]") ? nullptr : bound();
  if (!first) tokens.unexpected("what to take");
  if (!tokens.is_operator(":")) {
    tokens.expect_operator("]");
    return make_two(ExpressionKind::kItem, line, std::move(of), std::move(first));
  }
  ExpressionPtr slice = make_two(ExpressionKind::kSlice, line, std::move(of), std::move(first));
  tokens.next();
  adopt(*slice, bound());
  adopt(*slice, tokens.take_operator(":") ? bound() : constant({None{}}, line));
  tokens.expect_operator("]");
  return slice;
}

// Behind "(": what a function, a filter or a test is given.
void parse_arguments(Tokens& tokens, Expression& call) {
  bool first = true;
  while (!tokens.is_operator(")")) {
    if (!first) tokens.expect_operator(",");
    first = false;
    if (tokens.is_operator(")")) break;
    if (tokens.is_operator("*") || tokens.is_operator("**")) unsupported("arguments out of a list (*)");
    if (tokens.now().kind == TokenKind::kName && tokens.ahead().kind == TokenKind::kOperator &&
        tokens.ahead().text == "=") {
      std::string name = tokens.next().text;
      tokens.next();
      ExpressionPtr value = parse_expression(tokens);
      call.depth = std::max(call.depth, value->depth + 1);
      if (call.depth > kDeepestTree) syntax_fault("too many things in each other");
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.named.empty()) syntax_fault("an argument without a name behind one with a name");
      adopt(call, parse_expression(tokens));
    }
  }
  tokens.expect_operator(")");
}

ExpressionPtr parse_call(Tokens& tokens, ExpressionPtr what, int line) {
  ExpressionPtr call = make_one(ExpressionKind::kCall, line, std::move(what));
  parse_arguments(tokens, *call);
  return call;
}

ExpressionPtr parse_postfix(Tokens& tokens, ExpressionPtr value) {
  for (;;) {
    const int line = tokens.line();
    if (tokens.take_operator(".")) {
      if (tokens.now().kind == TokenKind::kInteger) {
        value = make_two(ExpressionKind::kItem, line, std::move(value), constant(number_constant(tokens.next()), line));
      } else {
        value = make_one(ExpressionKind::kAttribute, line, std::move(value), tokens.name());
      }
    } else if (tokens.take_operator("[")) {
      value = parse_brackets(tokens, std::move(value), line);
    } else if (tokens.take_operator("(")) {
      value = parse_call(tokens, std::move(value), line);
    } else {
      return value;
    }
  }
}

// What is behind a test without parentheses: "x is divisibleby 3".
bool begins_argument(const Token& token) {
  constexpr std::array<std::string_view, 3> kGoOn = {"else", "or", "and"};
  switch (token.kind) {
    case TokenKind::kName:
      return std::ranges::find(kGoOn, token.text) == kGoOn.end();
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kNumber:
      return true;
    case TokenKind::kOperator:
      return token.text == "(" || token.text == "[" || token.text == "{";
    default:
      return false;
  }
}

ExpressionPtr parse_test(Tokens& tokens, ExpressionPtr value) {
  const int line = tokens.line();
  const bool negated = tokens.take_name("not");
  std::string name = tokens.name();
  check_test_name(name);
  ExpressionPtr test = make_one(ExpressionKind::kTest, line, std::move(value), std::move(name));
  if (tokens.take_operator("(")) {
    parse_arguments(tokens, *test);
  } else if (begins_argument(tokens.now())) {
    if (tokens.is_name("is")) syntax_fault("'is' behind 'is'");
    ExpressionPtr argument = parse_primary(tokens);
    adopt(*test, parse_postfix(tokens, std::move(argument)));
  }
  return negated ? make_one(ExpressionKind::kNot, line, std::move(test)) : std::move(test);
}

// Filters, tests and calls behind a value.
ExpressionPtr parse_behind(Tokens& tokens, ExpressionPtr value) {
  for (;;) {
    const int line = tokens.line();
    if (tokens.take_operator("|")) {
      value = parse_filter(tokens, std::move(value));
    } else if (tokens.take_name("is")) {
      value = parse_test(tokens, std::move(value));
    } else if (tokens.take_operator("(")) {
      value = parse_call(tokens, std::move(value), line);
    } else {
      return value;
    }
  }
}

ExpressionPtr parse_unary(Tokens& tokens, bool filters) {
  const Tokens::Deeper deeper(tokens);
  const int line = tokens.line();
  ExpressionPtr value;
  if (tokens.is_operator("-") || tokens.is_operator("+")) {
    std::string sign = tokens.next().text;
    value = make_one(ExpressionKind::kSign, line, parse_unary(tokens, false), std::move(sign));
  } else {
    value = parse_primary(tokens);
  }
  value = parse_postfix(tokens, std::move(value));
  return filters ? parse_behind(tokens, std::move(value)) : std::move(value);
}

// Powers are taken from the left, and a sign binds more than they do.
ExpressionPtr parse_power(Tokens& tokens) {
  ExpressionPtr left = parse_unary(tokens);
  for (int line = tokens.line(); tokens.take_operator("**"); line = tokens.line())
    left = make_two(ExpressionKind::kBinary, line, std::move(left), parse_unary(tokens), "**");
  return left;
}

ExpressionPtr parse_product(Tokens& tokens) {
  ExpressionPtr left = parse_power(tokens);
  for (;;) {
    const int line = tokens.line();
    if (!tokens.is_operator("*") && !tokens.is_operator("/") && !tokens.is_operator("//") && !tokens.is_operator("%"))
      return left;
    std::string name = tokens.next().text;
    left = make_two(ExpressionKind::kBinary, line, std::move(left), parse_power(tokens), std::move(name));
  }
}

ExpressionPtr parse_concat(Tokens& tokens) {
  ExpressionPtr first = parse_product(tokens);
  if (!tokens.is_operator("~")) return first;
  ExpressionPtr concat = make_one(ExpressionKind::kConcat, tokens.line(), std::move(first));
  while (tokens.take_operator("~")) adopt(*concat, parse_product(tokens));
  return concat;
}

ExpressionPtr parse_sum(Tokens& tokens) {
  ExpressionPtr left = parse_concat(tokens);
  while (tokens.is_operator("+") || tokens.is_operator("-")) {
    const int line = tokens.line();
    std::string name = tokens.next().text;
    left = make_two(ExpressionKind::kBinary, line, std::move(left), parse_concat(tokens), std::move(name));
  }
  return left;
}

// "<", "in", "not in" and so on, if one comes now; else "".
std::string take_comparison(Tokens& tokens) {
  constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  for (const std::string_view word : kOperators)
    if (tokens.take_operator(word)) return std::string(word);
  if (tokens.take_name("in")) return "in";
  if (!tokens.is_name("not") || tokens.ahead().kind != TokenKind::kName || tokens.ahead().text != "in") return "";
  tokens.next();
  tokens.next();
  return "not in";
}

ExpressionPtr parse_comparison(Tokens& tokens) {
  ExpressionPtr first = parse_sum(tokens);
  const int line = tokens.line();
  ExpressionPtr compare;
  for (std::string word; !(word = take_comparison(tokens)).empty();) {
    if (!compare) compare = make_one(ExpressionKind::kCompare, line, std::move(first));
    compare->words.push_back(word);
    adopt(*compare, parse_sum(tokens));
  }
  return compare ? std::move(compare) : std::move(first);
}

ExpressionPtr parse_not(Tokens& tokens) {
  const Tokens::Deeper deeper(tokens);
  const int line = tokens.line();
  if (tokens.take_name("not")) return make_one(ExpressionKind::kNot, line, parse_not(tokens));
  return parse_comparison(tokens);
}

ExpressionPtr parse_and(Tokens& tokens) {
  ExpressionPtr left = parse_not(tokens);
  for (int line = tokens.line(); tokens.take_name("and"); line = tokens.line())
    left = make_two(ExpressionKind::kAnd, line, std::move(left), parse_not(tokens));
  return left;
}

ExpressionPtr parse_or(Tokens& tokens) {
  ExpressionPtr left = parse_and(tokens);
  for (int line = tokens.line(); tokens.take_name("or"); line = tokens.line())
    left = make_two(ExpressionKind::kOr, line, std::move(left), parse_and(tokens));
  return left;
}

bool ends_tuple(const Tokens& tokens) {
  return tokens.now().kind == TokenKind::kVariableEnd || tokens.now().kind == TokenKind::kBlockEnd ||
         tokens.is_operator(")");
}

}  // namespace

void syntax_fault(std::string message) {
  throw Fault{std::move(message), ErrorKind::kCorrupt};
}

void Tokens::unexpected(std::string_view wanted) const {
  const Token& token = now();
  switch (token.kind) {
    case TokenKind::kBlockEnd:
    case TokenKind::kVariableEnd:
      syntax_fault(fmt::format("expected {}, got the end of the tag", wanted));
    case TokenKind::kEnd:
      syntax_fault(fmt::format("expected {}, got the end of the template", wanted));
    default:
      syntax_fault(fmt::format("expected {}, got '{}'", wanted, token.text));
  }
}

ExpressionPtr parse_expression(Tokens& tokens, bool condition) {
  const Tokens::Deeper deeper(tokens);
  ExpressionPtr value = parse_or(tokens);
  for (int line = tokens.line(); condition && tokens.take_name("if"); line = tokens.line()) {
    ExpressionPtr choice = make_two(ExpressionKind::kIf, line, parse_or(tokens), std::move(value));
    adopt(*choice, tokens.take_name("else") ? parse_expression(tokens) : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExpressionPtr parse_tuple(Tokens& tokens, bool condition) {
  const int line = tokens.line();
  ExpressionPtr first = parse_expression(tokens, condition);
  if (!tokens.is_operator(",")) return first;
  ExpressionPtr tuple = make_one(ExpressionKind::kTuple, line, std::move(first));
  while (tokens.take_operator(",") && !ends_tuple(tokens)) adopt(*tuple, parse_expression(tokens, condition));
  return tuple;
}

ExpressionPtr parse_filter(Tokens& tokens, ExpressionPtr value) {
  const int line = tokens.line();
  std::string name = tokens.name();
  check_filter_name(name);
  ExpressionPtr filter = make_one(ExpressionKind::kFilter, line, std::move(value), std::move(name));
  if (tokens.take_operator("(")) parse_arguments(tokens, *filter);
  return filter;
}

ExpressionPtr parse_filters(Tokens& tokens, ExpressionPtr value) {
  while (tokens.take_operator("|")) value = parse_filter(tokens, std::move(value));
  return value;
}

}  // namespace mlx::infer::jinja
