// Statements: text, {{ … }} and {% … %}.
#include "infer/jinja/parser.h"

#include <algorithm>
#include <array>

namespace mlx::infer::jinja {
namespace {

using StatementKind = Statement::Kind;
using Words = std::vector<std::string_view>;

// Of a loop or macro: what may stand in it.
struct Surroundings {
  bool loop = false;    // {% break %}
  bool inside = false;  // no macro
};

class Parser {
 public:
  explicit Parser(Tokens& tokens) : tokens_(tokens) {}

  // Up to a tag that begins with one of `ends`, whose name is then the next token; without: up to the end.
  Body body(const Words& ends, Surroundings around) {
    const Tokens::Deeper deeper(tokens_);
    Body out;
    for (;;) {
      const Token token = tokens_.now();
      switch (token.kind) {
        case Token::Kind::kData:
          out.push_back({.kind = StatementKind::kData, .line = token.line, .text = token.text});
          tokens_.next();
          break;
        case Token::Kind::kVariableBegin:
          out.push_back(output());
          break;
        case Token::Kind::kBlockBegin:
          tokens_.next();
          if (std::ranges::any_of(ends, [this](std::string_view word) { return tokens_.is_name(word); })) return out;
          out.push_back(statement(around));
          break;
        default:
          if (!ends.empty()) tokens_.unexpected(fmt::format("{{% {} %}}", ends.back()));
          return out;
      }
    }
  }

 private:
  Statement output() {
    Statement out{.kind = StatementKind::kOutput, .line = tokens_.line()};
    tokens_.next();
    out.values.push_back(parse_tuple(tokens_));
    if (tokens_.now().kind != Token::Kind::kVariableEnd) tokens_.unexpected("'}}'");
    tokens_.next();
    return out;
  }

  void end_tag() {
    if (tokens_.now().kind != Token::Kind::kBlockEnd) tokens_.unexpected("'%}'");
    tokens_.next();
  }

  void end_tag(std::string_view name) {
    if (!tokens_.take_name(name)) tokens_.unexpected(name);
    end_tag();
  }

  Statement statement(Surroundings around) {
    const int line = tokens_.line();
    const std::string name = tokens_.name();
    Statement out{.kind = StatementKind::kBlock, .line = line};
    if (name == "for") {
      parse_for(out);
    } else if (name == "if") {
      parse_if(out, around);
    } else if (name == "set") {
      parse_set(out);
    } else if (name == "macro") {
      if (around.inside) unsupported("a macro in a loop or in another macro");
      parse_macro(out);
    } else if (name == "filter") {
      parse_filter_block(out);
    } else if (name == "with") {
      parse_with(out, around);
    } else if (name == "generation") {  // marks what a model says, in training
      end_tag();
      out.body = body({"endgeneration"}, {false, true});
      end_tag("endgeneration");
    } else if (name == "break" || name == "continue") {
      if (!around.loop) syntax_fault(fmt::format("'{}' outside of a loop", name));
      out.kind = name == "break" ? StatementKind::kBreak : StatementKind::kContinue;
      end_tag();
    } else {
      refuse(name);
    }
    return out;
  }

  [[noreturn]] static void refuse(const std::string& name) {
    constexpr std::array<std::string_view, 11> kKnown = {
        "autoescape", "block", "call", "do", "extends", "from", "import", "include", "trans", "pluralize", "debug"};
    if (std::ranges::find(kKnown, name) != kKnown.end()) unsupported(fmt::format("the statement '{}'", name));
    syntax_fault(fmt::format("unknown statement '{}'", name));
  }

  Target target(bool spaces) {
    Target out;
    do {
      if (tokens_.is_operator("(")) unsupported("names in parentheses on the left side");
      if (out.tuple && !out.names.empty() && tokens_.now().kind != Token::Kind::kName) break;
      std::string name = tokens_.name();
      if (name == "loop") unsupported("the name 'loop' for a value");
      if (spaces && out.names.empty() && tokens_.take_operator(".")) {
        out.space = std::move(name);
        out.names.push_back(tokens_.name());
        if (tokens_.is_operator(",")) unsupported("values of a namespace beside others on the left side");
        return out;
      }
      out.names.push_back(std::move(name));
      if (tokens_.is_operator(",")) out.tuple = true;
    } while (tokens_.take_operator(","));
    return out;
  }

