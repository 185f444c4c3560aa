// Three stages, each on a window of the file: one window is read and cut, while the window before it is hashed (its
// chunks and the whole file side by side), while all cores compress and add the chunks of the window before that. Three
// windows are in memory, never the file.
#include "store/pack/blob_writer.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/hash_lanes.h"
#include "store/format/chunk_list.h"
#include "store/format/chunker.h"
#include "store/pack/batch.h"
#include "store/pack/tensor_base.h"

namespace mlx::store {

namespace {

using ReadBytes = std::function<std::size_t(void*, std::size_t)>;

constexpr std::size_t kWindow = std::size_t{8} << 20;
constexpr std::size_t kChunksPerTask = 4;

// A stretch of the file in memory: `fill` bytes, of which the first `used` are cut into whole chunks.
struct Window {
  Bytes bytes;
  std::size_t fill = 0;
  std::size_t used = 0;
  std::uint64_t offset = 0;  // in the file
  bool last = false;
  std::vector<std::size_t> ends;  // of the chunks, in this window
  std::vector<Digest> ids;        // of the chunks, once it is hashed
  ByteView chunk(std::size_t number) const {
    std::size_t begin = number == 0 ? 0 : ends[number - 1];
    return ByteView(bytes).subspan(begin, ends[number] - begin);
  }
};

void read_into(Window& window, std::size_t capacity, const ReadBytes& read) {
  if (window.bytes.size() < capacity) window.bytes.resize(capacity);
  while (window.fill < capacity && !window.last) {
    std::size_t count = read(window.bytes.data() + window.fill, capacity - window.fill);
    window.last = count == 0;
    window.fill += count;
  }
}

void cut(Window& window, Cutter& cutter) {
  window.ends.clear();
  window.used = 0;
  while (window.used < window.fill) {
    ByteView rest = ByteView(window.bytes).subspan(window.used, window.fill - window.used);
    std::size_t length = cutter.next(window.offset + window.used, rest, window.last);
    if (length == 0) break;
    window.used += length;
    window.ends.push_back(window.used);
  }
}

// Hashes the chunks, and the window into the file's digest: both together take about the time of one.
void hash(Window& window, LaneHash& whole) {
  std::vector<LaneHash> chunks(window.ends.size());
  std::vector<LaneHash*> streams{&whole};
  std::vector<ByteView> pieces{ByteView(window.bytes).first(window.used)};
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    streams.push_back(&chunks[i]);
    pieces.push_back(window.chunk(i));
  }
  update_lanes(streams, pieces);
  window.ids.clear();
  for (LaneHash& chunk : chunks) window.ids.push_back(chunk.finish());
}

// Fills the window behind `before`: first the bytes that `before` did not use, then bytes from `read`.
void follow(const Window& before, Window& window, Cutter& cutter, const ReadBytes& read) {
  window.offset = before.offset + before.used;
  window.last = before.last;
  std::size_t left = before.fill - before.used;
  std::size_t capacity = before.last ? left : kWindow;  // no large buffer behind the end of a small file
  if (window.bytes.size() < capacity) window.bytes.resize(capacity);
  std::copy_n(before.bytes.begin() + static_cast<std::ptrdiff_t>(before.used), left, window.bytes.begin());
  window.fill = left;
  read_into(window, capacity, read);
  cut(window, cutter);
}

// Builds the list of a file chunk by chunk. Full lists of level 0 go into the batch at once.
class ListBuilder {
 public:
  explicit ListBuilder(Batch& batch) : batch_(batch) {}
  void add(const ChunkItem& item) {
    if (open_.items.size() == kItemsPerList) close_page();
    open_.items.push_back(item);
    open_.size += item.size;
  }
  // Adds the list under the file's id, unless the file is a single chunk (and so has that id itself).
  void finish(const Digest& file) {
    if (pages_.items.empty()) {
      if (open_.items.size() > 1) batch_.put(ObjectKind::kChunkList, file, encode_chunk_list(open_));
      return;
    }
    close_page();
    pages_.level = 1;
    batch_.put(ObjectKind::kChunkList, file, encode_chunk_list(pages_));
  }

