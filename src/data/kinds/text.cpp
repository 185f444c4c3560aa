// Reads text from the store.

#include "data/kinds/text.h"

#include <algorithm>

#include "base/error.h"
#include "data/readers/byte_stream.h"

namespace mlx::data {
namespace {

constexpr std::size_t kReadPiece = std::size_t{1} << 20;

void append_file(const store::Store& store, const store::Entry& file, std::string& to, Progress& progress) {
  const store::BlobReader blob = store.open_blob(file.content);
  const std::unique_ptr<ByteStream> stream = open_stream(blob, file.path);
  for (;;) {
    progress.check_interrupted();
    const std::size_t had = to.size();
    to.resize(had + kReadPiece);
    const std::size_t got = stream->read(to.data() + had, kReadPiece);
    to.resize(had + got);
    progress.advance(got);
    if (got < kReadPiece) return;
  }
}

}  // namespace

Text read_text(const store::Store& store, const std::vector<store::Entry>& files, const std::string& kind,
               std::shared_ptr<const Tokenizer> tokenizer, Progress& progress) {
  std::string bytes, name;
  for (const store::Entry& file : files) {
    append_file(store, file, bytes, progress);
    name += (name.empty() ? "" : ", ") + file.path;
  }
  if (bytes.empty()) fail(ErrorKind::kCorrupt, "{}: the file is empty, expected text", name);
  Text text;
  if (!tokenizer)
    tokenizer = std::make_shared<Tokenizer>(kind == "chars" ? Tokenizer::chars(bytes, name) : Tokenizer::bytes());
  text.tokenizer = std::move(tokenizer);
  text.tokens = text.tokenizer->encode(bytes, name, &text.unknown);
  return text;
}

std::size_t end_of(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer, std::int64_t bytes) {
  std::size_t at = tokens.size();
  for (std::int64_t taken = 0; at > 0 && taken < bytes; --at)
    taken += std::max<std::int64_t>(1, static_cast<std::int64_t>(tokenizer.piece(tokens[at - 1]).size()));
  return at;
}

std::int64_t byte_count(std::span<const std::int32_t> tokens, const Tokenizer& tokenizer) {
  std::int64_t bytes = 0;
  for (const std::int32_t token : tokens) bytes += static_cast<std::int64_t>(tokenizer.piece(token).size());
  return bytes;
}

}  // namespace mlx::data
