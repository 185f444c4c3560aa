// Reads the user's git repository through libgit2: finding it takes a few stat() calls and no library; everything else
// opens it for the length of one call.

#include "base/git.h"

#include <git2.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/git_open.h"
#include "base/path.h"
#include "base/text.h"

namespace mlx {

using namespace git;

namespace {

constexpr std::size_t kMaxDiff = 256 * 1024;

std::string hex_of(const git_oid& id) {
  char text[GIT_OID_HEXSZ + 1];
  return git_oid_tostr(text, sizeof text, &id);
}

void read_head(git_repository* repository, GitState& state) {
  Reference head;
  const int code = git_repository_head(head.out(), repository);
  if (code == GIT_EUNBORNBRANCH || code == GIT_ENOTFOUND) return;
  must(code, state.root, "read HEAD");
  if (const git_oid* const id = git_reference_target(head.get())) state.head = hex_of(*id);
  if (git_reference_is_branch(head.get()) == 1) state.branch = git_reference_shorthand(head.get());
}

// Appends patch lines to a string and stops at kMaxDiff.
int append_line(const git_diff_delta*, const git_diff_hunk*, const git_diff_line* line, void* payload) {
  std::string& out = *static_cast<std::string*>(payload);
  if (line->origin == ' ' || line->origin == '+' || line->origin == '-') out += line->origin;
  out.append(line->content, std::min(line->content_len, kMaxDiff));
  return out.size() >= kMaxDiff ? GIT_EUSER : 0;
}

void read_changes(git_repository* repository, bool with_diff, GitState& state) {
  Tree tree;  // stays empty if HEAD is unborn: everything staged is then a change
  if (!state.head.empty()) {
    // By the commit's id: git_revparse_single of libgit2 1.5 leaks if objects are missing.
    git_oid id;
    Commit commit;
    must(git_oid_fromstr(&id, state.head.c_str()), state.root, "read HEAD");
    must(git_commit_lookup(commit.out(), repository, &id), state.root, "read the commit at HEAD");
    must(git_commit_tree(tree.out(), commit.get()), state.root, "read the tree of HEAD");
  }
  git_diff_options options = GIT_DIFF_OPTIONS_INIT;
  options.ignore_submodules = GIT_SUBMODULE_IGNORE_UNTRACKED;
  Diff diff;
  must(git_diff_tree_to_workdir_with_index(diff.out(), repository, tree.get(), &options), state.root,
       "compare the worktree");
  state.dirty = git_diff_num_deltas(diff.get()) > 0;
  if (!state.dirty || !with_diff) return;
  const int code = git_diff_print(diff.get(), GIT_DIFF_FORMAT_PATCH, append_line, &state.diff);
  if (code != GIT_EUSER) must(code, state.root, "print the changes");
  if (state.diff.size() > kMaxDiff) state.diff.resize(kMaxDiff);
}

void visit_tip(git_reference* reference, std::set<std::string>& seen, const std::function<void(git_tree*)>& visit) {
  Object object;  // a branch that cannot be resolved (a dangling origin/HEAD) has no tip
  if (git_reference_peel(object.out(), reference, GIT_OBJECT_TREE) < 0) return;
  if (!seen.insert(hex_of(*git_object_id(object.get()))).second) return;
  visit(reinterpret_cast<git_tree*>(object.get()));
}

// The tree at HEAD and at the tip of every branch, each different one once.
void for_each_tip(git_repository* repository, const std::string& root, const std::function<void(git_tree*)>& visit) {
  std::set<std::string> seen;
  Reference head;
  if (git_repository_head(head.out(), repository) == 0) visit_tip(head.get(), seen, visit);
  BranchIterator branches;
  must(git_branch_iterator_new(branches.out(), repository, GIT_BRANCH_ALL), root, "list branches");
  for (;;) {
    Reference branch;
    git_branch_t type{};
    const int code = git_branch_next(branch.out(), &type, branches.get());
    if (code == GIT_ITEROVER) return;
    must(code, root, "list branches");
    visit_tip(branch.get(), seen, visit);
  }
}

std::string blob_text(git_repository* repository, const git_oid& id, const std::string& root) {
  Blob blob;
  must(git_blob_lookup(blob.out(), repository, &id), root, "read a file of a branch");
  return std::string(static_cast<const char*>(git_blob_rawcontent(blob.get())),
                     static_cast<std::size_t>(git_blob_rawsize(blob.get())));
}

struct SuffixWalk {
  git_repository* repository;
  std::string root, suffix;
  std::size_t max_bytes = SIZE_MAX;
  std::set<std::pair<std::string, std::string>> seen;  // path and object: folders and files that branches share
  std::vector<std::pair<std::string, std::string>> found;

