// Reads text from the store.

#include "data/kinds/text.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "base/error.h"
#include "data/bpe_maker.h"
#include "data/readers/byte_stream.h"

namespace mlx::data {
namespace {

constexpr std::size_t kReadPiece = std::size_t{1} << 20;

constexpr std::int64_t kTokens = 1 << 18;  // decoded at once

// Piece by piece; with a tokenizer, pieces end where its tokens may.
void scan_files(const store::Store& store, const std::vector<store::Entry>& files, const Tokenizer* tokenizer,
                const VisitText& visit, Progress& progress) {
  std::string piece;
  std::uint64_t offset = 0;
  for (const store::Entry& file : files) {
    const store::BlobReader blob = store.open_blob(file.content);
    const std::unique_ptr<ByteStream> stream = open_stream(blob, file.path);
    for (std::size_t got = kReadPiece; got == kReadPiece;) {
      progress.check_interrupted();
      const std::size_t kept = piece.size();
      piece.resize(kept + kReadPiece);
      got = stream->read(piece.data() + kept, kReadPiece);
      piece.resize(kept + got);
      progress.advance(got);
      const std::size_t whole = piece.size() - (tokenizer ? tokenizer->unfinished(piece) : 0);
      if (whole > 0 && !visit({std::string_view(piece).substr(0, whole), true, offset == 0}, offset)) return;
      offset += whole;
      piece.erase(0, whole);
    }
  }
  if (!piece.empty()) visit({piece, true, offset == 0}, offset);  // which may be cut off
}

template <typename Narrow>
void pack_as(std::span<const std::int32_t> tokens, int shift, bool learned, std::uint8_t* to) {
  for (const std::int32_t token : tokens) {
    const std::uint32_t wide = static_cast<std::uint32_t>(token) << shift;  // of -1 all bits but the lowest
    const auto narrow = static_cast<Narrow>(shift != 0 && learned ? wide | 1U : wide);
    std::memcpy(to, &narrow, sizeof narrow);
    to += sizeof narrow;
  }
}

// `mask`: bits of which one must be set, or the token becomes kUnknown; 0: none need be.
template <typename Narrow>
void unpack_as(const std::uint8_t* from, std::int64_t count, const TokenCode& code, std::uint32_t mask,
               std::int32_t* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    Narrow narrow = 0;
    std::memcpy(&narrow, from + i * static_cast<std::int64_t>(sizeof narrow), sizeof narrow);
    const std::uint32_t token = std::uint32_t{narrow} >> code.shift;
    const bool none = (code.unknown != 0 && token == code.unknown) || (mask != 0 && (narrow & mask) == 0);
    to[i] = none ? Tokenizer::kUnknown : static_cast<std::int32_t>(token);
  }
}

void unpack_with(const std::uint8_t* from, std::int64_t count, const TokenCode& code, std::uint32_t mask,
                 std::int32_t* to) {
  if (code.bytes == 1) return unpack_as<std::uint8_t>(from, count, code, mask, to);
  if (code.bytes == 2) return unpack_as<std::uint16_t>(from, count, code, mask, to);
  unpack_as<std::uint32_t>(from, count, code, mask, to);
}

void append_tokens(std::span<const std::int32_t> tokens, bool learned, const TokenCode& code, Bytes& packed,
                   SpoolWriter& to) {
  packed.resize(tokens.size() * static_cast<std::size_t>(code.bytes));
  code.pack(tokens, learned, packed.data());
  to.append(packed.data(), static_cast<std::int64_t>(tokens.size()));
}

Tokenizer chars_of(const TextSource& source) {
  const Tokenizer cutting = Tokenizer::chars({}, source.name);
  Tokenizer::CharacterSet characters;
  source.scan(&cutting, [&](const TextRun& run, std::uint64_t offset) {
    characters.add(run.text, source.name, offset);
    return true;
  });
  return characters.tokenizer();
}

Tokenizer made_tokenizer(const TextSource& source, const WantedTokenizer& wanted, Progress& progress) {
  if (wanted.kind == "chars") return chars_of(source);
  if (wanted.kind == "bpe") {
    Tokenizer made = make_bpe(source, wanted.vocabulary, {}, progress);
    progress.begin(fmt::format("encoding {}", source.name), 0, "B");
    return made;
  }
  return Tokenizer::bytes();
}

}  // namespace

TokenCode::TokenCode(const Tokenizer& tokenizer, bool masked) : shift(masked ? 1 : 0) {
  const bool whole = tokenizer.takes_all();
  const std::int64_t codes = (tokenizer.size() + (whole ? 0 : 1)) << shift;
  bytes = codes <= 256 ? 1 : codes <= 65536 ? 2 : 4;
  if (!whole) unknown = std::numeric_limits<std::uint32_t>::max() >> (32 - 8 * bytes + shift);
}

