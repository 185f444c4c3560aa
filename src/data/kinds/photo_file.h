// One photo of a dataset, wherever its bytes stand: a file of the version, or a member of a tar shard. Used by all that
// lists, reads or names photos.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "store/pack/store.h"

namespace mlx::data {

struct PhotoFile {
  std::string path;  // of a member "train-0.tar:cat/1.jpg"
  std::uint64_t size = 0;
  Digest stored;                            // the photo, or the shard that holds it
  std::optional<std::uint64_t> begin = {};  // of the photo in the shard
  static PhotoFile of(const store::Entry& file) { return {file.path, file.size, file.content}; }
};

// Photos with the text of their labels, in the order of the examples.
struct LabelledPhotos {
  std::vector<PhotoFile> files;
  std::vector<std::string> labels;
  std::vector<std::string> values{};  // of the column that divides the splits, if it is one of a table
};

// Throws kUsage, naming `path`, for a file that is too large for a photo.
void check_photo_size(std::uint64_t size, const std::string& path);

// Reads photos from the store's packs. Any number of threads may ask.
class PhotoReader {
 public:
  explicit PhotoReader(const store::Store& store) : store_(store) {}
  // kUsage if it is too large for a photo; the message begins with its path.
  Bytes read(const PhotoFile& photo) const;
  // The first `most` bytes, or all of them.
  Bytes read_begin(const PhotoFile& photo, std::size_t most) const;
  // The hash of its content, equal for a file and a member with the same bytes. Reads a member unless `bytes` are
  // given.
  std::uint64_t content_of(const PhotoFile& photo, const Bytes* bytes = nullptr) const;

 private:
  Bytes read_part(const PhotoFile& photo, std::uint64_t size) const;

  const store::Store& store_;
  // Opening a large shard decodes its list of chunks, so that open ones are kept for the next member.
  using Shard = std::unique_ptr<store::BlobReader>;
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<Digest, Shard>> idle_;
};

// Announces that they will be read.
void want_photos(const store::Store& store, const std::vector<PhotoFile>& photos);

// "a/b/1.jpg" from `begin` on: "b" for 2; "" if no folder begins there.
std::string_view folder_at(std::string_view path, std::size_t begin);
// The folders that hold all of the paths, as far as each path has a folder below them: class folders are the next ones.
std::string folders_around(const std::vector<std::string_view>& paths);
bool is_hidden(std::string_view path);
// "train", "valid" or "test" for a folder of exactly one of these names, else "".
std::string split_of_folder(std::string_view name);
std::string as_root(std::string folder);  // "photos/" for "./photos"; "" for the dataset itself

}  // namespace mlx::data
