// A parsed template. Made by parser.cpp, run by run.cpp. Used by template.cpp.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infer/jinja/template.h"
#include "infer/jinja/value.h"

namespace mlx::infer::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind : std::uint8_t {
    kConstant,   // value
    kName,       // name
    kList,       // parts
    kTuple,      // parts
    kDict,       // parts: key, value, key, value …
    kAttribute,  // parts: of what; name
    kItem,       // parts: of what, which
    kSlice,      // parts: of what, start, stop, step
    kCall,       // parts: what, arguments …; named
    kFilter,     // name; parts: of what (null in a block's filter), arguments …; named
    kTest,       // name; parts: of what, arguments …
    kNot,        // parts
    kSign,       // name: "-" or "+"; parts
    kAnd,        // parts: two
    kOr,         // parts: two
    kBinary,     // name: the operator; parts: two
    kCompare,    // parts: two and more; words: the operators between them
    kConcat,     // parts
    kIf,         // parts: condition, then, otherwise (may be null)
  };
  Kind kind{};
  int line = 0, depth = 1;
  std::string name{};
  Value value{};
  std::vector<ExpressionPtr> parts{};
  std::vector<std::pair<std::string, ExpressionPtr>> named{};
  std::vector<std::string> words{};
};

struct Statement;
using Body = std::vector<Statement>;

// What gets a value: names, or a value of a namespace.
struct Target {
  std::vector<std::string> names;
  bool tuple = false;
  std::string space;  // "ns" of ns.name
};

struct Parameter {
  std::string name;
  ExpressionPtr otherwise;  // may be null
};

struct Macro {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
};

struct Statement {
  enum class Kind : std::uint8_t {
    kData,
    kOutput,
    kFor,
    kIf,
    kSet,
    kSetBlock,
    kFilterBlock,
    kWith,
    kMacro,
    kBlock,
    kBreak,
    kContinue
  };
  Kind kind{};
  int line = 0;
  std::string text{};                   // of kData
  std::vector<ExpressionPtr> values{};  // kOutput: one; kSet: one; kSetBlock, kFilterBlock: filters; kFor: over what;
                                        // kWith: one for each of the target's names
  ExpressionPtr condition{};            // kFor: which members; may be null
  Target target{};                      // kFor, kSet, kSetBlock, kWith
  Body body{}, otherwise{};             // kFor, kIf (else), kSetBlock, kFilterBlock, kWith, kBlock
  std::vector<std::pair<ExpressionPtr, Body>> branches{};  // kIf
  std::unique_ptr<Macro> macro{};
};

// Throws Fault; `line` is then the line of the fault.
Body parse(std::string_view source, int& line);
// The same, of what the template writes.
std::string run(const Body& body, const Json& variables, const std::tm& now, const Limits& limits, int& line);

}  // namespace mlx::infer::jinja
