// mlx clone: a repository of one's own from a project's git repository, or from a remote of mlx alone.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/git.h"
#include "base/json.h"
#include "base/path.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "cmd/new_folder.h"
#include "cmd/pull.h"
#include "cmd/sync_text.h"
#include "cmd/unlock.h"
#include "registry/keys/keys.h"
#include "registry/record/lost.h"
#include "registry/settings/settings.h"
#include "registry/sync/key_sync.h"
#include "registry/sync/sync.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "registry/versions/references.h"
#include "store/remote/remote.h"

namespace mlx::cmd {
namespace {

struct CloneOptions {
  std::string url, folder, filter = "none", branch;
  bool encrypt = false;
};

bool has_scheme(const std::string& url, std::string_view scheme) {
  return url.starts_with(std::string(scheme) + "://");
}

// What git clones and we do not: https, a path that ends in .git, a local repository.
bool is_git(const std::string& url) {
  for (const char* scheme : {"https", "http", "git"}) {
    if (has_scheme(url, scheme)) return true;
  }
  if (url.ends_with(".git") || url.ends_with(".git/")) return true;
  if (!store::is_remote_path(url)) return false;
  return path_exists(join_path(url, ".git")) || path_exists(join_path(url, "HEAD"));
}

// "https://host/team/digits.git" → "digits"
std::string folder_of(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with(".git")) url.resize(url.size() - 4);
  while (url.ends_with('/')) url.pop_back();
  const std::string name = url.substr(url.find_last_of("/:") + 1);
  if (name.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{}: the URL gives no name for the clone", url), "name a FOLDER");
  return name;
}

// What git tells the programs that it runs about the repository at hand (git rev-parse --local-env-vars, without the
// settings of `git -c`): in a hook, the new clone is not to be taken for it.
const std::vector<std::string> kOfAnotherRepository = {
    "GIT_DIR",        "GIT_WORK_TREE",    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR", "GIT_INDEX_FILE",   "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",     "GIT_SHALLOW_FILE", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_GRAFT_FILE", "GIT_NAMESPACE",    "GIT_QUARANTINE_PATH",
};

void clone_git(const CloneOptions& options, const std::string& folder) {
  std::vector<std::string> command = {"git", "clone", "--quiet"};
  if (!options.branch.empty()) command.insert(command.end(), {"--branch", options.branch});
  command.insert(command.end(), {"--", options.url, folder});
  const ProcessResult result = run_process(command, {}, {}, kOfAnotherRepository);
  if (result.exit_code == 0) return;
  if (result.exit_code == 127) throw Error(ErrorKind::kMissing, "git is not installed", "install git");
  std::string said = result.err.substr(0, result.err.find('\n'));
  throw Error(ErrorKind::kIo, fmt::format("git clone: {}", said), "make sure that `git clone` of it works");
}

std::vector<std::string> git_lines(const std::string& folder, std::vector<std::string> words) {
  words.insert(words.begin(), {"git", "-C", folder});
  const ProcessResult result = run_process(words, {}, {}, kOfAnotherRepository);
  std::vector<std::string> lines;
  for (std::size_t at = 0; result.exit_code == 0 && at < result.out.size();) {
    const std::size_t end = std::min(result.out.find('\n', at), result.out.size());
    lines.push_back(result.out.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// A bare repository whose HEAD names a branch that nobody pushed, such as one made before the project chose another
// name for its main branch: git then checks out nothing. The only branch that there is is meant.
void check_out_branch(const CloneOptions& options, const std::string& folder) {
  if (!git_lines(folder, {"rev-parse", "--verify", "--quiet", "HEAD"}).empty()) return;
  const std::vector<std::string> branches =
      git_lines(folder, {"for-each-ref", "--format=%(refname:lstrip=3)", "refs/remotes/origin"});
  if (branches.empty()) return;  // nobody has pushed anything
  if (branches.size() > 1) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: HEAD names none of its branches, which are {}", options.url, fmt::join(branches, ", ")),
        fmt::format("say which: mlx clone --branch {} {}", shell_quoted(branches.front()), shell_quoted(options.url)));
  }
  const std::vector<std::string> command = {"git",
                                            "-C",
                                            folder,
                                            "checkout",
                                            "--quiet",
                                            "-B",
                                            branches.front(),
                                            "--track",
                                            "refs/remotes/origin/" + branches.front(),
                                            "--"};
  const ProcessResult result = run_process(command, {}, {}, kOfAnotherRepository);
  if (result.exit_code != 0)
    throw Error(ErrorKind::kIo, fmt::format("git checkout: {}", result.err.substr(0, result.err.find('\n'))),
                "make sure that `git clone` of it works");
}

// Without git there are no pointers: every artifact gets its latest version.
void point_at_latest(registry::Repository& repository) {
  const registry::Losses lost = registry::lost_versions(repository);
  for (const std::string& artifact : registry::artifact_names(repository)) {
    const std::optional<registry::Version> latest = registry::try_resolve(repository, artifact + "@latest");
    if (!latest || lost.contains(latest->digest)) continue;
    if (registry::erasure_of_absent(repository, latest->digest)) continue;
    registry::write_pointer(repository, {artifact, latest->kind, latest->digest, latest->files, latest->bytes});
    if (latest->kind == registry::ArtifactKind::kDataset) registry::ignore_in_git(repository, artifact);
  }
}

void set_filter(const CloneOptions& options, const std::string& root, Context& context) {
  if (options.filter == "none") return;
  registry::write_setting({context.environment(), root}, registry::SettingOrigin::kClone, "fetch.filter",
                          options.filter, false);
}

// A path means the same from inside the new folder.
std::string absolute_url(const std::string& url, Context& context) {
  return store::is_remote_path(url) ? absolute_path(join_path(context.folder(), url)) : url;
}

int run_clone(const CloneOptions& options, Context& context) {
  const std::string place =
      absolute_path(join_path(context.folder(), options.folder.empty() ? folder_of(options.url) : options.folder));
  const bool git = is_git(options.url);
  if (!git && !options.branch.empty()) {
    throw Error(ErrorKind::kUsage, "--branch: a remote of mlx has no branches",
                "give the URL of the project's git repository");
  }
  NewFolder made(place, "clone");
  const std::string& folder = made.path();
  if (git) {
    clone_git(options, folder);
    check_out_branch(options, folder);
  }
  if (git && !path_exists(join_path(folder, "mlx.toml"))) {
    throw Error(ErrorKind::kNotFound,
                fmt::format("{}: the project has no mlx.toml, so it names no remote", options.url),
                "`git clone` it, and `mlx init` there starts to use mlx");
  }
  registry::Repository::init(folder, context.disk(), options.encrypt);
  std::unique_ptr<registry::Repository> opened = open_repository(folder, context);
  registry::Repository& repository = *opened;
  if (!git) registry::add_remote(repository.root(), {"origin", absolute_url(options.url, context), options.encrypt});
  set_filter(options, repository.root(), context);
  const registry::RemoteConfig remote = registry::pick_remote(repository.root(), "");
  if (options.encrypt && !registry::take_keys_of(repository, remote)) {
    throw Error(ErrorKind::kRefused, fmt::format("--encrypt: {} is not an encrypted remote", remote.url),
                "there are no keys to share with it; clone without --encrypt");
  }
  registry::FetchOptions fetch;
  if (options.filter != "none") fetch.content = registry::FetchContent::kTrees;
  registry::SyncResult result = registry::fetch(repository, remote, fetch, context.progress());
  if (!git) {
    point_at_latest(repository);
    const registry::SyncResult content = registry::fetch(repository, remote, fetch, context.progress());
    result.objects += content.objects;
    result.bytes += content.bytes;
  }
  set_up_git_clone(repository, context);
  say_met(context, result);
  const Json artifacts = check_out_pointers(repository, false, context);
  opened.reset();
  made.keep(context.folder());
  context.line(fmt::format("cloned into {}", place));
  context.line(sync_text("fetched from", remote.name, result));
  if (options.filter != "none") context.say("content of files is fetched when a command needs it");
  if (context.wants_json()) {
    Json json = sync_json("mlx.clone/1", remote.name, result);
    json["folder"] = place;
    json["artifacts"] = artifacts;
    context.json(json);
  }
  return 0;
}

}  // namespace

Command add_clone() {
  auto options = std::make_shared<CloneOptions>();
  Command command;
  command.name = "clone";
  command.summary = "Make a repository from a project's git repository or from a remote";
  command.group = "versions";
  command.options = {
      argument("URL", options->url, "What `git clone` takes, or a remote of mlx", Complete::kFolder),
      optional_argument("FOLDER", options->folder, "The folder to make (default: the last part of the URL)",
                        Complete::kFolder),
      choice("--filter", "WHAT", {"none", "blobs:none"}, options->filter,
             "With blobs:none, commands fetch the content of files when they need it"),
      flag("--encrypt", options->encrypt, "Encrypt what the clone stores, under the keys of its encrypted remote"),
      option("-b,--branch", "BRANCH", options->branch, "The branch that git checks out"),
  };
  command.examples = {"mlx clone https://example.com/team/digits.git", "mlx clone /mnt/team/store digits",
                      "mlx clone --filter blobs:none ssh://host/srv/mlx/digits",
                      "mlx clone --encrypt ssh://rented.example.com/digits"};
  command.run = [options](Context& context) { return run_clone(*options, context); };
  return command;
}

}  // namespace mlx::cmd
