// Random access into a stored file through its chunk list. Each chunk is verified when it is decoded, and the last one
// is kept, so that reading in order decodes every chunk once. Lists are verified before they are stored. A file that is
// read in order is verified once more as a whole, before its last bytes are returned.
#include "store/pack/blob_reader.h"

#include <algorithm>

#include "base/error.h"
#include "store/format/chunk_list.h"
#include "store/pack/store_state.h"

namespace mlx::store {

struct BlobReader::State {
  State(const StoreState& the_store, const Digest& the_id) : store(the_store), id(the_id) {}
  const StoreState& store;
  Digest id;
  std::uint64_t size = 0;
  // Chunks, or pages of them, and their begins in the file. A file of one chunk has no list.
  std::vector<ChunkItem> items;
  std::vector<std::uint64_t> begins;
  bool paged = false;

  // The page and the chunk that were read last.
  std::size_t page = static_cast<std::size_t>(-1);
  std::vector<ChunkItem> page_items;
  std::vector<std::uint64_t> page_begins;
  std::uint64_t chunk_begin = 0;
  Bytes chunk;
  bool loaded = false;

  // How much was read from the beginning on, until the whole is verified.
  bool verified = false, wrong = false;
  std::uint64_t hashed = 0;
  Sha256 hash;

  std::string name() const { return fmt::format("chunk list of {}", id.brief()); }

  static std::vector<std::uint64_t> begins_of(const std::vector<ChunkItem>& items, std::uint64_t first) {
    std::vector<std::uint64_t> begins;
    begins.reserve(items.size());
    for (const ChunkItem& item : items) {
      begins.push_back(first);
      first += item.size;
    }
    return begins;
  }

  static std::size_t item_at(const std::vector<std::uint64_t>& begins, std::uint64_t offset) {
    return static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), offset) - begins.begin()) - 1;
  }

  void load_page(std::size_t number) {
    if (page == number) return;
    Bytes bytes;
    store.read(ObjectKind::kChunk, items[number].id, bytes);
    page_items = std::move(decode_page(bytes, items[number], name()).items);
    page_begins = begins_of(page_items, begins[number]);
    page = number;
  }

  // Reads the chunk that holds `offset`, which lies inside the file, into `chunk`.
  void load(std::uint64_t offset) {
    if (loaded && offset >= chunk_begin && offset - chunk_begin < chunk.size()) return;
    std::size_t number = item_at(begins, offset);
    ChunkItem item = items[number];
    std::uint64_t begin = begins[number];
    if (paged) {
      load_page(number);
      number = item_at(page_begins, offset);
      item = page_items[number];
      begin = page_begins[number];
    }
    loaded = false;
    if (wrong) refuse();
    store.read(ObjectKind::kChunk, item.id, chunk);
    if (chunk.size() != item.size) {
      fail(ErrorKind::kCorrupt, "{}: chunk {} has {} bytes, the list says {}", name(), item.id.brief(), chunk.size(),
           item.size);
    }
    chunk_begin = begin;
    verify_so_far();
    if (wrong) refuse();
    loaded = true;
  }

  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::kCorrupt, fmt::format("file {}: its chunks are not its content", id.brief()),
                "`mlx fsck --repair` sets its chunk list aside and fetches it again");
  }

  void verify_so_far() {
    if (verified || chunk_begin != hashed) return;
    hash.update(chunk);
    hashed += chunk.size();
    if (hashed < size) return;
    verified = hash.finish() == id;
    wrong = !verified;
    if (verified) store.set_verified(id);
  }
};

BlobReader::BlobReader(const StoreState& store, const Digest& id) : state_(std::make_unique<State>(store, id)) {
  if (auto location = store.index()->find(store.key_of(ObjectKind::kChunk, id))) {
    state_->size = location->record.plain_size;
    state_->items = {{id, state_->size}};
    state_->begins = {0};
    state_->verified = true;  // as a chunk
    return;
  }
  Bytes bytes;
  store.read(ObjectKind::kChunkList, id, bytes);
  ChunkList list = decode_chunk_list(bytes, state_->name());
  state_->verified = store.is_verified(id);
  state_->size = list.size;
  state_->paged = list.level == 1;
  state_->items = std::move(list.items);
  state_->begins = State::begins_of(state_->items, 0);
}
BlobReader::~BlobReader() = default;
BlobReader::BlobReader(BlobReader&&) noexcept = default;

std::uint64_t BlobReader::size() const {
  return state_->size;
}
const Digest& BlobReader::id() const {
  return state_->id;
}

std::size_t BlobReader::read_at(std::uint64_t offset, void* data, std::size_t count) const {
  auto* out = static_cast<std::uint8_t*>(data);
  std::size_t done = 0;
  while (done < count && offset < state_->size) {
    state_->load(offset);
    std::size_t inside = static_cast<std::size_t>(offset - state_->chunk_begin);
    std::size_t part = std::min(count - done, state_->chunk.size() - inside);
    std::copy_n(state_->chunk.begin() + static_cast<std::ptrdiff_t>(inside), part, out + done);
    done += part;
    offset += part;
  }
  return done;
}

}  // namespace mlx::store
