// Taking command lines apart: what stands where, values with odd shapes, and messages.
#include <doctest/doctest.h>

#include "base/error.h"
#include "cmd/cli/help.h"
#include "cmd/cli/invocation.h"

using namespace mlx;
using namespace mlx::cmd;

namespace {

struct Values {
  std::string text = "default", first, second;
  std::vector<std::string> many, rest;
  std::int64_t integer = 7;
  double number = 0.5;
  bool on = false;
};

Command sample(Values& values) {
  Command command;
  command.name = "sample";
  command.options = {
      argument("FIRST", values.first, "First"),
      optional_argument("SECOND", values.second, "Second"),
      arguments("REST", values.rest, "Rest", Complete::kNothing, false),
      option("-t,--text", "TEXT", values.text, "Text"),
      integer("-i,--integer", "N", values.integer, "Integer"),
      number("--number", "X", values.number, "Number"),
      flag("-o,--on", values.on, "On"),
      choice("--kind", "KIND", {"red", "green"}, values.text, "Kind"),
  };
  Option many = option("-m,--many", "X", values.text, "Many");
  many.text = nullptr;
  many.texts = &values.many;
  many.many = true;
  command.options.push_back(many);
  return command;
}

Values parsed(const std::vector<std::string>& words, Common* common = nullptr) {
  Values values;
  Common own;
  const Command command = sample(values);
  parse_options(command, "mlx sample", words, common ? *common : own);
  return values;
}

std::string message_of(const std::vector<std::string>& words) {
  try {
    parsed(words);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    return error.message;
  }
  return "no error";
}

}  // namespace

TEST_CASE("options and positionals in any order") {
  const Values v = parsed({"-o", "a", "-t", "x", "b", "--integer=-3", "c", "--number", "1e-3", "d"});
  CHECK(v.on);
  CHECK(v.first == "a");
  CHECK(v.second == "b");
  CHECK(v.rest == std::vector<std::string>{"c", "d"});
  CHECK(v.text == "x");
  CHECK(v.integer == -3);
  CHECK(v.number == doctest::Approx(1e-3));
}

TEST_CASE("what is not given keeps its default") {
  const Values v = parsed({"a"});
  CHECK(v.text == "default");
  CHECK(v.integer == 7);
  CHECK_FALSE(v.on);
}

TEST_CASE("values of odd shapes arrive as they are") {
  CHECK(parsed({"a", "--text="}).text.empty());
  CHECK(parsed({"a", "--text", ""}).text.empty());
  CHECK(parsed({"a", "--text=--x=y"}).text == "--x=y");
  CHECK(parsed({"a", "-t", "-x"}).text == "-x");
  CHECK(parsed({"a", "-tx"}).text == "x");
  CHECK(parsed({"a", "-t", "[1,2]"}).text == "[1,2]");
  CHECK(parsed({"[a,b]"}).first == "[a,b]");
  CHECK(parsed({"-"}).first == "-");
  CHECK(parsed({"--", "-t", "--", "x"}).first == "-t");
  CHECK(parsed({"--", "-t", "--", "x"}).second == "--");
  CHECK(parsed({"{}"}).first == "{}");
  CHECK(parsed({"a", "--many", "[x,y]", "--many=z"}).many == std::vector<std::string>{"[x,y]", "z"});
}

TEST_CASE("an option with one value takes one value, and its last") {
  const Values v = parsed({"-m", "1", "a", "b", "-m", "2", "-t", "x", "-t", "y"});
  CHECK(v.many == std::vector<std::string>{"1", "2"});
  CHECK(v.first == "a");
  CHECK(v.second == "b");
  CHECK(v.text == "y");
}

TEST_CASE("common options stand anywhere") {
  Common common;
  parsed({"--json", "a", "-q", "-C", "folder", "--color", "never"}, &common);
  CHECK(common.json);
  CHECK(common.quiet);
  CHECK(common.folder == "folder");
  CHECK(common.color == "never");
}

TEST_CASE("--help wins over what is missing") {
  Common common;
  parsed({"--help"}, &common);
  CHECK(common.help);
}

TEST_CASE("errors say what is wrong") {
  CHECK(message_of({}) == "sample: FIRST is missing");
  CHECK(message_of({"a", "--txt", "x"}) == "sample: unknown option '--txt'");
  CHECK(message_of({"a", "-x"}) == "sample: unknown option '-x'");
  CHECK(message_of({"a", "--text"}) == "sample: --text needs a value");
  CHECK(message_of({"a", "--on=1"}) == "sample: --on takes no value");
  CHECK(message_of({"a", "-i", "1.5"}) == "sample: --integer: expected an integer, got '1.5'");
  CHECK(message_of({"a", "-i", ""}) == "sample: --integer: expected an integer, got ''");
  CHECK(message_of({"a", "-i", "9223372036854775808"}) == "sample: --integer: 9223372036854775808 is out of range");
  CHECK(message_of({"a", "--number", "nan"}) == "sample: --number: expected a finite number, got 'nan'");
  CHECK(message_of({"a", "--kind", "blue"}) == "sample: --kind: expected one of red, green, got 'blue'");
}

TEST_CASE("the command is found behind options, and its subcommand") {
  const Invocation call = parse_command_line({"-C", "x", "remote", "-q", "add", "name", "--json", "url"});
  CHECK(call.title == "mlx remote add");
  CHECK(call.command.name == "add");
  CHECK(call.common.folder == "x");
  CHECK(call.common.quiet);
  CHECK(call.common.json);
  CHECK(call.needs == kNeedsRepo);
  CHECK(parse_command_line({}).command.name.empty());
  CHECK(parse_command_line({"--version"}).common.version);
  CHECK(parse_command_line({"remote"}).title == "mlx remote");
}

TEST_CASE("every command can be declared, described and completed") {
  for (const Command& command : all_commands()) {
    INFO(command.name);
    CHECK_FALSE(command.summary.empty());
    CHECK(command.summary.back() != '.');
    bool known = false;
    for (const auto& group : command_groups()) known |= group.first == command.group;
    CHECK(known);
    CHECK((command.run || !command.subcommands.empty()));
    bool rest = false;
    for (const Option& option : command.options) {
      INFO(option.names);
      CHECK_FALSE(option.help.empty());
      CHECK(option.help.back() != '.');
      const int targets = (option.flag != nullptr) + (option.text != nullptr) + (option.integer != nullptr) +
                          (option.number != nullptr) + (option.texts != nullptr);
      CHECK(targets == 1);
      CHECK_FALSE((is_positional(option) && rest));  // nothing can follow what takes the rest
      rest |= is_positional(option) && option.many;
    }
    Common common;
    CHECK_NOTHROW(parse_options(command, "mlx " + command.name, {"--help"}, common));
    CHECK(bash_completion().find("'" + command.name + "')") != std::string::npos);
    CHECK(man_page(command, "").find(".SH NAME") != std::string::npos);
  }
}
