// The program in outline: take the command line apart, prepare for signals, run the one command, report what went
// wrong.
//
// Exit codes are Error's kinds (DESIGN 2); 130 and 143 after SIGINT and SIGTERM, 141 where the reader of stdout has
// gone.
#include "cmd/cli/program.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <new>

#include "base/error.h"
#include "base/interruption.h"
#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/foreign_text.h"
#include "cmd/cli/help.h"
#include "cmd/cli/invocation.h"
#include "cmd/cli/standard_error.h"
#include "cmd/cli/terminal.h"
#include "dist/launch.h"

namespace mlx::cmd {
namespace {

constexpr int kPipeClosed = 141, kOurMistake = 70;

// The token of the command that runs; null outside of one. Signal handlers can reach nothing else.
std::atomic<Interruption*> interruption_of_signals = nullptr;
static_assert(std::atomic<Interruption*>::is_always_lock_free, "a signal handler reads it");

// The first signal asks for an orderly end, a second one ends at once (what was committed is safe at any instant).
extern "C" void on_signal(int signal) {
  Interruption* const interruption = interruption_of_signals;
  if (interruption && !interruption->raise(signal)) _exit(128 + signal);
}
extern "C" void on_failed_write(int) {}

// While it lives, signals raise `interruption`.
class SignalsRaise {
 public:
  explicit SignalsRaise(Interruption& interruption) { interruption_of_signals = &interruption; }
  ~SignalsRaise() { interruption_of_signals = nullptr; }
  SignalsRaise(const SignalsRaise&) = delete;
  SignalsRaise& operator=(const SignalsRaise&) = delete;
};

void prepare_signals() {
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, dist::stop_signal()}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // a shell's background job ignores SIGINT
  }
  // A handler and not SIG_IGN, which programs that we start would inherit: writing to a closed pipe, or beyond the
  // largest file that may be, gives an error here, and kills them.
  action.sa_handler = on_failed_write;
  for (const int signal : {SIGPIPE, SIGXFSZ}) sigaction(signal, &action, nullptr);
}

// "mlx: error: MESSAGE" and "hint: HINT", one line each: names in them that hold ends of lines make no others.
void report(const std::string& message, const std::string& hint, const std::string& color) {
  const bool colour = wants_colour(process_environment(), color, STDERR_FILENO);
  std::string lines =
      fmt::format("mlx: {}error:{} {}\n", colour ? "\x1b[31m" : "", colour ? "\x1b[0m" : "", printable(message));
  if (!hint.empty())
    lines += fmt::format("{}hint:{} {}\n", colour ? "\x1b[33m" : "", colour ? "\x1b[0m" : "", printable(hint));
  write_stderr(lines);
}

// "mlx train -c 'my file.toml'": what a person would type again.
std::string as_typed(const std::vector<std::string>& args) {
  std::string line = "mlx";
  for (const std::string& arg : args) line += ' ' + shell_quoted(arg);
  return line;
}

int run_command(const Invocation& call, Terminal& terminal) {
  if (call.common.version) {
    terminal.out(version_text());
    return 0;
  }
  if (call.common.help) {
    terminal.start_pager();
    terminal.out(call.command.name.empty() ? overview() : command_help(call.command, call.title));
    return 0;
  }
  if (call.command.name.empty()) {
    terminal.out(overview());
    return 0;
  }
  if (call.needs & kNeedsRepo) terminal.repository();
  return call.command.run(terminal);
}

int run_and_report(const std::vector<std::string>& args, const Interruption& interruption, std::string& color) {
  const Invocation call = parse_command_line(args);
  color = call.common.color;
  if (call.common.verbose) set_log_sink([](const std::string& line) { write_stderr("mlx: " + shown(line) + "\n"); });
  Terminal terminal(call.common, as_typed(args), interruption);
  int code = 0;
  try {
    code = run_command(call, terminal);
  } catch (const PipeClosed&) {
    throw;
  } catch (...) {
    terminal.finish();  // what was printed before the error stands before it
    throw;
  }
  terminal.finish();
  return code;
}

}  // namespace

int run_program(const std::vector<std::string>& args) {
  Interruption interruption;
  const SignalsRaise signals_raise(interruption);
  prepare_signals();
  std::string color = "auto";
  try {
    return run_and_report(args, interruption, color);
  } catch (const PipeClosed&) {
    return kPipeClosed;
  } catch (const Error& error) {
    const int signal = interruption.signal();
    if (error.kind == ErrorKind::kInterrupted && signal != 0) {
      report(error.message, error.hint, color);
      return 128 + signal;
    }
    report(error.message, error.hint, color);
    return static_cast<int>(error.kind);
  } catch (const std::bad_alloc&) {
    report("out of memory", "give it more memory, or fewer threads with MLX_THREADS", color);
    return static_cast<int>(ErrorKind::kIo);
  } catch (const std::exception& error) {
    report(fmt::format("unexpected: {}", error.what()), "this is a mistake in mlx; please report it with the command",
           color);
    return kOurMistake;
  }
}

}  // namespace mlx::cmd