  void take(const std::string& path, const git_oid& id) {
    std::string text = blob_text(repository, id, root);
    if (text.size() <= max_bytes) found.emplace_back(path, std::move(text));
  }

  void walk(const git_tree* tree, const std::string& folder) {
    for (std::size_t i = 0; i < git_tree_entrycount(tree); ++i) {
      const git_tree_entry* const entry = git_tree_entry_byindex(tree, i);
      const git_object_t type = git_tree_entry_type(entry);
      const std::string path = join_path(folder, git_tree_entry_name(entry));
      const git_oid& id = *git_tree_entry_id(entry);
      const bool wanted = type == GIT_OBJECT_TREE || (type == GIT_OBJECT_BLOB && path.ends_with(suffix) &&
                                                      git_tree_entry_filemode(entry) != GIT_FILEMODE_LINK);
      if (!wanted || !seen.emplace(path, hex_of(id)).second) continue;
      if (type == GIT_OBJECT_BLOB) {
        take(path, id);
      } else {
        Tree below;
        must(git_tree_lookup(below.out(), repository, &id), root, "read a folder of a branch");
        walk(below.get(), path);
      }
    }
  }
};

// The trees of a commit, and of its parents from the second on: a stash keeps the index and untracked files there.
void walk_stash(SuffixWalk& walk, const git_oid& id) {
  Commit commit;
  must(git_commit_lookup(commit.out(), walk.repository, &id), walk.root, "read a stash");
  for (unsigned parent = 0; parent < git_commit_parentcount(commit.get()); ++parent) {
    Commit part;
    if (parent > 0) must(git_commit_parent(part.out(), commit.get(), parent), walk.root, "read a stash");
    Tree tree;
    must(git_commit_tree(tree.out(), parent > 0 ? part.get() : commit.get()), walk.root, "read a stash");
    walk.walk(tree.get(), "");
  }
}

void walk_stashes(SuffixWalk& walk) {
  std::vector<git_oid> stashes;
  const auto collect = [](std::size_t, const char*, const git_oid* id, void* payload) {
    static_cast<std::vector<git_oid>*>(payload)->push_back(*id);
    return 0;
  };
  must(git_stash_foreach(walk.repository, collect, &stashes), walk.root, "list stashes");
  for (const git_oid& id : stashes) walk_stash(walk, id);
}

void walk_references(SuffixWalk& walk) {
  std::set<std::string> seen;
  const auto visit = [&](git_tree* tree) { walk.walk(tree, ""); };
  ReferenceIterator references;
  must(git_reference_iterator_new(references.out(), walk.repository), walk.root, "list references");
  for (;;) {
    Reference reference;
    const int code = git_reference_next(reference.out(), references.get());
    if (code == GIT_ITEROVER) return;
    must(code, walk.root, "list references");
    visit_tip(reference.get(), seen, visit);
  }
}

// HEAD, which may be detached, and the index with all sides of a merge.
void walk_worktree(SuffixWalk& walk, git_repository* worktree) {
  std::set<std::string> seen;
  Reference head;
  if (git_repository_head(head.out(), worktree) == 0) {
    visit_tip(head.get(), seen, [&](git_tree* tree) { walk.walk(tree, ""); });
  }
  Index index;
  must(git_repository_index(index.out(), worktree), walk.root, "read the index");
  for (std::size_t i = 0; i < git_index_entrycount(index.get()); ++i) {
    const git_index_entry* const entry = git_index_get_byindex(index.get(), i);
    const std::string path = entry->path;
    const bool wanted = path.ends_with(walk.suffix) && (entry->mode & 0170000) == 0100000;
    if (wanted && walk.seen.emplace(path, hex_of(entry->id)).second) walk.take(path, entry->id);
  }
}

void walk_linked_worktrees(SuffixWalk& walk) {
  git_strarray names{};
  must(git_worktree_list(&names, walk.repository), walk.root, "list worktrees");
  const std::unique_ptr<git_strarray, void (*)(git_strarray*)> freed(&names, git_strarray_dispose);
  for (std::size_t i = 0; i < names.count; ++i) {
    Worktree worktree;
    Repository opened;
    // A worktree whose folder was removed has no index.
    if (git_worktree_lookup(worktree.out(), walk.repository, names.strings[i]) < 0) continue;
    if (git_repository_open_from_worktree(opened.out(), worktree.get()) < 0) continue;
    walk_worktree(walk, opened.get());
  }
}

struct HeadWalk {
  git_repository* repository;
  git_odb* odb;
  std::string root;
  std::uint64_t max_text;
  std::vector<GitFile> found;

