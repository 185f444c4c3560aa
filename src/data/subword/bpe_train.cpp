// Counts of pairs are kept as words change, and a heap holds them; a count that is out of date is set right when it
// comes to the top.

#include "data/subword/bpe_train.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/scanners.h"

namespace mlx::data::subword {
namespace {

constexpr std::size_t kLongestWord = 1024;  // of longer ones, parts of this length are counted
constexpr std::int64_t kLeastCount = 2;     // of a pair that becomes a token
constexpr const char* kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

using TokenPair = std::pair<std::int32_t, std::int32_t>;
struct PairHash {
  std::size_t operator()(const TokenPair& pair) const {
    const std::uint64_t both =
        std::uint64_t{static_cast<std::uint32_t>(pair.first)} << 32 | static_cast<std::uint32_t>(pair.second);
    return both * 0x9E3779B97F4A7C15U >> 16;
  }
};
struct PairUse {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;  // that may have it
};
struct Candidate {
  std::int64_t count = 0;
  TokenPair pair;
};
bool is_worse(const Candidate& a, const Candidate& b) {
  return a.count != b.count ? a.count < b.count : a.pair > b.pair;
}

// The words as they are merged.
class MergingWords {
 public:
  MergingWords(const std::vector<std::string>& words, const std::vector<std::int64_t>& counts,
               const std::array<std::int32_t, 256>& byte_tokens)
      : counts_(counts) {
    words_.reserve(words.size());
    for (const std::string& word : words) {
      std::vector<std::int32_t>& tokens = words_.emplace_back();
      tokens.reserve(word.size());
      for (const char byte : word) tokens.push_back(byte_tokens[static_cast<unsigned char>(byte)]);
    }
    for (std::uint32_t word = 0; word < words_.size(); ++word)
      for (std::size_t i = 0; i + 1 < words_[word].size(); ++i)
        change({words_[word][i], words_[word][i + 1]}, counts_[word], word);
    for (const auto& [pair, use] : uses_) heap_.push_back({use.count, pair});
    std::ranges::make_heap(heap_, is_worse);
    fresh_.clear();
  }

  // The most frequent pair; nullopt: none is frequent enough.
  std::optional<TokenPair> best() {
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_, is_worse);
      const Candidate top = heap_.back();
      heap_.pop_back();
      const std::int64_t count = uses_[top.pair].count;
      if (count < kLeastCount) continue;
      if (count == top.count) return top.pair;
      push({count, top.pair});
    }
    return std::nullopt;
  }

  void merge(const TokenPair& pair, std::int32_t made) {
    const std::vector<std::uint32_t> words = std::move(uses_[pair].words);
    for (const std::uint32_t word : words) merge_in(word, pair, made);
    uses_[pair] = {};
    for (const TokenPair& changed : fresh_)
      if (const std::int64_t count = uses_[changed].count; count >= kLeastCount) push({count, changed});
    fresh_.clear();
  }

 private:
  void push(const Candidate& candidate) {
    heap_.push_back(candidate);
    std::ranges::push_heap(heap_, is_worse);
  }
  void change(const TokenPair& pair, std::int64_t by, std::uint32_t word) {
    PairUse& use = uses_[pair];
    use.count += by;
    if (by < 0) return;
    if (use.words.empty() || use.words.back() != word) use.words.push_back(word);
    if (fresh_.empty() || fresh_.back() != pair) fresh_.push_back(pair);
  }
  void merge_in(std::uint32_t word, const TokenPair& pair, std::int32_t made) {
    std::vector<std::int32_t>& tokens = words_[word];
    const std::int64_t count = counts_[word];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++kept) {
      const bool here = i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
      if (!here) {
        tokens[kept] = tokens[i++];
        continue;
      }
      if (kept > 0) {
        change({tokens[kept - 1], pair.first}, -count, word);
        change({tokens[kept - 1], made}, count, word);
      }
      i += 2;
      if (i < tokens.size()) {
        change({pair.second, tokens[i]}, -count, word);
        change({made, tokens[i]}, count, word);
      }
      tokens[kept] = made;
    }
    tokens.resize(kept);
  }

  const std::vector<std::int64_t>& counts_;
  std::vector<std::vector<std::int32_t>> words_;
  std::unordered_map<TokenPair, PairUse, PairHash> uses_;
  std::vector<Candidate> heap_;
  std::vector<TokenPair> fresh_;  // pairs that got more
};

