#include "store/pack/layout.h"

#include <algorithm>

#include "base/error.h"
#include "base/path.h"
#include "store/pack/index.h"
#include "store/small_file.h"
#include "store/temporary.h"

namespace mlx::store {

namespace {

constexpr std::string_view kPlain = "mlx store 1\n", kEncrypted = "mlx store 1\nencrypted\n";
using State = SmallFile::State;

std::string packs_of(const std::string& folder) {
  return join_path(folder, "packs");
}
std::string format_of(const std::string& folder) {
  return join_path(packs_of(folder), "FORMAT");
}

bool is_known(const SmallFile& file) {
  return file.readable() && (as_text(file.content) == kPlain || as_text(file.content) == kEncrypted);
}

// A single file without a check may be damaged: an unknown layout in it is damage. An unknown layout with a right check
// was written by a newer mlx.
bool is_lost(const SmallFile& file) {
  return file.state == State::kLost || (file.state == State::kUnchecked && !is_known(file));
}

bool any_pack(const std::string& folder) {
  if (!is_folder(packs_of(folder))) return false;
  return std::ranges::any_of(list_folder(packs_of(folder)),
                             [](const std::string& name) { return name.ends_with(".pack"); });
}

}  // namespace

bool read_layout(const std::string& folder) {
  const std::string path = format_of(folder);
  const SmallFile file = read_small_file(path);
  if (is_known(file)) return as_text(file.content) == kEncrypted;
  if (file.state == State::kAbsent && !any_pack(folder)) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: there is no mlx store here ({} is missing)", folder, path),
                "make one with `mlx init`");
  }
  if (file.state == State::kAbsent || is_lost(file)) {
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("{}: {}", path, file.state == State::kAbsent ? "is gone, and so is its copy" : "is damaged"),
        "`mlx fsck --repair` writes that of a repository again, `mlx push --repair` that of a remote");
  }
  throw Error(ErrorKind::kCorrupt, fmt::format("{}: unknown layout of the store", path),
              "if a newer mlx wrote it, upgrade this one");
}

bool layout_is_damaged(const std::string& folder) {
  const SmallFile file = read_small_file(format_of(folder));
  if (file.state == State::kAbsent) return any_pack(folder);
  return is_lost(file) || (file.state == State::kHalf && is_known(file));
}

std::string layout_problem(const std::string& folder) {
  const SmallFile file = read_small_file(format_of(folder));
  if (file.state != State::kHalf) return {};
  return fmt::format("{}: one of its two copies is missing or damaged", format_of(folder));
}

void settle_layout(const std::string& folder, Disk& disk, bool encrypted) {
  const std::string packs = packs_of(folder);
  make_folders(packs);
  const SmallFile file = read_small_file(format_of(folder));
  if (file.state == State::kWhole || (file.state == State::kHalf && !is_known(file))) return;
  const Bytes content = is_known(file) ? file.content : to_bytes(encrypted ? kEncrypted : kPlain);
  TemporaryFiles temporaries(packs, disk);
  write_small_file(disk, format_of(folder), content, {.temporary = temporaries.next()});
  temporaries.release();
}

bool repair_layout(const std::string& folder, Disk& disk, bool if_empty) {
  const SmallFile file = read_small_file(format_of(folder));
  if (file.state != State::kAbsent && !is_lost(file)) return false;
  settle_layout(folder, disk, any_pack(folder) ? holds_encrypted_packs(folder) : if_empty);
  return true;
}

bool holds_encrypted_packs(const std::string& folder) {
  if (!any_pack(folder)) return false;
  bool encrypted = false;
  Index::load(packs_of(folder), nullptr)->visit([&](const Location& location) {
    encrypted = encrypted || location.record.key_id != 0;
  });
  return encrypted;
}

}  // namespace mlx::store