void TokenCode::pack(std::span<const std::int32_t> tokens, bool learned, std::uint8_t* to) const {
  if (bytes == 1) return pack_as<std::uint8_t>(tokens, shift, learned, to);
  if (bytes == 2) return pack_as<std::uint16_t>(tokens, shift, learned, to);
  pack_as<std::uint32_t>(tokens, shift, learned, to);
}

void TokenCode::unpack(const std::uint8_t* from, std::int64_t count, std::int32_t* to) const {
  unpack_with(from, count, *this, 0, to);
}

void TokenCode::unpack_labels(const std::uint8_t* from, std::int64_t count, std::int32_t* to) const {
  unpack_with(from, count, *this, shift != 0 ? 1 : 0, to);
}

std::vector<std::int32_t> Text::tokens(std::int64_t begin, std::int64_t end) const {
  const TokenCode code = this->code();
  Bytes packed(static_cast<std::size_t>((end - begin) * code.bytes));
  spool->read(begin, end - begin, packed.data());
  std::vector<std::int32_t> out(static_cast<std::size_t>(end - begin));
  code.unpack(packed.data(), end - begin, out.data());
  return out;
}

Text text_of(std::span<const std::int32_t> tokens, std::shared_ptr<const Tokenizer> tokenizer,
             const MemoryBudget& budget) {
  const TokenCode code(*tokenizer, false);
  SpoolWriter writer(code.bytes, budget);
  Bytes packed;
  append_tokens(tokens, true, code, packed, writer);
  return {writer.finish(), std::ranges::count(tokens, Tokenizer::kUnknown), std::move(tokenizer)};
}

TextSource file_source(const store::Store& store, const std::vector<store::Entry>& files, Progress& progress) {
  TextSource out;
  for (const store::Entry& file : files) out.name += (out.name.empty() ? "" : ", ") + file.path;
  out.scan = [&](const Tokenizer* tokenizer, const VisitText& visit) {
    scan_files(store, files, tokenizer, visit, progress);
  };
  return out;
}

Text read_text(const TextSource& source, const WantedTokenizer& wanted, std::shared_ptr<const Tokenizer> tokenizer,
               const MemoryBudget& budget, Progress& progress) {
  const std::string& name = source.name;
  if (!tokenizer) tokenizer = std::make_shared<Tokenizer>(made_tokenizer(source, wanted, progress));
  Text text;
  text.tokenizer = std::move(tokenizer);
  text.masked = source.masked;
  const TokenCode code = text.code();
  SpoolWriter writer(code.bytes, budget);
  Bytes packed;
  bool learns = false;
  source.scan(text.tokenizer.get(), [&](const TextRun& run, std::uint64_t offset) {
    learns |= run.learned;
    append_tokens(text.tokenizer->encode(run.text, name, &text.unknown, offset, run.begins), run.learned, code, packed,
                  writer);
    return true;
  });
  text.spool = writer.finish();
  if (text.count() == 0) fail(ErrorKind::kCorrupt, "{}: the file is empty, expected text", name);
  if (!learns)
    throw Error(ErrorKind::kUsage, fmt::format("{}: no message in it is to be learned", name),
                "a model learns what the role assistant says, in messages without \"weight\": 0");
  return text;
}

Tokenizer make_bpe(const TextSource& source, std::int64_t vocabulary, const std::vector<std::string>& special,
                   Progress& progress) {
  const Tokenizer cutting = BpeMaker::cutting();
  BpeMaker maker;
  source.scan(&cutting, [&](const TextRun& run, std::uint64_t) {
    maker.add(run.text);
    return true;
  });
  return maker.tokenizer(vocabulary, special, source.name, progress);
}

std::int64_t end_of(const Text& text, std::int64_t begin, std::int64_t end, std::int64_t bytes) {
  std::int64_t taken = 0;
  while (end > begin && taken < bytes) {
    const std::int64_t first = std::max(begin, end - kTokens);
    const std::vector<std::int32_t> tokens = text.tokens(first, end);
    for (; end > first && taken < bytes; --end) {
      const std::int32_t token = tokens[static_cast<std::size_t>(end - 1 - first)];
      taken += std::max<std::int64_t>(1, static_cast<std::int64_t>(text.tokenizer->piece(token).size()));
    }
  }
  return end;
}

std::int64_t byte_count(const Text& text, std::int64_t begin, std::int64_t end) {
  std::int64_t bytes = 0;
  for (std::int64_t first = begin; first < end; first += kTokens) {
    for (const std::int32_t token : text.tokens(first, std::min(end, first + kTokens)))
      bytes += static_cast<std::int64_t>(text.tokenizer->piece(token).size());
  }
  return bytes;
}

}  // namespace mlx::data