// Of bytes, in the order of the characters that stand for them.
std::array<std::int32_t, 256> numbered_bytes(std::size_t first) {
  std::array<int, 256> bytes{};
  std::iota(bytes.begin(), bytes.end(), 0);
  std::ranges::sort(bytes, {}, [](int byte) { return byte_characters()[static_cast<std::size_t>(byte)]; });
  std::array<std::int32_t, 256> out{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    out[static_cast<std::size_t>(bytes[i])] = static_cast<std::int32_t>(first + i);
  return out;
}

std::string json_text(std::string_view text) {
  return canonical(Json(text));
}

// The names are written in the alphabet of bytes.
std::string written(const std::vector<std::string>& names, std::size_t special, const std::vector<TokenPair>& merges) {
  std::string out = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)";
  for (std::size_t id = 0; id < special; ++id) {
    out += fmt::format(
        R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}})",
        id > 0 ? "," : "", id, json_text(names[id]));
  }
  out +=
      R"(],"normalizer":null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
      json_text(kPattern);
  out +=
      R"(},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},)";
  out +=
      R"("post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},)";
  out +=
      R"("model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)";
  out += R"("fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":{)";
  for (std::size_t id = 0; id < names.size(); ++id)
    out += fmt::format("{}{}:{}", id > 0 ? "," : "", json_text(names[id]), id);
  out += R"(},"merges":[)";
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto name = [&](std::int32_t id) { return json_text(names[static_cast<std::size_t>(id)]); };
    out += fmt::format("{}[{},{}]", i > 0 ? "," : "", name(merges[i].first), name(merges[i].second));
  }
  return out + "]}}\n";
}

}  // namespace

void BpeTraining::add(std::string_view text) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 30;
  if (text.size() > kAtOnce) fail(ErrorKind::kUsage, "a text of more than 1 GiB is too long to be counted at once");
  static const ScannedPattern pattern = scanned_pattern(kPattern).value();
  std::vector<Piece> pieces;
  scan_words(pattern, text, {0, static_cast<std::uint32_t>(text.size()), -1}, pieces);
  for (const Piece& piece : pieces) {
    std::string_view left = text.substr(piece.begin, piece.end - piece.begin);
    while (!left.empty()) {
      const std::string_view word = left.substr(0, kLongestWord);
      left.remove_prefix(word.size());
      const std::int32_t known = numbers_.find(word);
      if (known >= 0) {
        ++counts_[static_cast<std::size_t>(known)];
        continue;
      }
      numbers_.set(word, static_cast<std::int32_t>(words_.size()));
      words_.emplace_back(word);
      counts_.push_back(1);
    }
  }
}

std::string BpeTraining::finish(std::int64_t vocabulary, const std::vector<std::string>& special,
                                const std::string& what, Progress& progress) const {
  std::vector<std::string> names = special;
  StringTable tokens;
  for (std::size_t id = 0; id < names.size(); ++id) tokens.set(names[id], static_cast<std::int32_t>(id));
  const std::array<std::int32_t, 256> byte_tokens = numbered_bytes(special.size());
  names.resize(special.size() + 256);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(static_cast<unsigned char>(byte));
    std::string& name = names[static_cast<std::size_t>(byte_tokens[byte])] = to_byte_characters({&one, 1});
    if (tokens.find(name) >= 0)
      fail(ErrorKind::kUsage, "'{}' cannot be a special token: it is the name of a byte", name);
    tokens.set(name, byte_tokens[byte]);
  }
  progress.begin("merging", static_cast<std::uint64_t>(std::max<std::int64_t>(0, vocabulary - std::ssize(names))),
                 "tokens");
  MergingWords words(words_, counts_, byte_tokens);
  std::vector<TokenPair> merges;
  while (std::ssize(names) < vocabulary) {
    progress.check_interrupted();
    const std::optional<TokenPair> pair = words.best();
    if (!pair) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: {} tokens are wanted, the text gives {}", what, vocabulary, names.size()),
                  "more text, or a smaller vocabulary");
    }
    const std::string name =
        names[static_cast<std::size_t>(pair->first)] + names[static_cast<std::size_t>(pair->second)];
    std::int32_t made = tokens.find(name);
    if (made < 0) {
      made = static_cast<std::int32_t>(names.size());
      tokens.set(name, made);
      names.push_back(name);
      progress.advance(1);
    }
    merges.push_back(*pair);
    words.merge(*pair, made);
  }
  progress.end();
  return written(names, special.size(), merges);
}

}  // namespace mlx::data::subword
