// The fields of .dvc files and folder manifests; block_yaml.cpp and base/json.h parse their syntax.
#include "formats/dvc.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"

namespace mlx::formats {
namespace {

constexpr std::string_view kDir = ".dir";

bool is_md5(std::string_view text) {
  return text.size() == 32 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string text_of(const Json& map, const std::string& key) {
  return map.contains(key) && map[key].is_string() ? map[key].get<std::string>() : std::string();
}

std::optional<std::uint64_t> number_of(const Json& map, const std::string& key, std::string_view what) {
  const std::string text = text_of(map, key);
  if (text.empty()) return std::nullopt;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorKind::kCorrupt, "{}: '{}' is not a number: {}", what, key, text);
  return number;
}

DvcOut parse_out(const Json& map, std::string_view what) {
  DvcOut out;
  out.path = text_of(map, "path");
  if (out.path.empty() || out.path.find('\0') != std::string::npos)
    fail(ErrorKind::kCorrupt, "{}: an out has no path", what);
  out.md5 = text_of(map, "md5");
  if (out.md5.ends_with(kDir)) {
    out.folder = true;
    out.md5.resize(out.md5.size() - kDir.size());
  }
  if (!is_md5(out.md5)) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: {} has no MD5 of 32 lower-case hex digits", what, out.path),
                "`dvc commit` writes it");
  }
  const std::string hash = text_of(map, "hash");
  if (!hash.empty() && hash != "md5")
    fail(ErrorKind::kMissing, "{}: {} is hashed by {}, which is not supported", what, out.path, hash);
  out.version2 = hash.empty();
  out.executable = text_of(map, "isexec") == "true";
  out.size = number_of(map, "size", what);
  out.files = number_of(map, "nfiles", what);
  return out;
}

}  // namespace

DvcFile parse_dvc_file(std::string_view text, std::string_view what) {
  const Json document = parse_block_yaml(text, what);
  if (!document.is_object() || !document.contains("outs") || !document["outs"].is_array())
    fail(ErrorKind::kCorrupt, "{}: has no list of outs", what);
  DvcFile file;
  file.wdir = text_of(document, "wdir");
  for (const Json& out : document["outs"]) {
    if (!out.is_object()) fail(ErrorKind::kCorrupt, "{}: an out is not a mapping", what);
    if (text_of(out, "cache") == "false") continue;
    file.outs.push_back(parse_out(out, what));
  }
  return file;
}

std::vector<DvcDirEntry> parse_dvc_dir(std::string_view text, std::string_view what) {
  const Json document = parse_json(text, what);
  if (!document.is_array()) fail(ErrorKind::kCorrupt, "{}: is not a list of files", what);
  std::vector<DvcDirEntry> entries;
  for (const Json& item : document) {
    DvcDirEntry entry{json_string(item, "relpath", what), json_string(item, "md5", what)};
    if (!is_safe_relative(entry.path)) fail(ErrorKind::kCorrupt, "{}: '{}' is not a path inside", what, entry.path);
    if (!is_md5(entry.md5)) fail(ErrorKind::kCorrupt, "{}: {} has no MD5", what, entry.path);
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &DvcDirEntry::path);
  const auto twice = std::ranges::adjacent_find(entries, {}, &DvcDirEntry::path);
  if (twice != entries.end()) fail(ErrorKind::kCorrupt, "{}: '{}' occurs twice", what, twice->path);
  return entries;
}

}  // namespace mlx::formats
