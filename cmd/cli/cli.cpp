// The only includer of CLI11: takes the words of one command apart by its declaration, and checks values.
//
// CLI11 splits words into options and bare words; which bare word is which positional, numbers, closed sets and all
// messages are ours, so that every error reads the same. Guarantees Error{kUsage} for everything that is wrong, and no
// other exception.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/toml.h"
#include "cmd/cli/help.h"
#include "cmd/cli/invocation.h"

namespace mlx::cmd {
namespace {

class Parser {
 public:
  Parser(const Command& command, std::string title, Common& common) : title_(std::move(title)), command_(command) {
    options_ = command.options;
    for (Option& option : common_options(command, common)) {
      const bool taken =
          std::any_of(options_.begin(), options_.end(), [&](const Option& o) { return o.names == option.names; });
      if (!taken) options_.push_back(std::move(option));
    }
    app_.set_help_flag();
    app_.allow_extras();
    for (const Option& option : options_) {
      if (!is_positional(option)) declare(option);
    }
  }

  void parse(std::vector<std::string> words, const Common& common) {
    split_empty_values(words);
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(words));
    } catch (const CLI::Error& error) {
      fail_usage(explain(error.what()));
    }
    const std::vector<std::string> bare = bare_words();
    if (common.help) return;
    assign_positionals(bare);
  }

 private:
  // CLI11's two complaints left: "-m,--message: 1 required TEXT missing", and "quiet was given a disallowed flag
  // override".
  static std::string explain(const std::string& what) {
    const std::size_t missing = what.find(": 1 required"),
                      override = what.find(" was given a disallowed flag override");
    if (missing != std::string::npos) return what.substr(0, missing) + " needs a value";
    if (override != std::string::npos) return "--" + what.substr(0, override) + " takes no value";
    return what;
  }

  void declare(const Option& option) {
    if (option.flag) {
      app_.add_flag_callback(option.names, [&option] { *option.flag = true; })->disable_flag_override();
      return;
    }
    CLI::Option* added = app_.add_option(option.names, [this, &option](const CLI::results_t& values) {
      for (const std::string& value : values) assign(option, option_names(option).back(), value);
      return true;
    });
    added->multi_option_policy(option.many ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
    added->allow_extra_args(false);
  }

  // CLI11 reads `--name=` as `--name` with the next word; here it is an empty value.
  static void split_empty_values(std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
      if (words[i].size() > 3 && words[i].starts_with("--") && words[i].find('=') == words[i].size() - 1) {
        words[i].pop_back();
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, "");
        ++i;
      }
    }
  }

  std::vector<std::string> bare_words() const {
    std::vector<std::string> bare;
    bool ended = false;
    for (const std::string& word : app_.remaining()) {
      if (!ended && word == "--") {
        ended = true;
      } else if (!ended && word.size() > 1 && word[0] == '-') {
        fail_unknown_option(word.substr(0, word.find('=')));
      } else {
        bare.push_back(word);
      }
    }
    return bare;
  }

  void assign_positionals(const std::vector<std::string>& bare) {
    std::size_t next = 0;
    for (const Option& option : options_) {
      if (!is_positional(option)) continue;
      if (option.required && next == bare.size()) fail_usage(fmt::format("{} is missing", option.names));
      if (option.many) {
        for (; next < bare.size(); ++next) assign(option, option.names, bare[next]);
      } else if (next < bare.size()) {
        // An unset variable in quotes is no way of leaving it out.
        if (!option.required && bare[next].empty()) fail_usage(fmt::format("{} is empty", option.names));
        assign(option, option.names, bare[next++]);
      }
    }
    if (next < bare.size()) fail_unexpected(bare[next]);
    for (const Option& option : options_) {
      if (!is_positional(option) && option.required && app_.count(option_names(option).back()) == 0) {
        fail_usage(fmt::format("{} {} is missing", option_names(option).back(), option.value));
      }
    }
  }

  void assign(const Option& option, const std::string& name, const std::string& value) {
    if (!option.choices.empty() &&
        std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end()) {
      const std::string close = did_you_mean(value, option.choices);
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}{}: expected one of {}, got '{}'", message_start(title_), name,
                              fmt::join(option.choices, ", "), value),
                  close.empty() ? fmt::format("see `{} --help`", title_) : fmt::format("did you mean '{}'?", close));
    }
    if (option.text) *option.text = value;
    if (option.texts) option.texts->push_back(value);
    if (option.integer) *option.integer = to_number<std::int64_t>(name, value, "an integer");
    if (option.number) {
      *option.number = to_number<double>(name, value, "a number");
      if (!std::isfinite(*option.number))
        fail_usage(fmt::format("{}: expected a finite number, got '{}'", name, value));
    }
  }

  template <typename T>
  T to_number(const std::string& name, const std::string& value, const char* expected) const {
    T number{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc::result_out_of_range) fail_usage(fmt::format("{}: {} is out of range", name, value));
    if (error != std::errc() || end != value.data() + value.size()) {
      fail_usage(fmt::format("{}: expected {}, got '{}'", name, expected, value));
    }
    return number;
  }

  [[noreturn]] void fail_unknown_option(const std::string& name) const {
    std::vector<std::string> known;
    for (const Option& option : options_) {
      if (is_positional(option) || option.hidden) continue;
      for (std::string& one : option_names(option)) known.push_back(std::move(one));
    }
    const std::string close = did_you_mean(name, known);
    throw Error(ErrorKind::kUsage, fmt::format("{}unknown option '{}'", message_start(title_), name),
                close.empty() ? fmt::format("`{} --help` lists them; `--` ends options", title_)
                              : fmt::format("did you mean '{}'?", close));
  }

  [[noreturn]] void fail_unexpected(const std::string& word) const {
    const std::string what = fmt::format("unexpected argument '{}'", word);
    if (command_.word_option.empty()) fail_usage(what);
    throw Error(ErrorKind::kUsage, message_start(title_) + what,
                fmt::format("did you mean `{} {} {}`?", title_, command_.word_option, shell_quoted(word)));
  }

  [[noreturn]] void fail_usage(const std::string& why) const {
    throw Error(ErrorKind::kUsage, message_start(title_) + why, "usage: " + usage_line(command_, title_));
  }

  std::string title_;
  const Command& command_;
  std::vector<Option> options_;  // not touched after the constructor: CLI11's callbacks point into it
  CLI::App app_;
};

}  // namespace

void parse_options(const Command& command, const std::string& title, std::vector<std::string> words, Common& common) {
  Parser(command, title, common).parse(std::move(words), common);
}

}  // namespace mlx::cmd
