// Starting libgit2, and whose repositories it reads.
#include "base/git_open.h"

#include <mutex>

#include "base/error.h"
#include "base/text.h"

namespace mlx::git {

namespace {

// Once for the process; never shut down, as other threads may be reading at exit.
//
// A repository of another user is read like any other. git refuses it, since its configuration names programs that git
// would run: hooks, filters, textconv, fsmonitor, pagers. libgit2 runs none of these, whatever is configured (its only
// filters are its own crlf and ident), and what it reads is hashed. To write there is another matter: core.hooksPath
// may lead anywhere. See open_to_write().
void start_library() {
  static const int started = [] {
    const int code = git_libgit2_init();
    if (code >= 0) git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
    return code;
  }();
  if (started < 0) fail(ErrorKind::kMissing, "libgit2 cannot be started");
}

std::string last_message() {
  const git_error* const error = git_error_last();
  return error == nullptr || error->message == nullptr ? "unknown error" : error->message;
}

// libgit2 1.5 looks for safe.directory if the owner is another user. If no configuration has that key, its error says
// that the key was not found, not whose repository it is.
bool is_foreign(int code) {
  if (code == GIT_EOWNER) return true;
  const git_error* const error = git_error_last();
  return code == GIT_ENOTFOUND && error != nullptr && error->klass == GIT_ERROR_CONFIG;
}

// While it lives, libgit2 checks the owners of repositories: a switch for the whole process, so one at a time.
class OwnerValidation {
 public:
  OwnerValidation() : guard_(mutex_) {
    start_library();
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 1);
  }
  ~OwnerValidation() { git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0); }

 private:
  static inline std::mutex mutex_;
  std::lock_guard<std::mutex> guard_;
};

}  // namespace

void must(int code, const std::string& root, const char* what) {
  if (code < 0) fail(ErrorKind::kIo, "{}: git cannot {}: {}", root, what, last_message());
}

bool open_worktree(Repository& repository, const std::string& root) {
  start_library();
  const int code = git_repository_open_ext(repository.out(), root.c_str(), GIT_REPOSITORY_OPEN_NO_SEARCH, nullptr);
  if (is_foreign(code)) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: the git repository belongs to another user", root),
                fmt::format("if you trust it: git config --global --add safe.directory {}", shell_quoted(root)));
  }
  if (code == GIT_ENOTFOUND) return false;
  must(code, root, "open the repository");
  return git_repository_is_bare(repository.get()) == 0;
}

Repository open_root(const std::string& root) {
  Repository repository;
  if (!open_worktree(repository, root)) {
    fail(ErrorKind::kNotFound, "{}: no git repository with a worktree", root);
  }
  return repository;
}

Repository open_to_write(const std::string& root) {
  const OwnerValidation validated;
  return open_root(root);
}

}  // namespace mlx::git
