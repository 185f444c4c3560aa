// The kinds of normalisers and their JSON.

#include "data/subword/normalizer.h"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/charsmap.h"
#include "data/subword/json_keys.h"
#include "data/subword/normal_forms.h"
#include "data/subword/pattern.h"

namespace mlx::data::subword {
namespace {

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}
  bool keeps(std::string_view text) const override {
    for (const NormalizerPtr& part : parts_)
      if (!part->keeps(text)) return false;
    return true;
  }
  void apply(AlignedText& text, bool begins) const override {
    const std::size_t before = text.text().size();
    for (const NormalizerPtr& part : parts_) {
      if (part->keeps(text.text())) continue;
      part->apply(text, begins);
      check_growth(before, text.text().size());
    }
  }

 private:
  std::vector<NormalizerPtr> parts_;
};

class FormNormalizer final : public Normalizer {
 public:
  explicit FormNormalizer(NormalForm form) : form_(form) {}
  bool keeps(std::string_view text) const override { return is_in_form(form_, text); }
  void apply(AlignedText& text, bool /*begins*/) const override { text.transform(to_form(form_, text.text())); }

 private:
  NormalForm form_;
};

// One character to any number of them.
class EachCharacter final : public Normalizer {
 public:
  explicit EachCharacter(CharacterMap::Map map) : map_(map) {}
  void apply(AlignedText& text, bool /*begins*/) const override { text.map_characters(map_); }

 private:
  CharacterMap map_;
};

void put_lower(char32_t code, std::string& out) {
  append_utf8(out, lower_of(code));
  if (code == 0x130) append_utf8(out, 0x307);  // the one character with more than one lower-case character
}
void put_without_marks(char32_t code, std::string& out) {
  if (!is_in(kMarks, code)) append_utf8(out, code);
}
void put_byte_characters(char32_t code, std::string& out) {
  std::string bytes;
  append_utf8(bytes, code);
  out += to_byte_characters(bytes);
}
// The rules of NMT, Google's translation system.
void put_nmt(char32_t code, std::string& out) {
  const bool dropped = (code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
                       code == 0x8F || code == 0x9F;
  if (dropped) return;
  const bool blank = code == 9 || code == 0xA || code == 0xC || code == 0xD || code == 0x1680 ||
                     (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
                     code == 0xFEFF || code == 0xFFFD;
  append_utf8(out, blank ? U' ' : code);
}

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(AlignedText& text, bool /*begins*/) const override {
    const std::string& all = text.text();
    std::size_t begin = 0, end = all.size();
    while (left_ && begin < end) {
      const Character character = character_at(all, begin);
      if (!is_white_space(character.code)) break;
      begin += character.bytes;
    }
    while (right_ && begin < end) {
      const Character character = character_before(all.data() + begin, all.data() + end);
      if (!is_white_space(character.code)) break;
      end -= character.bytes;
    }
    if (begin > 0 || end < all.size()) text.keep(begin, end);
  }

 private:
  bool left_, right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  void apply(AlignedText& text, bool begins) const override {
    if (begins && !text.text().empty()) text.prepend(text_);
  }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  bool keeps(std::string_view text) const override { return pattern_.surely_absent(text); }
  void apply(AlignedText& text, bool /*begins*/) const override {
    AlignedText::Rewriting out(text);
    pattern_.each(text.text(), [&](std::size_t begin, std::size_t end, bool match) {
      if (!match) return out.copy(begin, end);
      if (!content_.empty()) out.insert(content_, end > begin ? end - 1 : begin > 0 ? begin - 1 : 0);
    });
    out.finish();
  }

 private:
  Pattern pattern_;
  std::string content_;
};

struct BertRules {
  bool clean = true, spaced_ideographs = true, strip_accents = true, lowercase = true;
};

bool is_bert_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}
void put_cleaned(char32_t code, std::string& out) {
  const bool blank = code == '\t' || code == '\n' || code == '\r' || is_white_space(code);
  const CategorySet other = set_of(Category::kCc, Category::kCo);
  const bool dropped =
      code == 0 || code == kReplacement || (is_in(other, code) && !(code == '\t' || code == '\n' || code == '\r'));
  if (!dropped) append_utf8(out, blank ? U' ' : code);
}
void put_spaced(char32_t code, std::string& out) {
  const bool spaced = is_bert_ideograph(code);
  if (spaced) out.push_back(' ');
  append_utf8(out, code);
  if (spaced) out.push_back(' ');
}
void put_spacing(char32_t code, std::string& out) {
  if (!is_in(set_of(Category::kMn), code)) append_utf8(out, code);
}

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const BertRules& rules) : rules_(rules) {}
  void apply(AlignedText& text, bool /*begins*/) const override {
    if (rules_.clean) text.map_characters(cleaned_);
    if (rules_.spaced_ideographs) text.map_characters(spaced_);
    if (rules_.strip_accents) {
      if (!is_in_form(NormalForm::kNfd, text.text())) text.transform(to_form(NormalForm::kNfd, text.text()));
      text.map_characters(spacing_);
    }
    if (rules_.lowercase) text.map_characters(lower_);
  }

 private:
  BertRules rules_;
  CharacterMap cleaned_{put_cleaned}, spaced_{put_spaced}, spacing_{put_spacing}, lower_{put_lower};
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {}
  void apply(AlignedText& text, bool /*begins*/) const override { map_.apply(text); }

 private:
  Charsmap map_;
};

