// Completion scripts of bash, zsh and fish, written from the declarations of all commands.
//
// Names that change (versions, paths inside them, runs, remotes) are asked for while completing: `mlx completion
// --words KIND --typed TEXT`. They may hold anything: no shell may expand or split them.
#include <fmt/format.h>

#include "cmd/cli/help.h"
#include "cmd/cli/invocation.h"

namespace mlx::cmd {
namespace {

constexpr const char* kNotice = "# Made by `mlx help --generate` from the options' declarations. Do not edit.\n";

// One command or subcommand with everything that it takes.
struct Entry {
  std::string path;  // "remote add"; "" for mlx itself
  std::string summary;
  std::vector<Option> options;
  std::vector<std::pair<std::string, std::string>> subcommands;  // name, summary
};

void add_entries(const Command& command, const std::string& path, Common& common, std::vector<Entry>& entries) {
  Entry entry{path, command.summary, command.options, {}};
  for (Option& option : common_options(command, common)) entry.options.push_back(std::move(option));
  std::erase_if(entry.options, [](const Option& option) { return option.hidden; });
  for (const Command& sub : command.subcommands) entry.subcommands.emplace_back(sub.name, sub.summary);
  entries.push_back(std::move(entry));
  for (const Command& sub : command.subcommands) add_entries(sub, path + " " + sub.name, common, entries);
}

// The options here point to where values would go; nothing is ever written through them.
std::vector<Entry> all_entries() {
  Common common;
  Command root;
  root.json = false;
  root.options = {flag("--version", common.version, "Print the version")};
  std::vector<Entry> entries, rest;
  for (const Command& command : all_commands()) {
    root.subcommands.push_back({.name = command.name, .summary = command.summary});
    add_entries(command, command.name, common, rest);
  }
  add_entries(root, "", common, entries);
  entries.resize(1);
  entries.insert(entries.end(), rest.begin(), rest.end());
  return entries;
}

const char* kind_word(Complete complete) {
  switch (complete) {
    case Complete::kFile:
      return "file";
    case Complete::kFolder:
      return "folder";
    case Complete::kReference:
      return "reference";
    case Complete::kRun:
      return "run";
    case Complete::kRemote:
      return "remote";
    case Complete::kCommand:
      return "command";
    case Complete::kSetting:
      return "setting";
    case Complete::kOperation:
      return "operation";
    case Complete::kChoice:
      return "choice";
    case Complete::kNothing:
      break;
  }
  return "nothing";
}

std::string bash_kind(const Option& option) {
  if (option.choices.empty()) return kind_word(option.complete);
  return fmt::format("'choice {}'", fmt::join(option.choices, " "));
}

std::string bash_entry(const Entry& entry) {
  std::string names, values, positionals;
  int position = 0;
  for (const Option& option : entry.options) {
    if (is_positional(option)) {
      positionals += fmt::format("        {}) kind={} ;;\n",
                                 option.many ? std::string("[0-9]*") : std::to_string(position++), bash_kind(option));
      continue;
    }
    const std::vector<std::string> all = option_names(option);
    names += fmt::format("{}{}", names.empty() ? "" : " ", fmt::join(all, " "));
    if (!option.flag) values += fmt::format("        {}) kind={} ;;\n", fmt::join(all, "|"), bash_kind(option));
  }
  std::vector<std::string> subcommands;
  for (const auto& sub : entry.subcommands) subcommands.push_back(sub.first);
  std::string text = fmt::format("    '{}')\n      options='{}'\n", entry.path, names);
  if (!subcommands.empty()) text += fmt::format("      subcommands='{}'\n", fmt::join(subcommands, " "));
  if (!positionals.empty()) text += "      case $3 in\n" + positionals + "      esac\n";
  if (!values.empty()) text += "      case $2 in\n" + values + "      esac\n";
  return text + "      ;;\n";
}

// An _arguments specification's text: quotes, brackets and colons escaped.
std::string zsh_quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string zsh_action(const Option& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  switch (option.complete) {
    case Complete::kFile:
      return "_files";
    case Complete::kFolder:
      return "_files -/";
    case Complete::kNothing:
    case Complete::kChoice:
      return " ";
    default:
      return fmt::format(" _mlx_words {}", kind_word(option.complete));
  }
}

std::string zsh_entry(const Entry& entry) {
  std::string text = fmt::format("    '{}')\n      _arguments -s -S \\\n", entry.path);
  for (const Option& option : entry.options) {
    if (is_positional(option)) {
      text += fmt::format("        '{}:{}:{}' \\\n",
                          option.many       ? "*"
                          : option.required ? ""
                                            : ":",
                          zsh_quoted(option.names), zsh_action(option));
      continue;
    }
    const std::vector<std::string> names = option_names(option);
    const std::string value = option.flag ? "" : fmt::format(":{}:{}", option.value, zsh_action(option));
    for (const std::string& name : names) {
      const std::string exclude = option.many ? "*" : fmt::format("({})", fmt::join(names, " "));
      // A long option takes its value after `=` or as the next word; a short one beside it or as the next word.
      const char* joint = option.flag ? "" : name.starts_with("--") ? "=" : "+";
      text += fmt::format("        '{}{}{}[{}]{}' \\\n", exclude, name, joint, zsh_quoted(option.help), value);
    }
  }
  return text + "        && return\n      ;;\n";
}

std::string zsh_subcommands(const Entry& entry) {
  std::string text = fmt::format("    '{}')\n      found=(\n", entry.path);
  for (const auto& [name, summary] : entry.subcommands) {
    text += fmt::format("        '{}:{}'\n", name, zsh_quoted(summary));
  }
  return text + "      )\n      ;;\n";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_values(const Option& option) {
  if (!option.choices.empty()) return fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
  switch (option.complete) {
    case Complete::kFile:
      return " -r -F";
    case Complete::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case Complete::kNothing:
    case Complete::kChoice:
      return " -x";
    default:
      return fmt::format(" -x -a '(__mlx_words {})'", kind_word(option.complete));
  }
}

std::string fish_entry(const Entry& entry) {
  const std::string when =
      fmt::format("complete -c mlx -n '__mlx_at {}'", entry.path.empty() ? "\"\"" : "\"" + entry.path + "\"");
  std::string text;
  for (const auto& [name, summary] : entry.subcommands) {
    text += fmt::format("{} -f -a {} -d {}\n", when, name, fish_quoted(summary));
  }
  for (const Option& option : entry.options) {
    if (is_positional(option)) {
      const std::string values = fish_values(option);
      // -x and -r speak of an option's value; a positional says -f (no files) or -F.
      const std::size_t at = values.find(" -a ");
      text += when + (option.complete == Complete::kFile ? " -F" : " -f") +
              (at == std::string::npos ? "" : values.substr(at)) + "\n";
      continue;
    }
    text += when;
    for (const std::string& name : option_names(option)) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!option.flag) text += fish_values(option);
    text += " -d " + fish_quoted(option.help) + "\n";
  }
  return text;
}

}  // namespace

std::string bash_completion() {
  std::string text = "# bash completion of mlx\n";
  text += kNotice;
  text += R"sh(
# _mlx_command PATH PREVIOUS POSITION: sets options, subcommands, and the kind of word that is due.
_mlx_command() {
  options='' subcommands='' kind=''
  case $1 in
)sh";
  for (const Entry& entry : all_entries()) text += bash_entry(entry);
  text += R"sh(  esac
}

# _mlx_split LINE: sets words as the shell would see them, quote to what is still open, and before to the part of the
# last word that bash leaves as it is: what stands in front of the last of @ : = that is not quoted.
_mlx_split() {
  local line=$1 c at fresh=1
  words=() quote='' before=''
  for ((at = 0; at < ${#line}; at++)); do
    c=${line:at:1}
    if [[ ! $quote && $c == [[:space:]] ]]; then
      fresh=1
      continue
    fi
    if [[ $fresh ]]; then words+=('') fresh='' before=''; fi
    if [[ $quote ]]; then
      if [[ $c == "$quote" ]]; then
        quote=''
        continue
      elif [[ $quote == '"' && $c == \\ && ${line:at+1:1} == [\"\\\$\`] ]]; then
        at=$((at + 1)) c=${line:at:1}
      fi
    elif [[ $c == [\'\"] ]]; then
      quote=$c before=${words[-1]}
      continue
    elif [[ $c == \\ ]]; then
      at=$((at + 1)) c=${line:at:1}
    elif [[ $c == [@:=] ]]; then
      before=${words[-1]}$c
    fi
    words[-1]+=$c
  done
  if [[ $fresh ]]; then words+=('') before=''; fi
}

_mlx() {
  local options subcommands kind path='' previous='' word quote before
  local -a words replies=() found=()
  _mlx_split "${COMP_LINE:0:COMP_POINT}"
  local cur=${words[-1]} position=0 i
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    word=${words[i]}
    _mlx_command "$path" "$previous" 0
    if [[ $previous == -* && $kind ]]; then
      previous=''  # the value of an option
    elif [[ $word == -* ]]; then
      _mlx_command "$path" "$word" value
      previous=''
      [[ $kind ]] && previous=$word
    elif [[ $subcommands && " $subcommands " == *" $word "* ]]; then
      path=${path:+$path }$word
    else
      position=$((position + 1))
    fi
  done
  [[ $previous ]] && position=value
  _mlx_command "$path" "$previous" "$position"
  if [[ $cur == --*=* ]]; then
    _mlx_command "$path" "${cur%%=*}" value
    before=${before#"${cur%%=*}="} cur=${cur#*=}
  elif [[ ! $previous && $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    return
  elif [[ ! $previous && $subcommands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$cur")
    return
  fi
  case $kind in
    file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    folder) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    'choice '*) mapfile -t replies < <(compgen -W "${kind#choice }" -- "$cur") ;;
    reference|run|remote|command|setting|operation)
      mapfile -t found < <(mlx completion --words "$kind" --typed="$cur" 2>/dev/null)
      for word in "${found[@]}"; do [[ $word == "$cur"* ]] && replies+=("$word"); done ;;
  esac
  COMPREPLY=("${replies[@]#"$before"}")
  if [[ $kind == reference && $cur == *:* ]]; then
    compopt -o filenames  # bash quotes them
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; fi
  elif [[ ! $quote ]]; then
    for i in "${!COMPREPLY[@]}"; do printf -v "COMPREPLY[i]" %q "${COMPREPLY[i]}"; done
  fi
}
complete -F _mlx mlx
)sh";
  return text;
}

std::string zsh_completion() {
  std::string text = "#compdef mlx\n# zsh completion of mlx\n";
  text += kNotice;
  text += R"sh(
_mlx_words() {
  local -a found folders
  found=(${(f)"$(mlx completion --words $1 --typed="${(Q)PREFIX}" 2>/dev/null)"})
  folders=(${(M)found:#*:*/})
  found=(${found:|folders})
  compadd -S '' -a folders
  compadd -a found
}

# _mlx_subcommands PATH: sets found to 'name:summary' of each.
_mlx_subcommands() {
  found=()
  case $1 in
)sh";
  const std::vector<Entry> entries = all_entries();
  for (const Entry& entry : entries) {
    if (!entry.subcommands.empty()) text += zsh_subcommands(entry);
  }
  text += R"sh(  esac
}

_mlx_arguments() {
  case $1 in
)sh";
  for (const Entry& entry : entries) text += zsh_entry(entry);
  text += R"sh(  esac
}

_mlx() {
  local where=''
  local -a found
  local -i at=2 program=1
  while true; do
    _mlx_subcommands "$where"
    while ((at < CURRENT)) && [[ ${words[at]} == -* ]]; do
      [[ ${words[at]} == (-C|--color) ]] && ((at++))
      ((at++))
    done
    ((at < CURRENT)) && (( ${found[(I)${words[at]}:*]} )) || break
    where="${where:+$where }${words[at]}"
    program=$at
    ((at++))
  done
  if ((at == CURRENT && ${#found})) && [[ ${words[CURRENT]} != -* ]]; then
    _describe command found
    return
  fi
  # The command's own words come off the front, so that _arguments sees the last of them as the program.
  shift $((program - 1)) words
  ((CURRENT -= program - 1))
  _mlx_arguments "$where"
}

_mlx "$@"
)sh";
  return text;
}

std::string fish_completion() {
  std::string text = "# fish completion of mlx\n";
  text += kNotice;
  text += R"sh(
# Is the command line inside this command ("remote add"; "" before any command)?
function __mlx_at
    set -l path
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- $word -C --color
            set skip 1
        else if not string match -q -- '-*' $word
            set -a path $word
        end
    end
    if test -z "$argv[1]"
        test (count $path) = 0
        return
    end
    set -l wanted (string split ' ' $argv[1])
    for i in (seq (count $wanted))
        test "$path[$i]" = "$wanted[$i]"; or return 1
    end
end

# What stands of the word goes along: the paths inside a version are asked for folder by folder.
function __mlx_words
    set -l typed (commandline -ct | string replace -r -- '^--[^=]*=' '' | string unescape)
    mlx completion --words $argv[1] --typed="$typed" 2>/dev/null
end

complete -c mlx -f
)sh";
  for (const Entry& entry : all_entries()) text += fish_entry(entry);
  return text;
}

}  // namespace mlx::cmd
