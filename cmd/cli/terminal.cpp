// Context over real file descriptors and environment variables.
#include "cmd/cli/terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/cli/foreign_text.h"
#include "cmd/cli/moment.h"
#include "cmd/unlock.h"
#include "registry/sync/open_repository.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kBufferSize = 64 * 1024;

int environment_number(const Environment& environment, const char* name) {
  const std::string text = environment.get(name).value_or("");
  if (text.empty()) return 0;
  char* end = nullptr;
  const long number = std::strtol(text.c_str(), &end, 10);
  if (*end != '\0' || number < 0 || number > 1'000'000) {
    throw Error(ErrorKind::kUsage, fmt::format("environment variable {}: expected a number, got '{}'", name, text),
                fmt::format("unset {}, or set it to a number", name));
  }
  return static_cast<int>(number);
}

void write_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) throw PipeClosed{};
    if (written < 0) fail_errno(errno, "stdout", "write");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

bool wants_colour(const Environment& environment, const std::string& when, int fd) {
  if (when == "always") return true;
  if (when == "never") return false;
  if (environment.get("NO_COLOR")) return false;
  const std::string force = environment.get("CLICOLOR_FORCE").value_or("0");
  if (force != "0") return true;
  return isatty(fd) && environment.get("TERM") != "dumb";
}

Terminal::Terminal(const Common& common, std::string command_line, const Interruption& interruption)
    : common_(common),
      command_line_(std::move(command_line)),
      environment_(process_environment()),
      colour_(wants_colour(environment_, common.color, STDOUT_FILENO)),
      progress_(common.quiet, wants_colour(environment_, common.color, STDERR_FILENO), interruption) {
  if (!common.folder.empty() && chdir(common.folder.c_str()) != 0) {
    throw Error(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo,
                fmt::format("-C {}: {}", common.folder, std::strerror(errno)), "name an existing folder");
  }
  folder_ = absolute_path(".");
}

Terminal::~Terminal() = default;

void Terminal::out(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferSize) flush();
}

void Terminal::line(std::string_view text) {
  if (common_.json) return;
  buffer_ += shown(text);
  buffer_ += '\n';
  if (buffer_.size() >= kBufferSize) flush();
}

void Terminal::say(std::string_view text) {
  if (common_.quiet) return;
  flush();  // so that both streams on one terminal read in order
  progress_.print_line(text);
}

void Terminal::json(const Json& document) {
  CHECK(document.contains("schema"));
  out(json_text(document, 2));
  out("\n");
  flush();  // a server prints its document and goes on
}

std::string Terminal::paint(const char* code, std::string_view text) const {
  return colour_ ? painted(code, text) : std::string(text);
}

Pool& Terminal::pool() {
  if (!pool_) pool_ = std::make_unique<Pool>(static_cast<int>(settings().integer("core.threads")));
  return *pool_;
}

store::Disk& Terminal::disk() {
  if (!disk_) disk_ = store::real_disk(environment_number(environment_, "MLX_KILL_AT"));
  return *disk_;
}

registry::Repository& Terminal::repository() {
  if (!repository_) {
    repository_ = std::unique_ptr<registry::Repository>(new registry::Repository(
        registry::open_repository(folder_, disk(), pool(), environment_, progress_.interruption())));
    repository_->keys().set_unlocker(make_unlocker(*this));
    if (const std::string problem = clock_problem(unix_micros()); !problem.empty()) progress().warn(problem);
  }
  return *repository_;
}

bool Terminal::has_repository() {
  return registry::Repository::find_root(folder_).has_value();
}

const registry::SettingSources& Terminal::setting_sources() {
  if (!setting_sources_) {
    setting_sources_ = registry::SettingSources{environment_, registry::Repository::find_root(folder_).value_or("")};
  }
  return *setting_sources_;
}

const registry::Settings& Terminal::settings() {
  if (!settings_) settings_.emplace(setting_sources());
  return *settings_;
}

void Terminal::flush() {
  std::string text;
  text.swap(buffer_);  // emptied even if writing fails: an error is reported once
  write_stdout(text);
}

void Terminal::start_pager() {
  if (common_.json || pager_ || !isatty(STDOUT_FILENO)) return;
  flush();
  pager_.emplace(environment_.get("PAGER").value_or(""));
}

void Terminal::finish() {
  progress_.end();
  if (repository_ && !repository_->clock_doubt().empty()) progress().warn(repository_->clock_doubt());
  flush();
  if (pager_) pager_->wait();
}

}  // namespace mlx::cmd
