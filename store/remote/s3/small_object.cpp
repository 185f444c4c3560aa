#include "store/remote/s3/small_object.h"

#include "base/error.h"
#include "base/log.h"

namespace mlx::store::s3 {

namespace {

constexpr std::uint64_t kCheckSize = 4096;  // more than a line of check takes

std::optional<Bytes> bytes_of(std::optional<Object>& object) {
  if (!object) return std::nullopt;
  return std::move(object->bytes);
}

}  // namespace

SmallObject get_small(Client& client, const std::string& name, std::uint64_t max_size, const std::string& known,
                      bool* unchanged) {
  bool same = false;
  std::optional<Object> object = client.get(name, max_size + kCheckSize, known, &same);
  if (unchanged) *unchanged = same;
  SmallObject found;
  if (object) found.tag = object->tag;
  if (same) return found;
  if (object) {
    if (std::optional<Bytes> content = without_check(object->bytes)) {
      found.file = {SmallFile::State::kWhole, *std::move(content)};
      return found;
    }
  }
  std::optional<Object> second = client.get(copy_of(name), max_size + kCheckSize);
  found.file = settle_copies(bytes_of(object), bytes_of(second));
  return found;
}

Written put_small(Client& client, const std::string& name, ByteView content, const std::string& tag) {
  const Bytes whole = with_check(content);
  Written written = client.put(name, whole, {.tag = tag});
  if (!written.done) return written;
  try {
    (void)client.put(copy_of(name), whole, {.anything = true});
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) throw;
    log("s3: the copy of {} was not written: {}", client.url_of(name), error.message);
  }
  return written;
}

}  // namespace mlx::store::s3
