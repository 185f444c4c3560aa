// See outside_output.h.
#include "cmd/outside_output.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/new_folder.h"
#include "store/disk.h"

namespace mlx::cmd {
namespace {

using convert::FilePiece;
using convert::OutsideFile;

// A stage that ends however its work ends.
class Stage {
 public:
  Stage(Progress& progress, std::string_view what, const std::vector<OutsideFile>& files) : progress_(progress) {
    std::uint64_t bytes = 0;
    for (const OutsideFile& file : files) bytes += file.size();
    progress_.begin(what, bytes, "B");
  }
  ~Stage() { progress_.end(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  Bytes made(const FilePiece& piece) {
    progress_.check_interrupted();
    Bytes bytes = piece.make();
    CHECK(bytes.size() == piece.size);
    return bytes;
  }
  void advance(std::uint64_t bytes) { progress_.advance(bytes); }

 private:
  Progress& progress_;
};

bool file_holds(const std::string& path, const OutsideFile& file, Stage& stage) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
  if (static_cast<std::uint64_t>(found.st_size) != file.size()) return false;
  const Fd fd = open_file(path, O_RDONLY);
  std::uint64_t at = 0;
  Bytes there;
  for (const FilePiece& piece : file.pieces) {
    const Bytes bytes = stage.made(piece);
    there.resize(bytes.size());
    if (read_at(fd.get(), there.data(), there.size(), at, path) != there.size() || there != bytes) return false;
    at += bytes.size();
    stage.advance(bytes.size());
  }
  return true;
}

bool holds_all(const std::string& path, bool folder, const std::vector<OutsideFile>& files, Stage& stage) {
  if (folder != is_folder(path)) return false;
  if (!folder) return file_holds(path, files.at(0), stage);
  std::vector<std::string> names, there = list_folder(path);
  for (const OutsideFile& file : files) names.push_back(file.name);
  std::ranges::sort(names);
  std::ranges::sort(there);
  return names == there && std::ranges::all_of(files, [&](const OutsideFile& file) {
           return file_holds(join_path(path, file.name), file, stage);
         });
}

void write_file(const std::string& path, const OutsideFile& file, store::Disk& disk, Stage& stage) {
  const Fd fd = disk.create(path);
  for (const FilePiece& piece : file.pieces) {
    const Bytes bytes = stage.made(piece);
    disk.write(fd, bytes, path);
    stage.advance(bytes.size());
  }
  disk.sync(fd, path);
}

}  // namespace

bool is_written(const std::string& path, bool folder, const std::vector<OutsideFile>& files, Context& context) {
  if (!path_exists(path) && !is_folder(parent_path(path)))
    fail(ErrorKind::kNotFound, "{}: there is no folder {}", printable(path), printable(parent_path(path)));
  if (!path_exists(path) || (folder && is_folder(path) && list_folder(path).empty())) return false;
  Stage stage(context.progress(), "comparing", files);
  if (holds_all(path, folder, files, stage)) return true;
  throw Error(ErrorKind::kConflict, fmt::format("{}: exists and holds something else", printable(path)),
              "name another place, or remove it first");
}

void write_outside(const std::string& path, bool folder, const std::vector<OutsideFile>& files, Context& context) {
  NewFolder made(path, "export");
  {
    Stage stage(context.progress(), "writing", files);
    for (const OutsideFile& file : files) write_file(join_path(made.path(), file.name), file, context.disk(), stage);
  }
  context.disk().sync_folder(made.path());
  if (folder)
    made.keep(context.folder());
  else
    made.keep_file(files.at(0).name);
  context.disk().sync_folder(parent_path(path));
}

}  // namespace mlx::cmd
