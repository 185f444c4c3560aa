// `mlx serve-store` on the other machine, reached by the user's own ssh with the user's own settings. What ssh says on
// stderr is shown only if it fails, with what to do about it.
#include "store/remote/ssh_remote.h"

#include "base/error.h"
#include "base/subprocess.h"
#include "store/remote/wire_remote.h"

namespace mlx::store {

namespace {

// What shells and an older mlx there say, and what to do about it.
struct Symptom {
  std::string_view text;
  const char* hint;
};
constexpr Symptom kSymptoms[] = {
    {"serve-store", "upgrade mlx there, or name another one with MLX_REMOTE_MLX=PATH"},
    {"not found", "install mlx there, or name it with MLX_REMOTE_MLX=PATH"},
    {"No such file", "install mlx there, or name it with MLX_REMOTE_MLX=PATH"},
};
constexpr int kUsage = 2, kNotFound = 127;  // exit codes

class SshTransport final : public wire::Transport {
 public:
  SshTransport(const SshTarget& target, const SshProgram& program, const Interruption& interruption)
      : target_(target),
        own_command_(!program.command.empty()),
        ssh_(serve_store_command(target, program), interruption) {}

  bool write(ByteView bytes) override { return ssh_.write(bytes); }
  std::size_t read(void* data, std::size_t count) override { return ssh_.read(data, count); }

  Error ended() override {
    ssh_.close_input();
    const int code = ssh_.wait();
    const std::string& said = ssh_.errors();
    std::string line = last_line_of(said);
    if (line.empty()) line = "the connection ended";
    const std::string message = fmt::format("{}: {}", target_.login(), line);
    if (code == kSshFailed) {
      if (const auto hint = ssh_hint(target_, said)) return {ErrorKind::kIo, message, with_setting(*hint)};
    }
    if (code == kNotFound || code == kUsage) {
      for (const Symptom& known : kSymptoms) {
        if (said.find(known.text) != std::string::npos) return {ErrorKind::kMissing, message, with_setting(known.hint)};
      }
    }
    return {ErrorKind::kIo, message, "run the command again: what arrived is not sent twice"};
  }

 private:
  std::string with_setting(const std::string& hint) const {
    return own_command_ ? hint + "; MLX_SSH_COMMAND is set" : hint;
  }

  SshTarget target_;
  bool own_command_;
  Conversation ssh_;
};

}  // namespace

std::vector<std::string> serve_store_command(const SshTarget& target, const SshProgram& program) {
  const std::string mlx = remote_word(program.remote_mlx.empty() ? "mlx" : program.remote_mlx);
  return ssh_command(target, program.command, mlx + " serve-store --stdio" + (program.repair ? " --repair" : ""));
}

std::unique_ptr<Remote> open_ssh_remote(const std::string& url, const RemoteOptions& options, Disk&, Pool& pool) {
  const SshTarget target = parse_ssh_url(url);
  SshProgram program;
  program.command = options.environment.get("MLX_SSH_COMMAND").value_or("");
  program.remote_mlx = options.environment.get("MLX_REMOTE_MLX").value_or("");
  program.repair = options.repair;
  wire::RemoteSide side;
  side.where = target.host;
  side.path = target.path;
  side.create = options.create;
  side.connect = [target, program, interruption = options.interruption] {
    return std::make_unique<SshTransport>(target, program, *interruption);
  };
  return wire::open_wire_remote(std::move(side), pool);
}

}  // namespace mlx::store