  void walk(const git_tree* tree, const std::string& folder) {
    for (std::size_t i = 0; i < git_tree_entrycount(tree); ++i) {
      const git_tree_entry* const entry = git_tree_entry_byindex(tree, i);
      const std::string path = join_path(folder, git_tree_entry_name(entry));
      const git_oid& id = *git_tree_entry_id(entry);
      if (git_tree_entry_type(entry) == GIT_OBJECT_TREE) {
        Tree below;
        must(git_tree_lookup(below.out(), repository, &id), root, "read a folder of HEAD");
        walk(below.get(), path);
      } else if (git_tree_entry_type(entry) == GIT_OBJECT_BLOB) {
        std::size_t size = 0;
        git_object_t type{};
        must(git_odb_read_header(&size, &type, odb, &id), root, "read a file of HEAD");
        found.push_back({.path = path,
                         .mode = static_cast<unsigned>(git_tree_entry_filemode(entry)),
                         .id = hex_of(id),
                         .size = size,
                         .text = size < max_text ? blob_text(repository, id, root) : std::string()});
      }
    }
  }
};

// A folder with a HEAD, or the file of a linked worktree or submodule.
bool holds_git(const std::string& folder) {
  const std::string git = join_path(folder, ".git");
  if (!path_exists(git)) return false;
  return !is_folder(git) || path_exists(join_path(git, "HEAD"));
}

std::optional<std::string> search_upwards(std::string folder) {
  for (;;) {
    if (holds_git(folder)) return folder;
    if (folder == "/") return std::nullopt;
    folder = parent_path(folder);
  }
}

}  // namespace

std::optional<std::string> find_git_root(const std::string& folder) {
  // First the path as written, so that the answer is a prefix of it; then as it is on disk, for links into a
  // repository.
  if (auto root = search_upwards(absolute_path(folder))) return root;
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(folder.c_str(), nullptr), std::free);
  return real ? search_upwards(real.get()) : std::nullopt;
}

std::optional<GitState> read_git_state(const std::string& folder, bool with_diff) {
  const std::optional<std::string> root = find_git_root(folder);
  Repository repository;
  if (!root || !open_worktree(repository, *root)) return std::nullopt;
  GitState state;
  state.root = *root;
  read_head(repository.get(), state);
  read_changes(repository.get(), with_diff, state);
  return state;
}

std::string git_hooks_folder(const std::string& root) {
  const Repository repository = open_to_write(root);
  Config config;
  must(git_repository_config_snapshot(config.out(), repository.get()), root, "read its configuration");
  Buffer configured;
  const int code = git_config_get_path(configured.get(), config.get(), "core.hooksPath");
  if (code == 0) return join_path(root, configured.text());
  if (code != GIT_ENOTFOUND) must(code, root, "read core.hooksPath");
  Buffer folder;
  must(git_repository_item_path(folder.get(), repository.get(), GIT_REPOSITORY_ITEM_HOOKS), root, "find its hooks");
  return absolute_path(folder.text());
}

std::vector<std::string> git_blobs_on_branches(const std::string& root, const std::string& path) {
  const Repository repository = open_root(root);
  std::vector<std::string> found;
  std::set<std::string> seen;
  for_each_tip(repository.get(), root, [&](git_tree* tree) {
    TreeEntry entry;
    const int code = git_tree_entry_bypath(entry.out(), tree, path.c_str());
    if (code == GIT_ENOTFOUND) return;
    must(code, root, "look up a file of a branch");
    if (git_tree_entry_type(entry.get()) != GIT_OBJECT_BLOB) return;
    const git_oid& id = *git_tree_entry_id(entry.get());
    if (seen.insert(hex_of(id)).second) found.push_back(blob_text(repository.get(), id, root));
  });
  return found;
}

std::vector<std::pair<std::string, std::string>> git_files_with_suffix(const std::string& root,
                                                                       const std::string& suffix) {
  const Repository repository = open_root(root);
  SuffixWalk walk{repository.get(), root, suffix, SIZE_MAX, {}, {}};
  for_each_tip(repository.get(), root, [&](git_tree* tree) { walk.walk(tree, ""); });
  std::sort(walk.found.begin(), walk.found.end());
  return std::move(walk.found);
}

std::vector<std::pair<std::string, std::string>> git_files_in_commit(const std::string& root, const std::string& commit,
                                                                     const std::string& suffix, std::size_t max_bytes) {
  const Repository repository = open_root(root);
  git_oid id;
  Commit found;
  Tree tree;
  if (git_oid_fromstr(&id, commit.c_str()) < 0 || git_commit_lookup(found.out(), repository.get(), &id) < 0) {
    fail(ErrorKind::kNotFound, "{}: git has no commit {}", root, commit);
  }
  must(git_commit_tree(tree.out(), found.get()), root, "read the tree of a commit");
  SuffixWalk walk{repository.get(), root, suffix, max_bytes, {}, {}};
  walk.walk(tree.get(), "");
  return std::move(walk.found);
}

