// DVC's metadata: .dvc files (a small part of YAML), and the manifests of folders in its cache (.dir files, JSON).
// Bytes in, structure out. Used by import. Source: dvc.org, "User Guide: .dvc Files" and "Internal Files".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::formats {

struct DvcOut {
  std::string path;       // relative to the .dvc file's folder (and its wdir)
  std::string md5;        // 32 lower-case hex digits
  bool folder = false;    // md5 is the digest of the manifest, "….dir"
  bool version2 = false;  // no `hash: md5`: the older cache layout, and text hashed without carriage returns
  bool executable = false;
  std::optional<std::uint64_t> size;   // of all files
  std::optional<std::uint64_t> files;  // of a folder
};

struct DvcFile {
  std::string wdir;  // "" for none
  std::vector<DvcOut> outs;
};

// kCorrupt "WHAT:LINE: …" for anything that DVC does not write. Outs without cached content (cache: false) are left
// out.
DvcFile parse_dvc_file(std::string_view text, std::string_view what);

struct DvcDirEntry {
  std::string path;  // safe (is_safe_relative)
  std::string md5;
};
// Sorted by path. kCorrupt also for unsafe and doubled paths.
std::vector<DvcDirEntry> parse_dvc_dir(std::string_view text, std::string_view what);

// The part of YAML that DVC writes: block mappings and block sequences of scalars on one line, plain or quoted, and
// comments; at most 16 levels deep. Everything is a string, nothing (null) or nested. kCorrupt for the rest.
Json parse_block_yaml(std::string_view text, std::string_view what);

}  // namespace mlx::formats
