// A scanner that knows strings and comments of TOML 1.0 and nothing else.
#include "base/toml_text.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace mlx {
namespace {

enum class Where { kPlain, kComment, kBasic, kLiteral, kLongBasic, kLongLiteral };

bool is_long(Where where) {
  return where == Where::kLongBasic || where == Where::kLongLiteral;
}

char quote_of(Where where) {
  return where == Where::kBasic || where == Where::kLongBasic ? '"' : '\'';
}

std::size_t run_of(std::string_view text, std::size_t at, char c) {
  std::size_t n = 0;
  while (at + n < text.size() && text[at + n] == c) ++n;
  return n;
}

// Where the scan stands after the character at `at`, and how many characters were taken.
Where step(Where where, std::string_view text, std::size_t at, std::size_t& taken) {
  const char c = text[at];
  taken = 1;
  if (where == Where::kPlain) {
    if (c == '#') return Where::kComment;
    if (c != '"' && c != '\'') return where;
    const bool basic = c == '"';
    if (run_of(text, at, c) < 3) return basic ? Where::kBasic : Where::kLiteral;
    taken = 3;
    return basic ? Where::kLongBasic : Where::kLongLiteral;
  }
  if (where == Where::kComment) return c == '\n' ? Where::kPlain : where;
  if (c == '\n' && !is_long(where)) return Where::kPlain;  // the parser says that it does not end
  if (c != quote_of(where)) return where;
  if (!is_long(where)) return Where::kPlain;
  const std::size_t quotes = run_of(text, at, c);
  taken = quotes < 5 ? quotes : 5;  // up to two may belong to the text
  return quotes < 3 ? where : Where::kPlain;
}

// The nesting depth: the parts of the keys that lead here and the brackets around it, since tables, arrays and dotted
// keys nest alike. Numbers with a point count as parts until the line or a comma ends them.
class Depth {
 public:
  // False if it is too deep for a recursive parser.
  bool step(char c) {
    if (c == '.') ++parts_;
    if (c == ',' || c == '\n') parts_ = 0;
    if (c == '[' || c == '{') {
      open_.push_back(parts_ + 1);
      around_ += std::exchange(parts_, 0) + 1;
    }
    if ((c == ']' || c == '}') && !open_.empty()) {
      around_ -= open_.back();
      parts_ = 0;
      open_.pop_back();
    }
    return around_ + parts_ <= kMaxDepth;
  }

 private:
  static constexpr std::size_t kMaxDepth = 256;
  std::vector<std::size_t> open_;  // what each open bracket added
  std::size_t around_ = 0, parts_ = 0;
};

}  // namespace

void check_toml_text(std::string_view text, const std::string& file) {
  Where where = Where::kPlain;
  Depth depth;
  int line = 1;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  for (std::size_t at = 0, taken = 1; at < text.size(); at += taken) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7F)
      fail(ErrorKind::kUsage, "{}:{}: a control character", file, line);
    if (byte >= 0x80 && where == Where::kPlain)
      fail(ErrorKind::kUsage, "{}:{}: a letter beyond ASCII outside of quotes", file, line);
    if (where == Where::kPlain && !depth.step(text[at]))
      fail(ErrorKind::kUsage, "{}:{}: tables, arrays or parts of a key are nested too deeply", file, line);
    const bool escaped = byte == '\\' && (where == Where::kBasic || where == Where::kLongBasic);
    if (byte == '\n') ++line;
    where = step(where, text, at, taken);
    // What an escape protects is looked at only for what no text may hold.
    if (escaped && at + 1 < text.size() && (text[at + 1] == '"' || text[at + 1] == '\\')) taken = 2;
  }
}

}  // namespace mlx