  void parse_for(Statement& out) {
    out.kind = StatementKind::kFor;
    out.target = target(false);
    if (!tokens_.take_name("in")) tokens_.unexpected("'in'");
    out.values.push_back(parse_tuple(tokens_, false));
    if (tokens_.take_name("if")) out.condition = parse_expression(tokens_);
    if (tokens_.is_name("recursive")) unsupported("a recursive loop");
    end_tag();
    out.body = body({"else", "endfor"}, {true, true});
    if (tokens_.take_name("else")) {
      end_tag();
      out.otherwise = body({"endfor"}, {false, true});
    }
    end_tag("endfor");
  }

  void parse_if(Statement& out, Surroundings around) {
    out.kind = StatementKind::kIf;
    do {
      ExpressionPtr condition = parse_tuple(tokens_, false);
      end_tag();
      Body then = body({"elif", "else", "endif"}, around);
      out.branches.emplace_back(std::move(condition), std::move(then));
    } while (tokens_.take_name("elif"));
    if (tokens_.take_name("else")) {
      end_tag();
      out.otherwise = body({"endif"}, around);
    }
    end_tag("endif");
  }

  void parse_set(Statement& out) {
    out.target = target(true);
    if (tokens_.take_operator("=")) {
      out.kind = StatementKind::kSet;
      out.values.push_back(parse_tuple(tokens_));
      return end_tag();
    }
    out.kind = StatementKind::kSetBlock;
    if (out.target.tuple) syntax_fault("a block is one value");
    out.values.push_back(parse_filters(tokens_, nullptr));
    end_tag();
    out.body = body({"endset"}, {false, true});
    end_tag("endset");
  }

  void parse_filter_block(Statement& out) {
    out.kind = StatementKind::kFilterBlock;
    out.values.push_back(parse_filters(tokens_, parse_filter(tokens_, nullptr)));
    end_tag();
    out.body = body({"endfilter"}, {false, true});
    end_tag("endfilter");
  }

  void parse_with(Statement& out, Surroundings around) {
    out.kind = StatementKind::kWith;
    while (tokens_.now().kind != Token::Kind::kBlockEnd) {
      if (!out.values.empty()) tokens_.expect_operator(",");
      Target one = target(false);
      if (one.tuple) unsupported("several names for one value of 'with'");
      out.target.names.push_back(std::move(one.names[0]));
      tokens_.expect_operator("=");
      out.values.push_back(parse_expression(tokens_));
    }
    end_tag();
    around.inside = true;
    out.body = body({"endwith"}, around);
    end_tag("endwith");
  }

  void parse_macro(Statement& out) {
    out.kind = StatementKind::kMacro;
    out.macro = std::make_unique<Macro>();
    out.macro->name = tokens_.name();
    tokens_.expect_operator("(");
    auto& parameters = out.macro->parameters;
    while (!tokens_.is_operator(")")) {
      if (!parameters.empty()) tokens_.expect_operator(",");
      Parameter parameter{tokens_.name(), nullptr};
      if (tokens_.take_operator("=")) {
        parameter.otherwise = parse_expression(tokens_);
      } else if (!parameters.empty() && parameters.back().otherwise) {
        syntax_fault(fmt::format("the macro's argument '{}' has no default, the one before has", parameter.name));
      }
      parameters.push_back(std::move(parameter));
    }
    tokens_.expect_operator(")");
    end_tag();
    out.macro->body = body({"endmacro"}, {false, true});
    end_tag("endmacro");
  }

  Tokens& tokens_;
};

}  // namespace

Body parse(std::string_view source, int& line) {
  Tokens tokens(tokens_of(source, line), line);
  return Parser(tokens).body({}, {});
}

}  // namespace mlx::infer::jinja
