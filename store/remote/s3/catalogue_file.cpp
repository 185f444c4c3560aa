// A writer whose condition fails reads the catalogue and tries again. There are many tries, since a slow writer may
// lose many times in a row.
#include "store/remote/s3/catalogue_file.h"

#include "base/error.h"
#include "base/progress.h"
#include "store/remote/s3/small_object.h"

namespace mlx::store::s3 {

namespace {

constexpr const char* kName = "catalogue";
constexpr const char* kFormatName = "format";
constexpr std::string_view kFormat = "mlx s3 remote 1\n";
constexpr std::size_t kMaxFormat = 4096;
constexpr int kTries = 200;

}  // namespace

bool CatalogueFile::refresh() {
  bool unchanged = false;
  const SmallObject object = get_small(client_, kName, kMaxCatalogueSize, tag_, &unchanged);
  if (unchanged) return true;
  const SmallFile& file = object.file;
  if (file.state == SmallFile::State::kAbsent) {
    if (!tag_.empty()) fail(ErrorKind::kCorrupt, "{}: has gone", client_.url_of(kName));
    return false;
  }
  if (!file.readable()) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: is damaged, and so is its copy", client_.url_of(kName)),
                "`mlx push --repair` from a clone writes it again");
  }
  if (object.tag.empty() && file.state != SmallFile::State::kHalf)
    fail(ErrorKind::kMissing, "{}: the server gives no entity tags", client_.url_of(kName));
  current_ = decode_catalogue(as_text(file.content), client_.url_of(kName));
  tag_ = object.tag;
  return true;
}

std::vector<std::string> CatalogueFile::mend() {
  std::vector<std::string> mended;
  const SmallObject object = get_small(client_, kName, kMaxCatalogueSize);
  const std::optional<Object> copy = client_.get(copy_of(kName), kMaxCatalogueSize);
  if (object.file.state == SmallFile::State::kLost || !copy || without_check(copy->bytes) != object.file.content)
    mended.emplace_back(kName);
  current_ =
      object.file.readable() ? decode_catalogue(as_text(object.file.content), client_.url_of(kName)) : Catalogue();
  const Written written = put_small(client_, kName, as_bytes(encode_catalogue(current_)), object.tag);
  if (!written.done || written.tag.empty())
    (void)refresh();  // someone else writes it, or the server gives no tag
  else
    tag_ = written.tag;
  const std::optional<Object> format = client_.get(kFormatName, kMaxFormat);
  if (!format || as_text(format->bytes) != kFormat) {
    (void)client_.put(kFormatName, as_bytes(kFormat), {.anything = true});
    mended.emplace_back(kFormatName);
  }
  return mended;
}

// Writes the same bytes each time, so that a server that ignores the conditions does no harm.
void CatalogueFile::probe_conditions() {
  const ByteView bytes = as_bytes(kFormat);
  if (!client_.put(kFormatName, bytes, {}).done) {
    const std::optional<Object> there = client_.get(kFormatName, kMaxFormat);
    if (!there || as_text(there->bytes) != kFormat)
      fail(ErrorKind::kCorrupt, "{}: not a layout that this mlx knows", client_.url_of(kFormatName));
  }
  const bool ignores_absence = client_.put(kFormatName, bytes, {}).done;
  const bool ignores_tag = client_.put(kFormatName, bytes, {.tag = "\"00000000000000000000000000000000\""}).done;
  if (!ignores_absence && !ignores_tag) return;
  throw Error(ErrorKind::kMissing,
              fmt::format("{}: the server ignores {} on PUT, so that two pushes at once could lose versions",
                          client_.url_of(""), ignores_absence ? "If-None-Match" : "If-Match"),
              "use a server with conditional writes: AWS S3, MinIO, Ceph, R2 in their current versions");
}

void CatalogueFile::create() {
  probe_conditions();
  (void)put_small(client_, kName, as_bytes(encode_catalogue({})), "");
  if (!refresh()) fail(ErrorKind::kIo, "{}: was written and is not there", client_.url_of(kName));
}

bool CatalogueFile::replace(const std::function<bool(Catalogue&)>& change) {
  for (int tries = 0; tries < kTries; ++tries) {
    client_.interruption().check();
    Catalogue next = current_;
    if (!change(next)) return false;
    const Written written = put_small(client_, kName, as_bytes(encode_catalogue(next)), tag_);
    if (written.done && !written.tag.empty()) {
      current_ = std::move(next);
      tag_ = written.tag;
      return true;
    }
    if (!refresh()) fail(ErrorKind::kCorrupt, "{}: has gone", client_.url_of(kName));
    if (written.done) return true;
  }
  throw Error(ErrorKind::kConflict, fmt::format("{}: others keep changing it", client_.url_of(kName)),
              "run the command again");
}

}  // namespace mlx::store::s3
