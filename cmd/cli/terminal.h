// The outside world of a command: stdout, stderr, colour, pager, progress, and the repository, opened when first asked
// for.
//
// Used by main.cpp, which makes one. stdout is buffered; finish() must be called to see errors of writing.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/parallel.h"
#include "cmd/cli/cli.h"
#include "cmd/cli/invocation.h"
#include "cmd/cli/pager.h"
#include "cmd/cli/progress_bar.h"
#include "registry/repository.h"
#include "registry/settings/settings.h"
#include "store/disk.h"

namespace mlx::cmd {

// Thrown if stdout is a pipe that nobody reads any more: the program ends quietly, as if killed by SIGPIPE.
struct PipeClosed {};

class Terminal final : public Context {
 public:
  Terminal(const Common& common, std::string command_line, const Interruption& interruption);
  ~Terminal() override;

  void out(std::string_view text) override;
  void line(std::string_view text) override;
  void say(std::string_view text) override;
  void json(const Json& document) override;
  bool wants_json() const override { return common_.json; }
  bool quiet() const override { return common_.quiet; }
  bool verbose() const override { return common_.verbose; }
  bool dry_run() const override { return common_.dry_run; }
  bool colour() const override { return colour_; }
  std::string bold(std::string_view text) const override { return paint("1", text); }
  std::string dim(std::string_view text) const override { return paint("2", text); }
  std::string green(std::string_view text) const override { return paint("32", text); }
  std::string red(std::string_view text) const override { return paint("31", text); }
  std::string yellow(std::string_view text) const override { return paint("33", text); }
  Progress& progress() override { return progress_; }
  Pool& pool() override;
  const Environment& environment() override { return environment_; }
  const std::string& folder() const override { return folder_; }
  registry::Repository& repository() override;
  bool has_repository() override;
  const registry::SettingSources& setting_sources() override;
  const registry::Settings& settings() override;
  const std::string& command_line() const override { return command_line_; }
  store::Disk& disk() override;
  void flush() override;
  void start_pager() override;

  void finish();  // flushes, and waits for the pager

 private:
  std::string paint(const char* code, std::string_view text) const;

  Common common_;
  std::string command_line_, folder_, buffer_;
  Environment environment_;
  bool colour_ = false;
  ProgressBar progress_;
  std::optional<Pager> pager_;
  std::unique_ptr<store::Disk> disk_;
  std::unique_ptr<Pool> pool_;
  std::optional<registry::SettingSources> setting_sources_;
  std::optional<registry::Settings> settings_;
  std::unique_ptr<registry::Repository> repository_;
};

// flag > NO_COLOR > CLICOLOR_FORCE > is `fd` a terminal that has colours
bool wants_colour(const Environment& environment, const std::string& when, int fd);

}  // namespace mlx::cmd
