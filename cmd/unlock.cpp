// Reading passphrases and identities. What was read is wiped; nothing of it is printed, logged or kept.
#include "cmd/unlock.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/subprocess.h"
#include "registry/keys/signer.h"
#include "registry/sync/open_repository.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kMaxPassphrase = 4096;

// The bytes up to the first line feed.
Secret first_line(Bytes bytes, const std::string& source) {
  std::size_t size = 0;
  while (size < bytes.size() && bytes[size] != '\n') ++size;
  Secret secret{ByteView(bytes).first(size)};
  wipe(bytes);
  if (secret.empty()) fail(ErrorKind::kUsage, "{}: the passphrase is empty", source);
  if (secret.size() > kMaxPassphrase)
    fail(ErrorKind::kUsage, "{}: a passphrase has at most {} bytes", source, kMaxPassphrase);
  return secret;
}

// One byte more than a passphrase may have, and its line feed.
constexpr std::size_t kMostRead = kMaxPassphrase + 2;

Secret from_file(const std::string& path) {
  return first_line(registry::read_private_file(path, kMostRead), path);
}

Secret from_command(const std::string& command) {
  ProcessResult result = run_process({"/bin/sh", "-c", command});
  if (result.exit_code != 0) {
    throw Error(ErrorKind::kRefused, fmt::format("MLX_PASSPHRASE_COMMAND ended with exit status {}", result.exit_code),
                "it must print the passphrase");
  }
  Secret secret = first_line(to_bytes(result.out), "MLX_PASSPHRASE_COMMAND");
  wipe({reinterpret_cast<std::uint8_t*>(result.out.data()), result.out.size()});
  return secret;
}

// Restores the terminal's echo whatever happens.
class Silence {
 public:
  explicit Silence(int fd) : fd_(fd), was_(::tcgetattr(fd, &before_) == 0) {
    struct termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (was_) ::tcsetattr(fd_, TCSAFLUSH, &silent);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  ~Silence() {
    if (was_) ::tcsetattr(fd_, TCSAFLUSH, &before_);
  }

 private:
  int fd_;
  struct termios before_ {};
  bool was_;
};

void tell(int fd, const std::string& text) {
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
}

Fd open_terminal() {
  if (!isatty(STDERR_FILENO)) return Fd();  // nobody looks
  return Fd(::open("/dev/tty", O_RDWR | O_CLOEXEC));
}

Secret ask(const Fd& terminal, const std::string& prompt) {
  tell(terminal.get(), prompt + ": ");
  Bytes line;
  {
    const Silence silence(terminal.get());
    std::uint8_t byte = 0;
    while (line.size() <= kMaxPassphrase && byte != '\n') {
      const ssize_t count = ::read(terminal.get(), &byte, 1);
      if (count < 0 && errno == EINTR) throw Error(ErrorKind::kInterrupted, "interrupted");
      if (count <= 0) break;
      line.push_back(byte);
    }
  }
  tell(terminal.get(), "\n");
  return first_line(std::move(line), "terminal");
}

// Twice, as nobody sees what they type.
Secret ask_for_new(const std::string& what, const char* otherwise) {
  const Fd terminal = open_terminal();
  if (!terminal) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: a passphrase is needed, and there is no terminal to ask on", what),
                otherwise);
  }
  const Secret first = ask(terminal, "New passphrase for " + what);
  if (!(ask(terminal, "The same again") == first)) fail(ErrorKind::kUsage, "the two passphrases differ");
  return first;
}

// What is given without asking anybody.
std::optional<Secret> given_passphrase(const Environment& environment, const std::string& file) {
  if (file == "-") return first_line(registry::read_secret(STDIN_FILENO, "stdin", kMostRead), "stdin");
  if (!file.empty()) return from_file(file);
  if (const auto path = environment.get("MLX_PASSPHRASE_FILE")) return from_file(*path);
  if (const auto command = environment.get("MLX_PASSPHRASE_COMMAND")) return from_command(*command);
  return {};
}

class PersonUnlocker final : public registry::Unlocker {
 public:
  PersonUnlocker(Context& context, std::string file) : context_(context), file_(std::move(file)) {}

  std::vector<KeyPair> identities() override {
    if (!path_exists(identity_path(context_.environment()))) return {};
    return {read_identity(context_.environment())};
  }

  std::optional<Secret> passphrase(const std::string& what) override {
    if (auto given = given_passphrase(context_.environment(), file_)) return given;
    const Fd terminal = open_terminal();
    if (!terminal) return {};
    return ask(terminal, "Passphrase for " + what);
  }

  void tell(const std::string& line) override { context_.say(line); }

 private:
  Context& context_;
  std::string file_;
};

}  // namespace

std::shared_ptr<registry::Unlocker> make_unlocker(Context& context, const std::string& passphrase_file) {
  return std::make_shared<PersonUnlocker>(context, passphrase_file);
}

std::unique_ptr<registry::Repository> open_repository(const std::string& folder, Context& context) {
  auto repository = std::unique_ptr<registry::Repository>(new registry::Repository(registry::open_repository(
      folder, context.disk(), context.pool(), context.environment(), context.progress().interruption())));
  repository->keys().set_unlocker(make_unlocker(context));
  return repository;
}

Secret first_passphrase(const Environment& environment, const std::string& passphrase_file, const std::string& what) {
  if (auto given = given_passphrase(environment, passphrase_file)) return *given;
  return ask_for_new(what, "give it with --passphrase-file, MLX_PASSPHRASE_FILE or MLX_PASSPHRASE_COMMAND");
}

Secret another_passphrase(const std::string& passphrase_file, const std::string& what) {
  if (!passphrase_file.empty()) return *given_passphrase({}, passphrase_file);
  return ask_for_new(what,
                     "give it with --new-passphrase-file; MLX_PASSPHRASE_FILE and MLX_PASSPHRASE_COMMAND give the old "
                     "one, which unlocks");
}

std::string identity_path(const Environment& environment) {
  if (const auto path = environment.get("MLX_IDENTITY")) return *path;
  const std::string config = environment.get("XDG_CONFIG_HOME").value_or(join_path(environment.home, ".config"));
  return join_path(config, "mlx/identity");
}

KeyPair read_identity(const Environment& environment) {
  const std::string path = identity_path(environment);
  if (!path_exists(path))
    throw Error(ErrorKind::kNotFound, fmt::format("{}: no identity", path), "`mlx key new-identity` makes one");
  Bytes bytes = registry::read_private_file(path, kMostRead);
  const KeyPair identity = store::parse_identity(as_text(bytes), path);
  wipe(bytes);
  return identity;
}

}  // namespace mlx::cmd
