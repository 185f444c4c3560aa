// A strict pull reader of JSON (RFC 8259) over text in memory. Requests are mostly long arrays of numbers: those go
// straight into a vector, without a document in between.
//
// Used by whatever reads a request's body. Everything throws Error{kCorrupt} with the offset: no input leads outside of
// the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mlx::serve {

class JsonReader {
 public:
  // Reads from offset `at` on; `text` outlives the reader.
  explicit JsonReader(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {}

  // Reads an object: calls read_value(key) for each key, which reads exactly one value. A key that comes twice fails.
  void object(const std::function<void(const std::string& key)>& read_value);
  void begin_array();
  bool next_element();  // false at the end of the array

  std::string string();  // unescaped, valid UTF-8
  std::int64_t integer();
  double real();  // finite
  bool boolean();
  std::string_view number_text();  // a number as it is written
  void skip();                     // any value, at most 64 deep
  std::string_view raw();          // the text of any value, which is skipped
  void end();                      // nothing but white space is left

  bool at_string() { return peek() == '"'; }
  bool at_boolean() { return peek() == 't' || peek() == 'f'; }
  bool at_null() { return peek() == 'n'; }
  bool at_array() { return peek() == '['; }
  bool at_object() { return peek() == '{'; }
  std::size_t offset() { return peek(), at_; }  // of the next value

  // A flat or nested array of finite numbers, appended in order of appearance. Returns the lengths of its levels from
  // the outermost; arrays of one level must have the same length (as in a tensor).
  std::vector<std::int64_t> numbers(std::vector<float>& to);

  [[noreturn]] void fail_here(std::string_view why) const;

 private:
  void begin_object();
  bool next_key(std::string& key);  // false at the end of the object
  char peek();                      // the next character that is no white space, 0 at the end
  void expect(char c, const char* what);
  bool next(char close, const char* what);
  void skip_value(int depth);
  void append_escape(std::string& to);
  std::uint32_t hex4();
  float number();
  void numbers_at(std::vector<float>& to, std::vector<std::int64_t>& lengths, std::size_t depth, std::size_t& leaf);

  std::string_view text_;
  std::size_t at_ = 0;
  bool fresh_ = true;  // no element of the current object or array has been read yet
};

// `text` (UTF-8) as a JSON string with its quotes; bytes that are no UTF-8 become '?'.
void append_json_string(std::string& to, std::string_view text);

}  // namespace mlx::serve
