// Shared by the store's tests: a store in a temporary folder, random bytes from a seed, and the kind of an error.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>

#include <functional>
#include <optional>
#include <random>
#include <string>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "fault_disk.h"
#include "store/pack/store.h"

namespace mlx::store {

inline Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

// Compressible: words from a small vocabulary.
inline Bytes text_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes;
  while (bytes.size() < count) {
    std::string word = "word" + std::to_string(random() % 1000) + " ";
    bytes.insert(bytes.end(), word.begin(), word.end());
  }
  bytes.resize(count);
  return bytes;
}

inline void write_test_file(const std::string& path, ByteView bytes) {
  make_folders(parent_path(path));
  Fd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  write_all(fd.get(), bytes, path);
}
inline void write_test_file(const std::string& path, std::string_view text) {
  write_test_file(path, as_bytes(text));
}

// The kind of the Error that `body` throws, nullopt if it does not throw.
inline std::optional<ErrorKind> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind;
  }
  return {};
}

struct TestStore {
  TempFolder temp;
  std::unique_ptr<Disk> disk = unsynced_disk();
  Pool pool{2};
  NoProgress progress;
  std::string folder = temp.path() + "/.mlx";
  std::unique_ptr<Store> store;

  explicit TestStore(const StoreOptions& options = {}) {
    Store::create(folder, *disk);
    store = std::make_unique<Store>(folder, *disk, pool, options);
  }
  Digest add_blob(ByteView bytes) {
    auto batch = store->begin();
    Digest id = batch->add_blob(bytes);
    batch->commit();
    return id;
  }
  std::vector<std::string> files_in_packs(const std::string& suffix) const {
    std::vector<std::string> found;
    for (const std::string& name : list_folder(folder + "/packs")) {
      if (name.ends_with(suffix)) found.push_back(name);
    }
    return found;
  }
  std::string pack_path(std::size_t number = 0) const {
    return folder + "/packs/" + files_in_packs(".pack").at(number);
  }
};

}  // namespace mlx::store
