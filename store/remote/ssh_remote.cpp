// A store on another machine: `mlx serve-store` there, reached by the user's own ssh with the user's own settings. What
// ssh says on stderr is shown only where it fails, with what can be done about it.
#include "base/error.h"
#include "base/subprocess.h"
#include "store/remote/remote.h"
#include "store/remote/ssh_url.h"
#include "store/remote/wire_remote.h"

namespace mlx::store {

namespace {

// What ssh and shells say, and what helps.
struct Symptom {
  std::string_view text;
  ErrorKind kind;
  const char* hint;
};
constexpr Symptom kSymptoms[] = {
    {"Host key verification failed", ErrorKind::kIo, "check the host's key, then accept it once: ssh {} true"},
    {"Permission denied (", ErrorKind::kIo, "mlx uses ssh's own keys and settings; this has to work: ssh {} true"},
    {"Could not resolve hostname", ErrorKind::kIo, "is the host's name in the URL right? `mlx remote` shows it"},
    {"Connection refused", ErrorKind::kIo, "does an SSH server listen there? try: ssh {} true"},
    {"Connection timed out", ErrorKind::kIo, "is the host up and reachable? try: ssh {} true"},
    {"No route to host", ErrorKind::kIo, "is the host up and reachable? try: ssh {} true"},
    {"serve-store", ErrorKind::kMissing, "upgrade mlx there, or name another one with MLX_REMOTE_MLX=PATH"},
    {"not found", ErrorKind::kMissing, "install mlx there, or name it with MLX_REMOTE_MLX=PATH"},
    {"No such file", ErrorKind::kMissing, "install mlx there, or name it with MLX_REMOTE_MLX=PATH"},
};
constexpr int kUsage = 2, kNotFound = 127, kSshFailed = 255;  // exit codes

// The last line that says something, without "mlx: error: ".
std::string last_line(const std::string& text) {
  std::string found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = wire::printable(std::string_view(text).substr(at, end - at));
    while (!line.empty() && (line.back() == ' ' || line.back() == '?')) line.pop_back();
    if (!line.empty() && !line.starts_with("hint: ")) found = line;
    at = end + 1;
  }
  constexpr std::string_view kOurs = "mlx: error: ";
  return found.starts_with(kOurs) ? found.substr(kOurs.size()) : found;
}

class SshTransport final : public wire::Transport {
 public:
  SshTransport(const SshTarget& target, const SshProgram& program)
      : login_((target.user.empty() ? "" : target.user + "@") + target.host),
        own_command_(!program.command.empty()),
        ssh_(ssh_command(target, program)) {}

  bool write(ByteView bytes) override { return ssh_.write(bytes); }
  std::size_t read(void* data, std::size_t count) override { return ssh_.read(data, count); }

  Error ended() override {
    ssh_.close_input();
    const int code = ssh_.wait();
    const std::string& said = ssh_.errors();
    std::string line = last_line(said);
    if (line.empty()) line = "the connection ended";
    const std::string message = fmt::format("{}: {}", login_, line);
    for (const Symptom& known : kSymptoms) {
      const bool fits = known.kind == ErrorKind::kIo ? code == kSshFailed : code == kNotFound || code == kUsage;
      if (!fits || said.find(known.text) == std::string::npos) continue;
      const std::string hint = fmt::format(fmt::runtime(known.hint), login_);
      return {known.kind, message, own_command_ ? hint + "; MLX_SSH_COMMAND is set" : hint};
    }
    return {ErrorKind::kIo, message, "what got through is not sent again: run the command once more"};
  }

 private:
  std::string login_;
  bool own_command_;
  Conversation ssh_;
};

}  // namespace

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
  side.connect = [target, program] { return std::make_unique<SshTransport>(target, program); };
  return wire::open_wire_remote(std::move(side), pool);
}

}  // namespace mlx::store
