// Runs a parsed template: statements write to a text, expressions have values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "base/json.h"
#include "infer/jinja/builtins.h"
#include "infer/jinja/operators.h"
#include "infer/jinja/template.h"
#include "infer/jinja/text.h"
#include "infer/jinja/tree.h"

namespace mlx::infer::jinja {
namespace {

constexpr int kDeepestRun = 400;

// Where a loop stands.
struct Loop {
  const std::vector<Value>& members;
  std::size_t at = 0;
  mutable std::optional<std::vector<Value>> seen{};  // what loop.changed was asked last
};

struct Scope {
  const Scope* outer = nullptr;
  const Loop* loop = nullptr;
  std::unordered_map<std::string_view, Value> values{};  // names are of the template
};

enum class Flow : std::uint8_t { kOn, kBreak, kContinue };

class Run {
 public:
  Run(const Limits& limits, const std::tm& now, int& line)
      : budget_(limits.steps, limits.bytes), limits_(limits), now_(now), line_(line) {}

  std::string run(const Body& body, const Json& variables) {
    for (const auto& [name, value] : variables.items()) top_.values[name] = jinja::value_of(value, budget_);
    std::string out;
    (void)execute(body, top_, out);
    return out;
  }

 private:
  class Deeper {
   public:
    explicit Deeper(int& depth) : depth_(depth) {
      if (++depth_ > kDeepestRun) fault("too many things in each other, or a macro that calls itself");
    }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int& depth_;
  };

