// mlx serve-store: the other end of an SSH remote, on stdin and stdout. People do not call it; their ssh does.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/error.h"
#include "cmd/cli/cli.h"
#include "cmd/cli/standard_input.h"
#include "registry/sync/published_heads.h"
#include "store/remote/wire_server.h"

namespace mlx::cmd {
namespace {

struct ServeStoreOptions {
  bool stdio = false, read_only = false, repair = false;
  std::string path, root;
};

constexpr int kLookForSignals = 200;  // milliseconds

void write_answer(ByteView bytes, const Interruption& interruption) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (put >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {
      pollfd wait = {STDOUT_FILENO, POLLOUT, 0};
      ::poll(&wait, 1, kLookForSignals);
    } else if (errno != EINTR) {
      fail_errno(errno, "the client", "write to");
    }
    interruption.check();
  }
}

int run_serve_store(const ServeStoreOptions& options, Context& context) {
  if (!options.stdio) {
    throw Error(ErrorKind::kUsage, "serve-store talks only on stdin and stdout",
                "name a remote ssh://HOST/PATH; `mlx push` then runs this command");
  }
  if (!options.path.empty() && !options.root.empty())
    throw Error(ErrorKind::kUsage, "PATH and --root exclude each other", "PATH serves one store, --root all below it");
  store::wire::ServeOptions serving;
  if (!options.path.empty()) serving.path = options.path;
  if (!options.root.empty()) serving.root = options.root;
  serving.read_only = options.read_only;
  serving.program = "mlx " MLX_VERSION;
  serving.check_heads = [repair = options.repair](const store::Store& store, const auto& before, const auto& heads) {
    repair ? registry::judge_published(store, before, heads) : registry::judge_pushed(store, before, heads);
  };
  const Interruption& interruption = context.progress().interruption();
  serving.interruption = &interruption;
  store::wire::serve([&](void* data, std::size_t count) { return read_some_input(data, count, interruption); },
                     [&](ByteView bytes) { write_answer(bytes, interruption); }, serving, context.disk(),
                     context.pool());
  return 0;
}

}  // namespace

Command add_serve_store() {
  auto options = std::make_shared<ServeStoreOptions>();
  Command command;
  command.name = "serve-store";
  command.summary = "Answer the mlx of another machine on stdin and stdout, for SSH remotes";
  command.group = "plumbing";
  command.json = false;
  command.options = {
      optional_argument("PATH", options->path, "The one store to serve; without it the client names one",
                        Complete::kFolder),
      flag("--stdio", options->stdio, "Talk on stdin and stdout, the only way so far"),
      option("--root", "DIR", options->root, "Serve only what is in this folder", Complete::kFolder),
      flag("--read-only", options->read_only, "Refuse whatever would change a store"),
      flag("--repair", options->repair, "Let clients leave out operations that it has, as `mlx push --repair` asks"),
  };
  command.examples = {"mlx serve-store --stdio --root /srv/mlx"};
  command.run = [options](Context& context) { return run_serve_store(*options, context); };
  return command;
}

}  // namespace mlx::cmd
