// Help as plain text from the declarations: the overview, a command's page, its usage line.
#include <fmt/format.h>

#include <algorithm>

#include "cmd/cli/help.h"
#include "cmd/cli/invocation.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kHelpWidth = 88;
constexpr const char* kPlumbing = "plumbing";  // the group that `mlx help` leaves out and man pages have

std::string left_column(const Option& option) {
  if (is_positional(option)) return option.names + (option.many ? "..." : "");
  std::string text;
  for (const std::string& name : option_names(option)) text += (text.empty() ? "" : ", ") + name;
  if (text.starts_with("--")) text = "    " + text;  // long names line up behind short ones
  return option.value.empty() ? text : text + " " + option.value;
}

// "  LEFT    words of the right, wrapped and lined up"
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t left = 0;
  for (const auto& row : rows) left = std::max(left, std::min<std::size_t>(row.first.size(), 28));
  std::string text;
  for (const auto& [name, words] : rows) {
    std::string line = fmt::format("  {:<{}}  ", name, left);
    std::size_t from = 0;
    while (from < words.size()) {
      const std::size_t to = std::min(words.find(' ', from), words.size());
      if (line.size() + (to - from) > kHelpWidth) {
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = std::string(left + 4, ' ');
      }
      line += words.substr(from, to - from) + " ";
      from = to + 1;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string describe(const Option& option) {
  if (option.choices.empty()) return option.help;
  return fmt::format("{}: {}", option.help, fmt::join(option.choices, ", "));
}

std::string section(const std::string& title, const std::vector<Option>& options, bool positionals) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Option& option : options) {
    if (is_positional(option) == positionals && !option.hidden)
      rows.emplace_back(left_column(option), describe(option));
  }
  return rows.empty() ? "" : "\n" + title + ":\n" + two_columns(rows);
}

}  // namespace

std::string usage_line(const Command& command, const std::string& title) {
  std::string line = title;
  if (!command.subcommands.empty()) return line + (command.run ? " [COMMAND]" : " COMMAND");
  line += " [OPTION]...";
  for (const Option& option : command.options) {
    if (option.hidden) continue;
    if (is_positional(option)) {
      const std::string name = option.names + (option.many ? "..." : "");
      line += option.required ? " " + name : " [" + name + "]";
    } else if (option.required) {
      line += " " + option_names(option).front() + " " + option.value;
    }
  }
  return line;
}

std::string command_help(const Command& command, const std::string& title) {
  std::string text = fmt::format("{}: {}\n\nusage: {}\n", title, command.summary, usage_line(command, title));
  if (!command.subcommands.empty()) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const Command& sub : command.subcommands) rows.emplace_back(sub.name, sub.summary);
    text += "\ncommands:\n" + two_columns(rows);
  }
  text += section("arguments", command.options, true);
  text += section("options", command.options, false);
  Common common;
  text += section("common options", common_options(command, common), false);
  if (!command.examples.empty()) {
    text += "\nexamples:\n";
    for (const std::string& example : command.examples) text += "  " + example + "\n";
  }
  return text;
}

const std::vector<std::pair<std::string, std::string>>& command_groups() {
  static const std::vector<std::pair<std::string, std::string>> kGroups = {
      {"versions", "Versions of data and models"},
      {"remotes", "Exchange with others"},
      {"data", "Data"},
      {"work", "Train and use models"},
      {"jobs", "Many runs and machines"},
      {"release", "Release"},
      {"govern", "Where things come from"},
      {"meta", "About mlx"},
      {kPlumbing, "Called by other programs"},
  };
  return kGroups;
}

const std::vector<std::pair<std::string, std::string>>& guides() {
  static const std::vector<std::pair<std::string, std::string>> kGuides = {
      {"tutorial", "A tour, from raw files to a served model"},
      {"gpu", "NVIDIA GPUs: what they need, what has run where"},
      {"security", "Who is trusted with what, and what an attacker can do"},
  };
  return kGuides;
}

std::vector<Command> all_commands() {
  std::vector<Command> all;
  all.reserve(kCommands.size());
  for (const CommandRow& row : kCommands) all.push_back(row.add());
  return all;
}

std::string overview() {
  std::string text =
      "mlx: versions data and models, trains, compresses and serves them, and remembers how\n\nusage: mlx COMMAND "
      "[OPTION]...\n";
  const std::vector<Command> all = all_commands();
  for (const auto& [group, title] : command_groups()) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const Command& command : all) {
      if (command.group == group && group != kPlumbing) rows.emplace_back(command.name, command.summary);
    }
    if (!rows.empty()) text += "\n" + title + "\n" + two_columns(rows);
  }
  text += "\nGuides, for `mlx help GUIDE`\n" + two_columns(guides());
  return text + "\n`mlx help COMMAND` or `mlx COMMAND --help` says more. Start with `mlx init`.\n";
}

}  // namespace mlx::cmd
