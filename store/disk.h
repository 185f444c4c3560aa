// The one narrow interface through which the store changes a disk. Tests replace it with disks that fail, stop or lose
// writes at every step (each call is a kill point, counted in order).
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/fd.h"

namespace mlx::store {

class Disk {
 public:
  virtual ~Disk() = default;
  // A new file for appending; kConflict if it exists.
  virtual Fd create(const std::string& path) = 0;
  virtual Fd open_append(const std::string& path) = 0;  // created if absent
  virtual void write(const Fd& fd, ByteView bytes, const std::string& path) = 0;
  virtual void sync(const Fd& fd, const std::string& path) = 0;
  virtual void sync_folder(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;  // atomic, replaces
  virtual void truncate(const std::string& path, std::uint64_t size) = 0;
  virtual void remove(const std::string& path) = 0;
  // Called before Beneath changes a worktree, so that such changes are counted, too.
  virtual void step(const std::string&) {}
};

// Renames `from` to `to`, whose old bytes are then overwritten and synced, so that they cannot be read again. (A file
// system that does not write in place keeps them until it reuses the space.)
void replace_shredding(Disk& disk, const std::string& from, const std::string& to);

// Overwrites the file's bytes, syncs them, and removes it. Links are not followed.
void shred(Disk& disk, const std::string& path);

// The real one. With MLX_KILL_AT=N in the environment of a test the process is killed (SIGKILL) before its Nth call;
// set by cmd/main.cpp through `kill_at` (0: never).
std::unique_ptr<Disk> real_disk(int kill_at = 0);

}  // namespace mlx::store
