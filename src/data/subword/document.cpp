// Builds the document from the events of nlohmann's parser.

#include "data/subword/document.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::data::subword {
namespace {

constexpr std::size_t kDeepestJson = 64, kMostKeys = 4096;

class DocumentHandler final : public nlohmann::json_sax<Json> {
 public:
  DocumentHandler(Document& out, std::string_view text, const std::string& what)
      : out_(out), text_(text), what_(what) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return in_vocabulary_ ? add_token(value) : add(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (in_vocabulary_) return add_token(value > INT64_MAX ? -1 : static_cast<std::int64_t>(value));
    return add(value);
  }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*size*/) override {
    if (in_vocabulary_) fail(ErrorKind::kCorrupt, "{}: 'vocab': '{}' has no number", what_, key_.substr(0, 40));
    const bool vocabulary = open_.size() == 2 && path_ == "model" && open_.back()->is_object() && key_ == "vocab";
    if (vocabulary) {
      in_vocabulary_ = out_.has_vocabulary = true;
      out_.vocabulary.clear();
      return true;
    }
    return open(Json::object());
  }
  bool key(string_t& name) override {
    key_ = std::move(name);
    if (open_.size() == 1) path_ = key_;
    if (!in_vocabulary_ && open_.back()->size() >= kMostKeys)
      fail(ErrorKind::kCorrupt, "{}: an object has more than {} keys", what_, kMostKeys);
    return true;
  }
  bool end_object() override {
    if (in_vocabulary_) return in_vocabulary_ = false, true;
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*size*/) override {
    if (in_vocabulary_) fail(ErrorKind::kCorrupt, "{}: 'vocab': '{}' has no number", what_, key_.substr(0, 40));
    return open(Json::array());
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    const std::string_view before = text_.substr(0, std::min(text_.size(), position > 0 ? position - 1 : 0));
    const std::size_t line_end = before.rfind('\n');
    const std::string_view why = error.what();
    fail(ErrorKind::kCorrupt, "{}: line {}, column {}: no JSON: {}", what_, 1 + std::ranges::count(before, '\n'),
         line_end == std::string_view::npos ? before.size() + 1 : before.size() - line_end,
         why.substr(why.rfind("; ") + 2));
  }

 private:
  Json* put(Json value) {
    if (open_.empty()) {
      out_.rest = std::move(value);
      return &out_.rest;
    }
    Json& inside = *open_.back();
    if (inside.is_object()) return &(inside[key_] = std::move(value));
    inside.push_back(std::move(value));
    return &inside.back();
  }
  bool add(Json value) {
    if (in_vocabulary_) return add_token(-1);
    put(std::move(value));
    return true;
  }
  bool add_token(std::int64_t number) {
    out_.vocabulary.emplace_back(std::move(key_), number);
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= kDeepestJson)
      fail(ErrorKind::kCorrupt, "{}: nested deeper than {} levels", what_, kDeepestJson);
    open_.push_back(put(std::move(value)));
    return true;
  }

  Document& out_;
  std::string_view text_;
  const std::string& what_;
  std::vector<Json*> open_;  // the containers around; only the last one grows
  std::string key_, path_;   // the last key, and the last one of the top level
  bool in_vocabulary_ = false;
};

}  // namespace

Document read_document(std::string_view text, const std::string& what) {
  Document out;
  DocumentHandler handler(out, text, what);
  try {
    Json::sax_parse(text, &handler);
  } catch (const Json::exception&) {  // a number beyond the range of double
    fail(ErrorKind::kCorrupt, "{}: a number is too large", what);
  }
  return out;
}

}  // namespace mlx::data::subword
