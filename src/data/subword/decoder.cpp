// The kinds of decoders and their JSON.

#include "data/subword/decoder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/aligned_text.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/byte_tokens.h"
#include "data/subword/json_keys.h"
#include "data/subword/pattern.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

constexpr const char* kReplacementText = "\xEF\xBF\xBD";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Each maximal part that is no UTF-8 becomes one U+FFFD, as Unicode recommends and Rust does.
std::string with_replacements(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = character_at(bytes, at);
    if (character.code < kCodePoints) {
      out += bytes.substr(at, character.bytes);
      at += character.bytes;
      continue;
    }
    out += kReplacementText;
    at += invalid_prefix(bytes.substr(at));
  }
  return out;
}

class ByteLevelDecoder final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& names) const override {
    std::string bytes;
    for (const std::string& name : names) bytes += from_byte_characters(name).value_or(name);
    names = {with_replacements(bytes)};
  }
  void apply_inside(std::string& name) const override { name = from_byte_characters(name).value_or(name); }
};

// Neighbouring "<0x41>" become their bytes, if they are UTF-8 together.
class ByteFallbackDecoder final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& names) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (is_whole_utf8(bytes)) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), kReplacementText);
      }
      bytes.clear();
    };
    for (std::string& name : names) {
      if (const std::optional<unsigned char> byte = byte_named(name)) {
        bytes.push_back(static_cast<char>(*byte));
        continue;
      }
      flush();
      out.push_back(std::move(name));
    }
    flush();
    names = std::move(out);
  }
  void apply_inside(std::string& name) const override {
    if (const std::optional<unsigned char> byte = byte_named(name)) name.assign(1, static_cast<char>(*byte));
  }
};

class Fuse final : public DecoderStep {
 public:
  void apply(std::vector<std::string>& names) const override { names = {fmt::format("{}", fmt::join(names, ""))}; }
};

class StripDecoder final : public DecoderStep {
 public:
  StripDecoder(std::string content, std::int64_t start, std::int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& names) const override {
    for (std::string& name : names) {
      for (std::int64_t i = 0; i < start_ && name.starts_with(content_); ++i) name.erase(0, content_.size());
      for (std::int64_t i = 0; i < stop_ && name.ends_with(content_); ++i) name.resize(name.size() - content_.size());
    }
  }

 private:
  std::string content_;
  std::int64_t start_, stop_;
};

class ReplaceDecoder final : public DecoderStep {
 public:
  ReplaceDecoder(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& names) const override {
    for (std::string& name : names) apply_inside(name);
  }
  void apply_inside(std::string& name) const override {
    std::string out;
    pattern_.each(name, [&](std::size_t begin, std::size_t end, bool match) {
      out += match ? std::string_view(content_) : std::string_view(name).substr(begin, end - begin);
      check_growth(name.size(), out.size());
    });
    name = std::move(out);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class MetaspaceDecoder final : public DecoderStep {
 public:
  MetaspaceDecoder(std::string mark, bool prefixed) : mark_(std::move(mark)), prefixed_(prefixed) {}
  void apply(std::vector<std::string>& names) const override {
    for (std::size_t i = 0; i < names.size(); ++i) replace_all(names[i], mark_, i == 0 && prefixed_ ? "" : " ");
  }
  void apply_inside(std::string& name) const override { replace_all(name, mark_, " "); }

 private:
  std::string mark_;
  bool prefixed_;
};

// English as it is written, from words that stand apart.
void clean_up(std::string& text) {
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    replace_all(text, from, to);
}

class WordPieceDecoder final : public DecoderStep {
 public:
  WordPieceDecoder(std::string prefix, bool cleans) : prefix_(std::move(prefix)), cleans_(cleans) {}
  void apply(std::vector<std::string>& names) const override {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) apply_inside(names[i]);
      if (cleans_) clean_up(names[i]);
    }
  }
  void apply_inside(std::string& name) const override {
    if (name.starts_with(prefix_)) {
      name.erase(0, prefix_.size());
    } else {
      name.insert(name.begin(), ' ');
    }
  }

