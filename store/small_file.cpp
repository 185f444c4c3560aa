// The check line is text, so that a text file stays one.
#include "store/small_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/path.h"
#include "store/limits.h"

namespace mlx::store {

namespace {

constexpr std::string_view kCheck = "mlx checked 1 ";

std::string line_of(ByteView content) {
  return fmt::format("{}{}\n", kCheck, Digest::of(content).text());
}

std::optional<Bytes> read_if_there(const std::string& path) {
  try {
    return read_regular_file(path, kMaxNamedFile);
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kNotFound) return std::nullopt;
    if (error.kind == ErrorKind::kCorrupt) return Bytes();  // a pipe, a device, far too long: no copy that is whole
    throw;
  }
}

}  // namespace

Bytes with_check(ByteView content) {
  Bytes whole = to_bytes(line_of(content));
  whole.insert(whole.end(), content.begin(), content.end());
  return whole;
}

bool has_check(ByteView whole) {
  return as_text(whole).starts_with(kCheck);
}

std::optional<Bytes> without_check(ByteView whole) {
  const std::size_t end = as_text(whole).find('\n');
  if (!has_check(whole) || end == std::string_view::npos) return std::nullopt;
  const ByteView content = whole.subspan(end + 1);
  if (as_text(whole).substr(0, end + 1) != line_of(content)) return std::nullopt;
  return Bytes(content.begin(), content.end());
}

std::string copy_of(const std::string& name) {
  return name + ".copy";
}

// If both are whole and differ, a writer was killed between them: the first copy is the newer one.
SmallFile settle_copies(const std::optional<Bytes>& first, const std::optional<Bytes>& second) {
  using State = SmallFile::State;
  if (!first && !second) return {};
  if (first && !second && !has_check(*first)) return {State::kUnchecked, *first};
  std::optional<Bytes> one = first ? without_check(*first) : std::nullopt;
  std::optional<Bytes> other = second ? without_check(*second) : std::nullopt;
  if (one && one == other) return {State::kWhole, *std::move(one)};
  if (one) return {State::kHalf, *std::move(one)};
  if (other) return {State::kHalf, *std::move(other)};
  return {State::kLost, {}};
}

SmallFile read_small_file(const std::string& path) {
  return settle_copies(read_if_there(path), read_if_there(copy_of(path)));
}

void replace_file(Disk& disk, const std::string& path, ByteView content, const SmallFileOptions& options) {
  const std::string& temporary = options.temporary;
  disk.remove(temporary);  // left by a process that died
  try {
    {
      const Fd fd = disk.create(temporary);
      if (options.mode != 0 && ::fchmod(fd.get(), options.mode) != 0)
        fail_errno(errno, temporary, "change the mode of");
      disk.write(fd, content, temporary);
      disk.sync(fd, temporary);
    }
    if (options.shred) {
      replace_shredding(disk, temporary, path);
    } else {
      disk.rename(temporary, path);
      disk.sync_folder(parent_path(path));
    }
  } catch (const Error&) {
    try {
      disk.remove(temporary);
    } catch (const Error&) {
      // The first error is the one to report.
    }
    throw;
  }
}

void write_small_file(Disk& disk, const std::string& path, ByteView content, const SmallFileOptions& options) {
  const Bytes whole = with_check(content);
  replace_file(disk, path, whole, options);
  replace_file(disk, copy_of(path), whole, options);
}

}  // namespace mlx::store