 private:
  void close_page() {
    Digest id = batch_.add(ObjectKind::kChunk, encode_chunk_list(open_));
    pages_.items.push_back({id, open_.size});
    pages_.size += open_.size;
    open_ = {};
  }
  Batch& batch_;
  ChunkList open_, pages_;
};

// Adds a chunk. For a chunk of a tensor, the width of its elements and its counterpart in the base make it smaller.
void put_chunk(Batch& batch, const Digest& id, ByteView chunk, std::uint64_t offset,
               const std::vector<Stretch>& stretches, const TensorBase* bases) {
  auto behind = std::ranges::upper_bound(stretches, offset, {}, &Stretch::begin);
  if (behind == stretches.begin() || std::prev(behind)->end <= offset) {
    batch.put(ObjectKind::kChunk, id, chunk);
    return;
  }
  const Stretch& tensor = *std::prev(behind);
  const Digest* base = bases ? bases->find(tensor.name, offset - tensor.begin, chunk.size()) : nullptr;
  batch.put(ObjectKind::kChunk, id, chunk, tensor.width, base);
}

}  // namespace

BlobSummary write_blob(Batch& batch, const ReadBytes& read, std::uint64_t size_hint, const Digest* base,
                       const std::function<void(std::uint64_t)>& advance) {
  Window window;
  // One byte more than expected, so that the end shows without another buffer.
  read_into(window, static_cast<std::size_t>(std::clamp<std::uint64_t>(size_hint + 1, kTargetChunk + 1, kWindow)),
            read);
  if (window.last && window.fill <= kTargetChunk) {
    ByteView content = ByteView(window.bytes).first(window.fill);
    Digest id = Digest::of(content);
    batch.put(ObjectKind::kChunk, id, content);
    advance(window.fill);
    return {id, window.fill};
  }

  read_into(window, std::max(window.fill, header_room(ByteView(window.bytes).first(window.fill), size_hint)), read);
  ByteView head = ByteView(window.bytes).first(window.fill);
  Cutter cutter(cut_points(head, window.last ? window.fill : size_hint));
  std::optional<TensorBase> bases;
  if (base && !cutter.stretches().empty()) bases.emplace(batch.store(), *base);
  cut(window, cutter);
  if (!window.last && window.ends.empty()) follow(Window(window), window, cutter, read);

  LaneHash whole;
  ListBuilder list(batch);
  Window hashed, next;  // hashed: its chunks are not added yet
  std::uint64_t size = 0;
  while (window.used > 0 || hashed.used > 0) {
    batch.interruption().check();
    std::size_t groups = (hashed.ends.size() + kChunksPerTask - 1) / kChunksPerTask;
    batch.pool().run(static_cast<std::int64_t>(groups) + 2, [&](std::int64_t task) {
      if (task == 0) {
        hash(window, whole);
        return;
      }
      if (task == 1) {
        follow(window, next, cutter, read);
        return;
      }
      std::size_t first = static_cast<std::size_t>(task - 2) * kChunksPerTask;
      for (std::size_t i = first; i < std::min(first + kChunksPerTask, hashed.ends.size()); ++i) {
        ByteView chunk = hashed.chunk(i);
        std::uint64_t offset = hashed.offset + hashed.ends[i] - chunk.size();
        put_chunk(batch, hashed.ids[i], chunk, offset, cutter.stretches(), bases ? &*bases : nullptr);
      }
    });
    for (std::size_t i = 0; i < hashed.ends.size(); ++i) list.add({hashed.ids[i], hashed.chunk(i).size()});
    size += hashed.used;
    advance(hashed.used);
    std::swap(hashed, window);
    std::swap(window, next);
  }
  Digest id = whole.finish();
  list.finish(id);
  return {id, size};
}

}  // namespace mlx::store