  // Statements.
  Flow execute(const Body& body, Scope& scope, std::string& out) {
    const Deeper deeper(depth_);
    for (const Statement& statement : body) {
      const Flow flow = execute(statement, scope, out);
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Flow execute(const Statement& statement, Scope& scope, std::string& out) {
    budget_.steps();
    line_ = statement.line;
    switch (statement.kind) {
      case Statement::Kind::kData:
        write(statement.text, out);
        break;
      case Statement::Kind::kOutput:
        write(text_of(value_of(*statement.values[0], scope), budget_), out);
        break;
      case Statement::Kind::kFor:
        run_loop(statement, scope, out);
        break;
      case Statement::Kind::kIf:
        return run_branch(statement, scope, out);
      case Statement::Kind::kSet:
        assign(statement.target, value_of(*statement.values[0], scope), scope);
        break;
      case Statement::Kind::kSetBlock:
        assign(statement.target, block_value(statement, scope), scope);
        break;
      case Statement::Kind::kFilterBlock:
        write(filtered_block(statement, scope), out);
        break;
      case Statement::Kind::kWith:
        return run_with(statement, scope, out);
      case Statement::Kind::kMacro:
        scope.values[statement.macro->name] = {static_cast<const Macro*>(statement.macro.get())};
        break;
      case Statement::Kind::kBlock: {
        Scope inner{&scope};
        return execute(statement.body, inner, out);
      }
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  void write(std::string_view text, std::string& out) {
    budget_.bytes(text.size());
    if (out.size() + text.size() > limits_.output) fault("the template makes too much text");
    out += text;
  }

  Flow run_branch(const Statement& statement, Scope& scope, std::string& out) {
    for (const auto& [condition, body] : statement.branches)
      if (truth(value_of(*condition, scope))) return execute(body, scope, out);
    return execute(statement.otherwise, scope, out);
  }

  // No value sees the names of the others.
  Flow run_with(const Statement& statement, Scope& scope, std::string& out) {
    Scope inner{&scope};
    for (std::size_t i = 0; i < statement.values.size(); ++i)
      inner.values[statement.target.names[i]] = value_of(*statement.values[i], scope);
    return execute(statement.body, inner, out);
  }

  void run_loop(const Statement& statement, Scope& scope, std::string& out) {
    std::vector<Value> all = members(value_of(*statement.values[0], scope), budget_);
    if (statement.condition) {
      std::vector<Value> kept;
      for (Value& member : all) {
        Scope asked{&scope};
        assign(statement.target, member, asked);
        if (truth(value_of(*statement.condition, asked))) kept.push_back(std::move(member));
      }
      all = std::move(kept);
    }
    Loop loop{all};
    for (; loop.at < all.size(); ++loop.at) {
      budget_.steps();
      Scope inner{&scope, &loop};
      assign(statement.target, all[loop.at], inner);
      if (execute(statement.body, inner, out) == Flow::kBreak) break;
    }
    if (!all.empty()) return;
    Scope inner{&scope};
    (void)execute(statement.otherwise, inner, out);
  }

  void assign(const Target& target, Value value, Scope& scope) {
    if (!target.tuple && value.is_list() && value.list().kind == ListKind::kOnce) need_list(value);
    if (!target.space.empty()) {
      const Value* const space = find(target.space, scope);
      if (!space || !space->is<Namespace*>()) fault(fmt::format("'{}' is no namespace", target.space));
      std::get<Namespace*>(space->held)->values[target.names[0]] = std::move(value);
    } else if (!target.tuple) {
      scope.values[target.names[0]] = std::move(value);
    } else {
      const std::vector<Value> parts = members(value, budget_);
      if (parts.size() != target.names.size())
        fault(fmt::format("{} names for {} values", target.names.size(), parts.size()));
      for (std::size_t i = 0; i < parts.size(); ++i) scope.values[target.names[i]] = parts[i];
    }
  }

  Value block_value(const Statement& statement, Scope& scope) {
    std::string text;
    Scope inner{&scope};
    (void)execute(statement.body, inner, text);
    block_ = string_value(std::move(text), budget_);
    return statement.values[0] ? value_of(*statement.values[0], scope) : block_;
  }

  std::string filtered_block(const Statement& statement, Scope& scope) {
    const Value made = block_value(statement, scope);
    if (!made.is_string()) fault(fmt::format("the filters of a block make {}, not text", type_name(made)));
    return made.string();
  }

  // Expressions.
  static const Value* find(std::string_view name, const Scope& scope) {
    for (const Scope* at = &scope; at; at = at->outer)
      if (const auto found = at->values.find(name); found != at->values.end()) return &found->second;
    return nullptr;
  }

  // The loop that `loop` means here, unless it is the name of something else.
  static const Loop* loop_here(const Expression& name, const Scope& scope) {
    if (name.kind != Expression::Kind::kName || name.name != "loop" || find("loop", scope)) return nullptr;
    for (const Scope* at = &scope; at; at = at->outer)
      if (at->loop) return at->loop;
    return nullptr;
  }

  Value value_of(const Expression& expression, const Scope& scope) {
    const Deeper deeper(depth_);
    budget_.steps();
    line_ = expression.line;
    const auto& parts = expression.parts;
    switch (expression.kind) {
      case Expression::Kind::kConstant:
        return expression.value;
      case Expression::Kind::kName:
        return named(expression, scope);
      case Expression::Kind::kList:
      case Expression::Kind::kTuple:
        return list_value(values_of(parts, 0, scope),
                          expression.kind == Expression::Kind::kTuple ? ListKind::kTuple : ListKind::kList, budget_);
      case Expression::Kind::kDict:
        return dict_of(parts, scope);
      case Expression::Kind::kAttribute:
        if (const Loop* const loop = loop_here(*parts[0], scope)) return loop_value(*loop, expression.name);
        return attribute(expression, scope);
      case Expression::Kind::kItem: {
        const Value of = value_of(*parts[0], scope);
        return item_named(of, value_of(*parts[1], scope), budget_);
      }
      case Expression::Kind::kSlice: {
        const std::vector<Value> all = values_of(parts, 0, scope);
        need_defined(all[0]);
        return slice(all[0], all[1], all[2], all[3], budget_);
      }
      case Expression::Kind::kCall:
        return call(expression, scope);
      case Expression::Kind::kFilter: {
        const Value of = parts[0] ? value_of(*parts[0], scope) : block_;
        return apply_filter(expression.name, of, arguments_of(expression, scope), budget_);
      }
      case Expression::Kind::kTest:
        return test(expression, scope);
      case Expression::Kind::kNot:
        return {!truth(value_of(*parts[0], scope))};
      case Expression::Kind::kSign:
        return signed_value(expression.name, value_of(*parts[0], scope));
      case Expression::Kind::kAnd:
      case Expression::Kind::kOr: {
        Value left = value_of(*parts[0], scope);
        return truth(left) == (expression.kind == Expression::Kind::kAnd) ? value_of(*parts[1], scope) : left;
      }
      case Expression::Kind::kBinary: {
        const Value left = value_of(*parts[0], scope);
        return calculate(expression.name, left, value_of(*parts[1], scope), budget_);
      }
      case Expression::Kind::kCompare:
        return {compare(expression, scope)};
      case Expression::Kind::kConcat:
        return concat(parts, scope);
      case Expression::Kind::kIf:
        if (truth(value_of(*parts[0], scope))) return value_of(*parts[1], scope);
        return parts[2] ? value_of(*parts[2], scope) : Value{};
    }
    return {};
  }

  std::vector<Value> values_of(const std::vector<ExpressionPtr>& parts, std::size_t from, const Scope& scope) {
    std::vector<Value> out;
    for (std::size_t i = from; i < parts.size(); ++i) out.push_back(value_of(*parts[i], scope));
    return out;
  }

  static Value named(const Expression& expression, const Scope& scope) {
    if (const Value* const found = find(expression.name, scope)) return *found;
    if (loop_here(expression, scope)) unsupported("'loop' as a value, without what is asked of it,");
    constexpr std::array<std::pair<std::string_view, Function>, 5> kFunctions = {{{"range", Function::kRange},
                                                                                  {"namespace", Function::kNamespace},
                                                                                  {"dict", Function::kDict},
                                                                                  {"raise_exception", Function::kRaise},
                                                                                  {"strftime_now", Function::kTime}}};
    for (const auto& [name, function] : kFunctions)
      if (expression.name == name) return {function};
    for (const std::string_view name : {"lipsum", "cycler", "joiner"})
      if (expression.name == name) unsupported(fmt::format("the function '{}'", name));
    return {Undefined{&expression.name}};
  }

  Value attribute(const Expression& expression, const Scope& scope) {
    Value found = attribute_of(value_of(*expression.parts[0], scope), expression.name);
    if (found.is<Undefined>()) return {Undefined{&expression.name}};
    return found;
  }

  Value loop_value(const Loop& loop, const std::string& name) {
    const auto at = static_cast<std::int64_t>(loop.at), size = static_cast<std::int64_t>(loop.members.size());
    if (name == "index") return {at + 1};
    if (name == "index0") return {at};
    if (name == "revindex") return {size - at};
    if (name == "revindex0") return {size - at - 1};
    if (name == "first") return {at == 0};
    if (name == "last") return {at + 1 == size};
    if (name == "length") return {size};
    if (name == "depth") return {std::int64_t{1}};  // of loops that call themselves
    if (name == "depth0") return {std::int64_t{0}};
    if (name == "previtem") return at > 0 ? loop.members[loop.at - 1] : Value{};
    if (name == "nextitem") return at + 1 < size ? loop.members[loop.at + 1] : Value{};
    if (name == "cycle" || name == "changed") unsupported(fmt::format("loop.{} without a call", name));
    return {};
  }

  Value call_of_loop(const Loop& loop, const std::string& name, Arguments arguments) {
    if (!arguments.named.empty()) fault(fmt::format("loop.{} takes no names", name));
    std::vector<Value>& given = arguments.values;
    if (name == "cycle") {
      if (given.empty()) fault("loop.cycle: nothing to take");
      return given[loop.at % given.size()];
    }
    bool same = loop.seen && loop.seen->size() == given.size();
    for (std::size_t i = 0; same && i < given.size(); ++i) same = equal((*loop.seen)[i], given[i], budget_);
    loop.seen = std::move(given);
    return {!same};
  }

  Value dict_of(const std::vector<ExpressionPtr>& parts, const Scope& scope) {
    std::vector<std::pair<Value, Value>> items;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      Value key = value_of(*parts[i], scope);
      items.emplace_back(std::move(key), value_of(*parts[i + 1], scope));
    }
    return dict_value(items, budget_);
  }

  Value concat(const std::vector<ExpressionPtr>& parts, const Scope& scope) {
    std::string text;
    for (const ExpressionPtr& part : parts) text += text_of(value_of(*part, scope), budget_);
    return string_value(std::move(text), budget_);
  }

  bool compare(const Expression& expression, const Scope& scope) {
    Value left = value_of(*expression.parts[0], scope);
    for (std::size_t i = 0; i < expression.words.size(); ++i) {
      Value right = value_of(*expression.parts[i + 1], scope);
      if (!holds(expression.words[i], left, right)) return false;
      left = std::move(right);
    }
    return true;
  }

  bool holds(std::string_view word, const Value& left, const Value& right) {
    if (word == "==") return equal(left, right, budget_);
    if (word == "!=") return !equal(left, right, budget_);
    if (word == "<") return less(left, right, budget_);
    if (word == ">") return less(right, left, budget_);
    if (word == "<=") return less(left, right, budget_) || equal(left, right, budget_);
    if (word == ">=") return less(right, left, budget_) || equal(left, right, budget_);
    return contains(right, left, budget_) == (word == "in");
  }

  Arguments arguments_of(const Expression& expression, const Scope& scope) {
    Arguments out{values_of(expression.parts, 1, scope)};
    for (const auto& [name, value] : expression.named) out.named.emplace_back(name, value_of(*value, scope));
    return out;
  }

  // `loop is defined` too, which is no value.
  Value test(const Expression& expression, const Scope& scope) {
    const bool loop = loop_here(*expression.parts[0], scope) != nullptr;
    if (loop && (expression.name == "defined" || expression.name == "undefined")) return {expression.name == "defined"};
    const Value of = value_of(*expression.parts[0], scope);
    return {apply_test(expression.name, of, arguments_of(expression, scope), budget_)};
  }

  Value call(const Expression& expression, const Scope& scope) {
    const Expression& what = *expression.parts[0];
    const int line = expression.line;
    const Loop* const loop = what.kind == Expression::Kind::kAttribute ? loop_here(*what.parts[0], scope) : nullptr;
    if (loop && (what.name == "cycle" || what.name == "changed"))
      return call_of_loop(*loop, what.name, arguments_of(expression, scope));
    if (what.kind == Expression::Kind::kAttribute && !loop) {
      const Value of = value_of(*what.parts[0], scope);
      if (has_method(of, what.name)) {
        const Arguments arguments = arguments_of(expression, scope);
        line_ = line;
        return call_method(of, what.name, arguments, budget_);
      }
      return call_value(attribute_of(of, what.name), what.name, arguments_of(expression, scope));
    }
    const Value called = value_of(what, scope);
    const Arguments arguments = arguments_of(expression, scope);
    line_ = line;
    return call_value(called, what.name, arguments);
  }

  Value call_value(const Value& called, const std::string& name, const Arguments& arguments) {
    if (called.is<const Macro*>()) return call_macro(*std::get<const Macro*>(called.held), arguments);
    if (!called.is<Function>()) {
      fault(called.is<Undefined>() ? fmt::format("'{}' is undefined", name)
                                   : fmt::format("{} cannot be called", type_name(called)));
    }
    switch (std::get<Function>(called.held)) {
      case Function::kRange:
        return range_of(arguments, budget_);
      case Function::kNamespace:
        spaces_.push_back(std::make_unique<Namespace>());
        for (const auto& [key, value] : named_values(arguments)) spaces_.back()->values[key.string()] = value;
        return {spaces_.back().get()};
      case Function::kDict:
        return dict_value(named_values(arguments), budget_);
      case Function::kRaise: {
        const GivenArguments given("raise_exception", arguments, {"message"});
        fault(text_of(given.needed(0), budget_));
      }
      case Function::kTime:
        return time_text(arguments, now_, budget_);
    }
    return {};
  }

  // Of namespace() and dict(): those of a dict, then those with names.
  std::vector<std::pair<Value, Value>> named_values(const Arguments& arguments) {
    std::vector<std::pair<Value, Value>> out;
    if (arguments.values.size() > 1) fault("at most one argument without a name");
    for (const Value& value : arguments.values) {
      if (!value.is_dict() || value.dict().names.size() != value.dict().items.size())
        unsupported("a namespace or dict of other things than names");
      budget_.steps(value.dict().items.size());
      out = value.dict().items;
    }
    for (const auto& [name, value] : arguments.named) out.emplace_back(string_value(name, budget_), value);
    return out;
  }

  Value call_macro(const Macro& macro, const Arguments& arguments) {
    const Deeper deeper(depth_);
    const int line = line_;
    if (arguments.values.size() > macro.parameters.size())
      fault(fmt::format("the macro '{}' takes {} arguments, got {}", macro.name, macro.parameters.size(),
                        arguments.values.size()));
    Scope scope{&top_};
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const Parameter& parameter = macro.parameters[i];
      const auto given = std::ranges::find(arguments.named, parameter.name, &std::pair<std::string, Value>::first);
      if (i < arguments.values.size()) {
        scope.values[parameter.name] = arguments.values[i];
      } else if (given != arguments.named.end()) {
        scope.values[parameter.name] = given->second;
      } else {
        scope.values[parameter.name] =
            parameter.otherwise ? value_of(*parameter.otherwise, scope) : Value{Undefined{&parameter.name}};
      }
    }
    for (const auto& [name, value] : arguments.named)
      if (std::ranges::find(macro.parameters, name, &Parameter::name) == macro.parameters.end())
        fault(fmt::format("the macro '{}' has no argument '{}'", macro.name, name));
    std::string text;
    (void)execute(macro.body, scope, text);
    line_ = line;
    return string_value(std::move(text), budget_);
  }

  Budget budget_;
  const Limits& limits_;
  const std::tm& now_;
  int& line_;
  int depth_ = 0;
  Scope top_{};
  Value block_{};  // what the filters of a block begin with
  std::vector<std::unique_ptr<Namespace>> spaces_{};
};

}  // namespace

std::string run(const Body& body, const Json& variables, const std::tm& now, const Limits& limits, int& line) {
  return Run(limits, now, line).run(body, variables);
}

}  // namespace mlx::infer::jinja