std::string git_config_text(const std::string& root, const std::string& key) {
  const Repository repository = open_root(root);
  Config config;
  must(git_repository_config_snapshot(config.out(), repository.get()), root, "read its configuration");
  const char* value = nullptr;
  const int code = git_config_get_string(&value, config.get(), key.c_str());
  if (code == GIT_ENOTFOUND) return {};
  must(code, root, "read its configuration");
  return value;
}

void git_set_config(const std::string& root, const std::string& key, const std::string& value) {
  const Repository repository = open_to_write(root);
  Config all, own;
  must(git_repository_config(all.out(), repository.get()), root, "read its configuration");
  must(git_config_open_level(own.out(), all.get(), GIT_CONFIG_LEVEL_LOCAL), root, "read its configuration");
  must(git_config_set_string(own.get(), key.c_str(), value.c_str()), root, "write its configuration");
}

std::vector<std::pair<std::string, std::string>> git_files_anywhere(const std::string& root, const std::string& suffix,
                                                                    std::size_t max_bytes) {
  const Repository repository = open_root(root);
  SuffixWalk walk{repository.get(), root, suffix, max_bytes, {}, {}};
  walk_references(walk);
  walk_stashes(walk);
  walk_worktree(walk, repository.get());
  walk_linked_worktrees(walk);
  std::sort(walk.found.begin(), walk.found.end());
  return std::move(walk.found);
}

std::optional<std::int64_t> git_head_time(const std::string& root) {
  const Repository repository = open_root(root);
  Reference head;
  const int code = git_repository_head(head.out(), repository.get());
  if (code == GIT_EUNBORNBRANCH || code == GIT_ENOTFOUND) return std::nullopt;
  must(code, root, "read HEAD");
  Object commit;
  must(git_reference_peel(commit.out(), head.get(), GIT_OBJECT_COMMIT), root, "read the commit at HEAD");
  constexpr std::int64_t kMostSeconds = std::int64_t{1} << 40;  // whatever a commit says
  const std::int64_t seconds = git_commit_time(reinterpret_cast<const git_commit*>(commit.get()));
  return std::clamp<std::int64_t>(seconds, 0, kMostSeconds) * 1'000'000;
}

std::vector<GitFile> git_files_at_head(const std::string& root, std::uint64_t max_text) {
  const Repository repository = open_root(root);
  Reference head;
  const int code = git_repository_head(head.out(), repository.get());
  if (code == GIT_EUNBORNBRANCH || code == GIT_ENOTFOUND) return {};
  must(code, root, "read HEAD");
  Object tree;
  must(git_reference_peel(tree.out(), head.get(), GIT_OBJECT_TREE), root, "read the tree of HEAD");
  Odb odb;
  must(git_repository_odb(odb.out(), repository.get()), root, "open its objects");
  HeadWalk files{repository.get(), odb.get(), root, max_text, {}};
  files.walk(reinterpret_cast<const git_tree*>(tree.get()), "");
  std::ranges::sort(files.found, {}, &GitFile::path);
  return std::move(files.found);
}

std::string git_tracked_inside(const std::string& root, const std::string& path) {
  const Repository repository = open_root(root);
  const std::string wanted = lower(path);
  Index index;
  must(git_repository_index(index.out(), repository.get()), root, "read the index");
  for (std::size_t i = 0; i < git_index_entrycount(index.get()); ++i) {
    const std::string_view tracked = git_index_get_byindex(index.get(), i)->path;
    const bool ends =
        tracked.size() == wanted.size() || (tracked.size() > wanted.size() && tracked[wanted.size()] == '/');
    if (ends && lower(tracked.substr(0, wanted.size())) == wanted) return std::string(tracked);
  }
  std::string found;
  std::set<std::string> seen;
  Reference head;
  if (git_repository_head(head.out(), repository.get()) != 0) return found;
  visit_tip(head.get(), seen, [&](git_tree* tree) {
    TreeEntry entry;
    if (git_tree_entry_bypath(entry.out(), tree, path.c_str()) == 0) found = path;
  });
  return found;
}

std::string git_blob_content(const std::string& root, const std::string& id) {
  const Repository repository = open_root(root);
  git_oid oid;
  must(git_oid_fromstr(&oid, id.c_str()), root, "read a file of HEAD");
  return blob_text(repository.get(), oid, root);
}

std::string git_lfs_folder(const std::string& root) {
  const Repository repository = open_root(root);
  const std::string shared = absolute_path(git_repository_commondir(repository.get()));
  Config config;
  must(git_repository_config_snapshot(config.out(), repository.get()), root, "read its configuration");
  Buffer storage;
  const int code = git_config_get_path(storage.get(), config.get(), "lfs.storage");
  if (code != GIT_ENOTFOUND) must(code, root, "read lfs.storage");
  return join_path(shared, code == 0 && !storage.text().empty() ? storage.text() : "lfs");
}

}  // namespace mlx
