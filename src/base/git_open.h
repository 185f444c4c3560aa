// Objects of libgit2 with their owners, and opening a repository. For git.cpp alone.
#pragma once

#include <git2.h>

#include <string>
#include <utility>

namespace mlx::git {

// Owns a libgit2 object; `out()` is where libgit2 puts it.
template <typename T, void (*Free)(T*)>
class Handle {
 public:
  Handle() = default;
  ~Handle() { Free(pointer_); }
  Handle(Handle&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Handle& operator=(Handle&&) = delete;
  T** out() { return &pointer_; }
  T* get() const { return pointer_; }

 private:
  T* pointer_ = nullptr;
};

using Repository = Handle<git_repository, git_repository_free>;
using Reference = Handle<git_reference, git_reference_free>;
using Object = Handle<git_object, git_object_free>;
using Commit = Handle<git_commit, git_commit_free>;
using Tree = Handle<git_tree, git_tree_free>;
using TreeEntry = Handle<git_tree_entry, git_tree_entry_free>;
using Blob = Handle<git_blob, git_blob_free>;
using Diff = Handle<git_diff, git_diff_free>;
using Config = Handle<git_config, git_config_free>;
using ReferenceIterator = Handle<git_reference_iterator, git_reference_iterator_free>;
using Index = Handle<git_index, git_index_free>;
using Worktree = Handle<git_worktree, git_worktree_free>;
using Odb = Handle<git_odb, git_odb_free>;
using BranchIterator = Handle<git_branch_iterator, git_branch_iterator_free>;

class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { git_buf_dispose(&buffer_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  git_buf* get() { return &buffer_; }
  std::string text() const { return buffer_.ptr == nullptr ? "" : std::string(buffer_.ptr, buffer_.size); }

 private:
  git_buf buffer_{};
};

void must(int code, const std::string& root, const char* what);  // kIo with what libgit2 says
// False if `root` holds no repository with a worktree.
bool open_worktree(Repository& repository, const std::string& root);
Repository open_root(const std::string& root);  // kNotFound
// kRefused if the repository is another user's and not in safe.directory.
Repository open_to_write(const std::string& root);

}  // namespace mlx::git
