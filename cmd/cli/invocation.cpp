// Finds the command that a command line names, so that only this one is built and parsed: startup stays in
// milliseconds.
#include "cmd/cli/invocation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/toml.h"

namespace mlx::cmd {
namespace {

Command root_command(Common& common) {
  Command root;
  root.json = false;
  root.options = {flag("--version", common.version, "Print the version")};
  return root;
}

// Moves the options before the next bare word from the front of `rest` to `options`.
void take_leading_options(std::vector<std::string>& rest, std::vector<std::string>& options) {
  std::size_t count = 0;
  while (count < rest.size() && rest[count].size() > 1 && rest[count][0] == '-' && rest[count] != "--") {
    const bool takes_value = rest[count] == "-C" || rest[count] == "--color";
    count = std::min(count + (takes_value ? 2 : 1), rest.size());
  }
  options.insert(options.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
  rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
}

[[noreturn]] void fail_unknown(const std::string& title, const std::string& word, const std::vector<std::string>& known,
                               const std::string& list) {
  std::string close = did_you_mean(word, known);
  // What other tools call it.
  if (word == "rm" && std::ranges::find(known, "remove") != known.end()) close = "remove";
  if (word == "ls" && std::ranges::find(known, "list") != known.end()) close = "list";
  throw Error(ErrorKind::kUsage, fmt::format("{}unknown command '{}'", message_start(title), word),
              close.empty() ? fmt::format("`{}` lists them", list)
                            : fmt::format("did you mean '{}'? `{}` lists all", close, list));
}

const CommandRow& find_row(const std::string& word, const std::vector<std::string>& options_before) {
  std::vector<std::string> known;
  for (const CommandRow& row : kCommands) {
    if (row.name == word) return row;
    known.emplace_back(row.name);
  }
  // Where an option before it is wrong, the word may be that option's value: the option is what to complain of.
  Common common;
  Command any = root_command(common);
  any.json = any.dry_run = true;
  parse_options(any, "mlx", options_before, common);
  fail_unknown("mlx", word, known, "mlx help");
}

// The subcommand that the next word names; the command itself if it runs without one.
bool descend(Command& command, std::string& title, std::vector<std::string>& rest) {
  if (rest.empty()) return false;
  std::vector<std::string> known;
  for (Command& sub : command.subcommands) {
    if (sub.name == rest.front()) {
      title += " " + sub.name;
      rest.erase(rest.begin());
      Command next = std::move(sub);
      next.group = command.group;
      command = std::move(next);
      return true;
    }
    known.push_back(sub.name);
  }
  fail_unknown(title, rest.front(), known, title + " --help");
}

}  // namespace

std::string message_start(const std::string& title) {
  return title == "mlx" ? "" : title.substr(4) + ": ";
}

bool is_positional(const Option& option) {
  return option.names.empty() || option.names[0] != '-';
}

std::vector<std::string> option_names(const Option& option) {
  std::vector<std::string> names;
  std::size_t from = 0;
  while (from <= option.names.size()) {
    const std::size_t to = std::min(option.names.find(',', from), option.names.size());
    names.push_back(option.names.substr(from, to - from));
    from = to + 1;
  }
  return names;
}

std::vector<Option> common_options(const Command& command, Common& common) {
  std::vector<Option> all;
  if (command.dry_run) all.push_back(flag("-n,--dry-run", common.dry_run, "Say what would be done and change nothing"));
  if (command.json) all.push_back(flag("--json", common.json, "Print one JSON document"));
  all.push_back(option("-C", "DIR", common.folder, "Run as if started in this folder", Complete::kFolder));
  all.push_back(flag("-q,--quiet", common.quiet, "Print results and errors only"));
  const std::string more = command.verbose.empty() ? "Say" : command.verbose + ", and say";
  all.push_back(flag("-v,--verbose", common.verbose, more + " more about what is done"));
  all.push_back(choice("--color", "WHEN", {"auto", "always", "never"}, common.color, "When to use colour"));
  all.push_back(flag("-h,--help", common.help, "Print this help"));
  return all;
}

Invocation parse_command_line(const std::vector<std::string>& args) {
  Invocation call;
  call.title = "mlx";
  std::vector<std::string> rest = args, words;
  take_leading_options(rest, words);
  if (rest.empty()) {
    call.command = root_command(call.common);
    parse_options(call.command, call.title, words, call.common);
    return call;
  }
  const CommandRow& row = find_row(rest.front(), words);
  rest.erase(rest.begin());
  call.command = row.add();
  call.needs = row.needs;
  call.title += " " + call.command.name;
  while (!call.command.subcommands.empty()) {
    take_leading_options(rest, words);
    if (!descend(call.command, call.title, rest)) break;
  }
  words.insert(words.end(), rest.begin(), rest.end());
  parse_options(call.command, call.title, words, call.common);
  if (!call.common.help && !call.command.run) {
    throw Error(ErrorKind::kUsage, fmt::format("{}a subcommand is missing", message_start(call.title)),
                fmt::format("`{} --help` lists them", call.title));
  }
  return call;
}

}  // namespace mlx::cmd
