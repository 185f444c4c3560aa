// One file's content on its way in: windows of it are read and cut while the chunks of the window before are hashed,
// compressed and added by all cores, and the whole file's digest runs beside them. Two windows are in memory, never the
// file.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "store/batch.h"
#include "store/chunk_list.h"
#include "store/chunker.h"
#include "store/tensor_base.h"

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

// The window behind `before`: what that one did not use, then what is read.
void follow(const Window& before, Window& window, Cutter& cutter, const ReadBytes& read) {
  window.offset = before.offset + before.used;
  window.last = before.last;
  std::size_t left = before.fill - before.used;
  if (window.bytes.size() < kWindow) window.bytes.resize(kWindow);
  std::copy_n(before.bytes.begin() + static_cast<std::ptrdiff_t>(before.used), left, window.bytes.begin());
  window.fill = left;
  read_into(window, kWindow, read);
  cut(window, cutter);
}

// The list of a file while its chunks come: full lists of level 0 go into the batch as they fill.
class ListBuilder {
 public:
  explicit ListBuilder(PackBatch& batch) : batch_(batch) {}
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
  PackBatch& batch_;
  ChunkList open_, pages_;
};

// A chunk of a tensor with what helps to store it small: the width of its elements, and its counterpart in the base.
void put_chunk(PackBatch& batch, const Digest& id, ByteView chunk, std::uint64_t offset,
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

BlobSummary write_blob(PackBatch& batch, const ReadBytes& read, std::uint64_t size_hint, const Digest* base,
                       const std::function<void(std::uint64_t)>& advance) {
  Window window;
  // One byte more than is expected, so that the end is seen without another buffer.
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

  Sha256 whole;
  ListBuilder list(batch);
  Window next;
  std::uint64_t size = 0;
  while (window.used > 0) {
    check_interrupted();
    std::vector<ChunkItem> items(window.ends.size());
    std::size_t groups = (items.size() + kChunksPerTask - 1) / kChunksPerTask;
    batch.pool().run(static_cast<std::int64_t>(groups) + 2, [&](std::int64_t task) {
      if (task == 0) {
        whole.update(ByteView(window.bytes).first(window.used));
        return;
      }
      if (task == 1) {
        follow(window, next, cutter, read);
        return;
      }
      std::size_t first = static_cast<std::size_t>(task - 2) * kChunksPerTask;
      for (std::size_t i = first; i < std::min(first + kChunksPerTask, items.size()); ++i) {
        std::size_t begin = i == 0 ? 0 : window.ends[i - 1];
        ByteView chunk = ByteView(window.bytes).subspan(begin, window.ends[i] - begin);
        items[i] = {Digest::of(chunk), chunk.size()};
        put_chunk(batch, items[i].id, chunk, window.offset + begin, cutter.stretches(), bases ? &*bases : nullptr);
      }
    });
    for (const ChunkItem& item : items) list.add(item);
    size += window.used;
    advance(window.used);
    std::swap(window, next);
  }
  Digest id = whole.finish();
  list.finish(id);
  return {id, size};
}

}  // namespace mlx::store
