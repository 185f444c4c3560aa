// Opens the files of weights of a folder that another program wrote (outside_tensors.h).

#include "nn/outside_tensors.h"

#include <set>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "formats/safetensors.h"
#include "nn/model_json.h"

namespace mlx::nn {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::size_t kLongestIndex = std::size_t{64} << 20;
constexpr std::size_t kMostShards = 4096;  // each is a mapping

void add_file(const std::string& folder, const std::string& name, OutsideTensors& all) {
  const std::string path = file_inside(folder, name), place = printable(path);
  (void)open_regular_file(path);
  const auto mapped = std::make_shared<const MappedFile>(path);
  const ByteView bytes = mapped->bytes();
  all.memory.push_back(mapped);
  formats::SafetensorsHeader header;
  try {
    header = formats::parse_safetensors(bytes, bytes.size());
  } catch (Error& error) {
    error.message = fmt::format("{}: {}", place, printable(error.message));
    throw;
  }
  for (formats::SafetensorsEntry& entry : header.tensors) {
    const auto [at, added] = all.tensors.try_emplace(
        entry.name, OutsideTensors::Tensor{std::move(entry.dtype), std::move(entry.shape),
                                           bytes.subspan(entry.begin, entry.end - entry.begin), place});
    if (!added) {
      fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is in {} too", place, printable(entry.name), at->second.place);
    }
  }
}

// The shards' names, and which tensors each must have.
using ShardMap = std::map<std::string, std::vector<std::string>>;

ShardMap read_index(const std::string& folder) {
  const std::string path = file_inside(folder, kIndexFile), place = printable(path);
  const Json json = parse_json(as_text(read_regular_file(path, kLongestIndex)), place);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", place, json.type_name());
  ShardMap shards;
  for (const auto& item : json_object(json, "weight_map", place).items()) {
    if (!item.value().is_string())
      fail(ErrorKind::kCorrupt, "{}: '{}': expected the name of a file", place, printable(item.key()));
    const auto& shard = item.value().get_ref<const std::string&>();
    if (!is_safe_relative(shard) || shard.find('/') != std::string::npos) {
      fail(ErrorKind::kCorrupt, "{}: '{}' is in '{}', which is no file of the folder", place, printable(item.key()),
           printable(shard));
    }
    shards[shard].push_back(item.key());
  }
  if (shards.empty() || shards.size() > kMostShards)
    fail(ErrorKind::kCorrupt, "{}: {} shards, expected 1 to {}", place, shards.size(), kMostShards);
  return shards;
}

OutsideTensors open_shards(const std::string& folder) {
  const ShardMap shards = read_index(folder);
  for (const auto& [shard, names] : shards) {
    if (!path_exists(join_path(folder, shard)))
      fail(ErrorKind::kNotFound, "{}: {} names it, but it is not there", printable(join_path(folder, shard)),
           kIndexFile);
  }
  OutsideTensors all;
  for (const auto& [shard, names] : shards) {
    add_file(folder, shard, all);
    const std::string place = printable(join_path(folder, shard));
    for (const std::string& name : names) {
      const auto found = all.tensors.find(name);
      if (found != all.tensors.end() && found->second.place == place) continue;
      fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is missing, which {} says is there", place, printable(name),
           kIndexFile);
    }
  }
  return all;
}

}  // namespace

std::string file_inside(const std::string& folder, const std::string& name) {
  std::string path = join_path(folder, name);
  check_inside(folder, path);
  return path;
}

OutsideTensors open_outside_tensors(const std::string& folder) {
  OutsideTensors all;
  if (path_exists(join_path(folder, kSingleFile))) {
    add_file(folder, kSingleFile, all);
    return all;
  }
  if (path_exists(join_path(folder, kIndexFile))) return open_shards(folder);
  throw Error(ErrorKind::kNotFound, fmt::format("{}: no {} and no {}", printable(folder), kSingleFile, kIndexFile),
              "weights are read from safetensors; other files must be converted by the program that wrote them");
}

}  // namespace mlx::nn
