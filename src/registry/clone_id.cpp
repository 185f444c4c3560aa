// See clone_id.h.
#include "registry/clone_id.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "registry/operations/operation.h"
#include "store/small_file.h"

namespace mlx::registry {
namespace {

std::string read_clone_id(const std::string& path) {
  std::string text = read_text(path);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}:1: expected 16 hex digits", path),
                "delete it, as `mlx fsck --repair` does: a new one is made");
  }
  return text;
}

}  // namespace

std::string clone_id_path(const std::string& mlx_folder) {
  return join_path(mlx_folder, "actor");
}

void write_small_text(store::Disk& disk, const std::string& path, std::string_view text, mode_t mode) {
  store::replace_file(disk, path, as_bytes(text), {.temporary = fmt::format("{}.{}", path, random_id()), .mode = mode});
}

void make_clone_id(const std::string& mlx_folder, store::Disk& disk) {
  const std::string path = clone_id_path(mlx_folder);
  if (!path_exists(path)) write_small_text(disk, path, random_id() + "\n", 0600);
}

std::string read_or_make_clone_id(const std::string& mlx_folder, store::Disk& disk) {
  make_clone_id(mlx_folder, disk);
  return read_clone_id(clone_id_path(mlx_folder));
}

std::string clone_id_problem(const std::string& mlx_folder) {
  const std::string path = clone_id_path(mlx_folder);
  try {
    if (path_exists(path)) (void)read_clone_id(path);
    return {};
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) return {};  // another user's file, which not everybody may read
    return error.message;
  }
}

}  // namespace mlx::registry
