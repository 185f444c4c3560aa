// Man pages in man(7) roff: the declaration gives NAME, SYNOPSIS, OPTIONS, EXAMPLES; prose gives what needs sentences.
#include <fmt/format.h>

#include "cmd/cli/help.h"
#include "cmd/cli/invocation.h"

namespace mlx::cmd {
namespace {

// Text that roff prints unchanged: backslashes and dashes escaped, no line that begins a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

// `literal` becomes bold.
std::string inline_roff(std::string_view text) {
  std::string out;
  bool bold = false;
  std::size_t from = 0;
  while (from <= text.size()) {
    const std::size_t to = std::min(text.find('`', from), text.size());
    const std::string part = roff(text.substr(from, to - from));
    out += from == 0 || !part.starts_with("\\&") ? part : part.substr(2);
    if (to < text.size()) {
      bold = !bold;
      out += bold ? "\\fB" : "\\fR";
    }
    from = to + 1;
  }
  return out;
}

// "# TITLE", paragraphs, "- item", four spaces for code.
std::string prose_to_roff(const std::string& prose) {
  std::string out;
  bool code = false, fresh = true;  // fresh: a paragraph's macro is already there
  std::size_t from = 0;
  while (from < prose.size()) {
    const std::size_t to = std::min(prose.find('\n', from), prose.size());
    const std::string_view line = std::string_view(prose).substr(from, to - from);
    from = to + 1;
    const bool is_code = line.starts_with("    ");
    if (code && !is_code && !line.empty()) {
      out += ".EE\n.RE\n";
      code = false;
      if (fresh) out += ".PP\n";
    }
    if (line.starts_with("# ")) {
      out += fmt::format(".SH {}\n", inline_roff(line.substr(2)));
      fresh = true;
    } else if (is_code) {
      if (!code) out += ".PP\n.RS 4\n.EX\n";
      code = true;
      fresh = false;
      out += roff(line.substr(4)) + "\n";
    } else if (line.empty()) {
      if (!fresh && !code) out += ".PP\n";
      fresh = true;
    } else if (line.starts_with("- ")) {
      out += ".IP \\(bu 2\n" + inline_roff(line.substr(2)) + "\n";
      fresh = false;
    } else {
      out += inline_roff(line) + "\n";
      fresh = false;
    }
  }
  return code ? out + ".EE\n.RE\n" : out;
}

std::string heading(const std::string& name, int section = 1) {
  return fmt::format(
      ".\\\" Made by `mlx help --generate` from the options' declarations and man/prose/{}.md. Do not edit.\n"
      ".TH {} {} \"\" \"mlx {}\" \"mlx\"\n",
      name.starts_with("mlx-") ? name.substr(4) : name, roff(name), section, MLX_VERSION);
}

std::string option_entry(const Option& option) {
  std::string term;
  if (is_positional(option)) {
    term = fmt::format("\\fI{}\\fR{}", roff(option.names), option.many ? "..." : "");
  } else {
    for (const std::string& name : option_names(option))
      term += (term.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
    if (!option.value.empty()) term += " \\fI" + roff(option.value) + "\\fR";
  }
  std::string text = inline_roff(option.help);
  if (!option.choices.empty())
    text += fmt::format(": {}", inline_roff(fmt::format("{}", fmt::join(option.choices, ", "))));
  return fmt::format(".TP\n{}\n{}.\n", term, text);
}

void add_commands(const Command& command, const std::string& title, std::string& synopsis, std::string& options) {
  if (command.run) {
    if (!synopsis.empty()) synopsis += ".br\n";
    synopsis += fmt::format("\\fB{}\\fR {}\n", roff(title), roff(usage_line(command, title).substr(title.size())));
  }
  std::string own;
  for (const Option& option : command.options) {
    if (!option.hidden) own += option_entry(option);
  }
  if (!own.empty())
    options += (title.find(' ', 4) == std::string::npos ? "" : fmt::format(".SS {}\n", roff(title))) + own;
  for (const Command& sub : command.subcommands) add_commands(sub, title + " " + sub.name, synopsis, options);
}

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n"
    "0 done; 1 a check answered no; 2 usage; 3 not found; 4 conflict or busy; 5 refused by policy; 6 corrupt data;\n"
    "7 I/O or remote failed; 8 device or dependency missing, or the GPU failed; 9 a training diverged; 130, 143 "
    "interrupted.\n";

}  // namespace

std::string man_page(const Command& command, const std::string& prose) {
  const std::string name = "mlx-" + command.name;
  std::string synopsis, options;
  add_commands(command, "mlx " + command.name, synopsis, options);
  Common common;
  Command any = command;
  for (const Command& sub : command.subcommands) any.json |= sub.json, any.dry_run |= sub.dry_run;
  if (!command.subcommands.empty()) options += ".SS Common options\n";
  for (const Option& option : common_options(any, common)) options += option_entry(option);
  std::string text = heading(name);
  text += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}", roff(name), inline_roff(command.summary), synopsis);
  text += prose_to_roff(prose);
  text += ".SH OPTIONS\n" + options;
  std::vector<std::string> examples = command.examples;
  for (const Command& sub : command.subcommands) {
    examples.insert(examples.end(), sub.examples.begin(), sub.examples.end());
  }
  if (!examples.empty()) {
    text += ".SH EXAMPLES\n.EX\n";
    for (const std::string& example : examples) text += roff(example) + "\n";
    text += ".EE\n";
  }
  text += kExitStatus;
  return text + ".SH SEE ALSO\n.BR mlx (1)\n";
}

std::string format_page(const std::string& name, const std::string& summary, const std::string& prose) {
  return heading("mlx-" + name, 5) + fmt::format(".SH NAME\nmlx\\-{} \\- {}\n", roff(name), inline_roff(summary)) +
         prose_to_roff(prose) + ".SH SEE ALSO\n.BR mlx\\-format\\-model (5),\n.BR mlx\\-import (1)\n";
}

std::string man_overview(const std::string& prose) {
  std::string text = heading("mlx");
  text += ".SH NAME\nmlx \\- versions data and models, trains, compresses and serves them\n";
  text += ".SH SYNOPSIS\n\\fBmlx\\fR \\fICOMMAND\\fR [OPTION]...\n";
  text += prose_to_roff(prose);
  text += ".SH COMMANDS\n";
  const std::vector<Command> all = all_commands();
  for (const auto& [group, title] : command_groups()) {
    std::string entries;
    for (const Command& command : all) {
      if (command.group != group) continue;
      entries += fmt::format(".TP\n.BR mlx\\-{} (1)\n{}.\n", roff(command.name), inline_roff(command.summary));
    }
    if (!entries.empty()) text += fmt::format(".SS {}\n{}", roff(title), entries);
  }
  text += ".SS Guides\n";
  for (const auto& [name, summary] : guides())
    text += fmt::format(".TP\n.BR mlx\\-{} (7)\n{}.\n", roff(name), inline_roff(summary));
  return text + kExitStatus;
}

}  // namespace mlx::cmd
