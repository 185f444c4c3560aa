// Text out of the store.

#include "data/text.h"

#include <algorithm>

#include "base/error.h"
#include "data/byte_stream.h"

namespace mlx::data {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

void append_file(const store::Store& store, const store::Entry& file, std::string& to, Progress& progress) {
  const store::BlobReader blob = store.open_blob(file.content);
  const std::unique_ptr<ByteStream> stream = open_stream(blob, file.path);
  for (;;) {
    progress.check_interrupted();
    const std::size_t had = to.size();
    to.resize(had + kPiece);
    const std::size_t got = stream->read(to.data() + had, kPiece);
    to.resize(had + got);
    progress.advance(got);
    if (got < kPiece) return;
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

std::pair<Text, Text> split_end(const Text& text, std::int64_t bytes) {
  std::size_t at = text.tokens.size();
  for (std::int64_t taken = 0; at > 0 && taken < bytes; --at)
    taken += std::max<std::int64_t>(1, static_cast<std::int64_t>(text.tokenizer->piece(text.tokens[at - 1]).size()));
  if (at == 0) return {text, Text{{}, 0, text.tokenizer}};
  const auto cut = text.tokens.begin() + static_cast<std::ptrdiff_t>(at);
  std::pair<Text, Text> out{Text{{text.tokens.begin(), cut}, 0, text.tokenizer},
                            Text{{cut, text.tokens.end()}, 0, text.tokenizer}};
  for (Text* part : {&out.first, &out.second}) part->unknown = std::ranges::count(part->tokens, Tokenizer::kUnknown);
  return out;
}

std::int64_t byte_count(const Text& text) {
  std::int64_t bytes = 0;
  for (const std::int32_t token : text.tokens) bytes += static_cast<std::int64_t>(text.tokenizer->piece(token).size());
  return bytes;
}

}  // namespace mlx::data