 private:
  std::string prefix_;
  bool cleans_;
};

class SuffixDecoder final : public DecoderStep {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& names) const override {
    for (std::size_t i = 0; i < names.size(); ++i) replace_all(names[i], suffix_, i + 1 == names.size() ? "" : " ");
  }
  void apply_inside(std::string& name) const override { replace_all(name, suffix_, " "); }

 private:
  std::string suffix_;
};

class CtcDecoder final : public DecoderStep {
 public:
  CtcDecoder(std::string pad, std::string delimiter, bool cleans)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleans_(cleans) {}
  void apply(std::vector<std::string>& names) const override {
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (std::string& name : names) {
      replace_all(name, pad_, "");
      if (!cleans_) continue;
      clean_up(name);
      replace_all(name, delimiter_, " ");
    }
    std::erase(names, "");
  }

 private:
  std::string pad_, delimiter_;
  bool cleans_;
};

}  // namespace

Decoder::Decoder(const Json& json, const std::string& what) : given_(!json.is_null()) {
  if (given_) add(json, what);
}

void Decoder::add(const Json& json, const std::string& where) {
  const std::string type = json_string(json, "type", where), what = where + ": " + type;
  const auto step = [this](auto made) { steps_.push_back(std::move(made)); };
  if (type == "Sequence") {
    for (const Json& part : json_array(json, "decoders", what)) add(part, where);
  } else if (type == "ByteLevel") {
    step(std::make_unique<ByteLevelDecoder>());
  } else if (type == "ByteFallback") {
    step(std::make_unique<ByteFallbackDecoder>());
  } else if (type == "Fuse") {
    step(std::make_unique<Fuse>());
  } else if (type == "Strip") {
    const std::string content = json_string(json, "content", what);
    if (content.empty()) fail(ErrorKind::kCorrupt, "{}: 'content' is empty", what);
    step(std::make_unique<StripDecoder>(content, json_int(json, "start", what), json_int(json, "stop", what)));
  } else if (type == "Replace") {
    step(std::make_unique<ReplaceDecoder>(read_pattern(json, what), json_string(json, "content", what)));
  } else if (type == "Metaspace") {
    const bool prefix = flag(json, "add_prefix_space", true, what);
    const bool never = text_or(json, "prepend_scheme", prefix ? "always" : "never", what) == "never";
    step(std::make_unique<MetaspaceDecoder>(text_or(json, "replacement", "\xE2\x96\x81", what), !never));
  } else if (type == "WordPiece") {
    step(std::make_unique<WordPieceDecoder>(text_or(json, "prefix", "##", what), flag(json, "cleanup", true, what)));
  } else if (type == "BPEDecoder") {
    step(std::make_unique<SuffixDecoder>(text_or(json, "suffix", "</w>", what)));
  } else if (type == "CTC") {
    step(std::make_unique<CtcDecoder>(text_or(json, "pad_token", "<pad>", what),
                                      text_or(json, "word_delimiter_token", "|", what),
                                      flag(json, "cleanup", true, what)));
  } else {
    refuse_kind("decoder", type, where);
  }
}

std::string Decoder::decode(std::vector<std::string> names) const {
  if (!given_) return fmt::format("{}", fmt::join(names, " "));
  const auto size_of = [&names] {
    std::size_t size = 0;
    for (const std::string& name : names) size += name.size();
    return size;
  };
  const std::size_t before = size_of();
  for (const auto& step : steps_) {
    if (!names.empty()) step->apply(names);
    check_growth(before, size_of());
  }
  return fmt::format("{}", fmt::join(names, ""));
}

std::string Decoder::inside(std::string name) const {
  const std::size_t before = name.size();
  for (const auto& step : steps_) {
    step->apply_inside(name);
    check_growth(before, name.size());
  }
  return name;
}

}  // namespace mlx::data::subword