std::string from_base64(std::string_view text, const std::string& what) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n' || c == '\r') continue;
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) fail(ErrorKind::kCorrupt, "{}: 'precompiled_charsmap': not base64", what);
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xFFFFFF;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(static_cast<unsigned char>(bits >> count & 0xFF)));
  }
  return out;
}

NormalizerPtr make_sequence(const Json& json, const std::string& what) {
  std::vector<NormalizerPtr> parts;
  for (const Json& part : json_array(json, "normalizers", what)) parts.push_back(make_normalizer(part, what));
  std::erase(parts, nullptr);
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

}  // namespace

NormalizerPtr make_normalizer(const Json& json, const std::string& where) {
  if (json.is_null()) return nullptr;
  const std::string type = json_string(json, "type", where), what = where + ": " + type;
  constexpr std::array kForms = {std::pair{"NFC", NormalForm::kNfc}, std::pair{"NFD", NormalForm::kNfd},
                                 std::pair{"NFKC", NormalForm::kNfkc}, std::pair{"NFKD", NormalForm::kNfkd}};
  for (const auto& [name, form] : kForms)
    if (type == name) return std::make_unique<FormNormalizer>(form);
  constexpr std::array<std::pair<const char*, CharacterMap::Map>, 4> kMaps = {{{"Lowercase", put_lower},
                                                                               {"StripAccents", put_without_marks},
                                                                               {"ByteLevel", put_byte_characters},
                                                                               {"Nmt", put_nmt}}};
  for (const auto& [name, map] : kMaps)
    if (type == name) return std::make_unique<EachCharacter>(map);
  if (type == "Sequence") return make_sequence(json, what);
  if (type == "Strip")
    return std::make_unique<Strip>(flag(json, "strip_left", true, what), flag(json, "strip_right", true, what));
  if (type == "Prepend") return std::make_unique<Prepend>(json_string(json, "prepend", what));
  if (type == "Replace") return std::make_unique<Replace>(read_pattern(json, what), json_string(json, "content", what));
  if (type == "BertNormalizer") {
    BertRules rules;
    rules.clean = flag(json, "clean_text", true, what);
    rules.spaced_ideographs = flag(json, "handle_chinese_chars", true, what);
    rules.lowercase = flag(json, "lowercase", true, what);
    rules.strip_accents = flag(json, "strip_accents", rules.lowercase, what);
    return std::make_unique<BertNormalizer>(rules);
  }
  if (type == "Precompiled") {
    return std::make_unique<Precompiled>(
        Charsmap(from_base64(json_string(json, "precompiled_charsmap", what), what), what));
  }
  refuse_kind("normalizer", type, where);
}

}  // namespace mlx::data::subword
