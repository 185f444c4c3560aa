// Patterns to trees, by recursive descent.

#include "data/subword/regex_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

constexpr int kDeepest = 64;
constexpr std::uint32_t kMostRepeats = 1000;

using Instruction = Regex::Instruction;
using Op = Instruction::Op;
using Greed = Instruction::Greed;

bool is_assertion(Op op) {
  return op >= Op::kLineBegin && op <= Op::kNoWordEdge;
}

bool may_be_empty(const RegexNode& node) {
  switch (node.kind) {
    case RegexNode::Kind::kEmpty:
    case RegexNode::Kind::kLook:
      return true;
    case RegexNode::Kind::kLeaf:
      return is_assertion(node.leaf.op);
    case RegexNode::Kind::kSequence:
    case RegexNode::Kind::kAtomic:
      return std::ranges::all_of(node.parts, may_be_empty);
    case RegexNode::Kind::kAlternatives:
      return std::ranges::any_of(node.parts, may_be_empty);
    case RegexNode::Kind::kRepeat:
      return node.leaf.least == 0 || may_be_empty(node.parts[0]);
  }
  return true;
}

std::optional<std::uint32_t> fixed_length(const RegexNode& node) {
  if (node.kind == RegexNode::Kind::kLeaf) return is_assertion(node.leaf.op) ? 0 : 1;
  std::optional<std::uint32_t> sum = 0;
  if (node.kind == RegexNode::Kind::kAlternatives) sum = fixed_length(node.parts[0]);
  for (const RegexNode& part : node.parts) {
    const std::optional<std::uint32_t> length = fixed_length(part);
    if (!length || !sum) return std::nullopt;
    if (node.kind == RegexNode::Kind::kAlternatives) {
      if (*length != *sum) return std::nullopt;
    } else if (node.kind == RegexNode::Kind::kRepeat) {
      if (node.leaf.least != node.leaf.most) return std::nullopt;
      sum = *length * node.leaf.least;
    } else if (node.kind != RegexNode::Kind::kLook) {
      *sum += *length;
    }
    if (*sum > kMostRepeats) return std::nullopt;
  }
  return sum;
}

bool add_first_bytes_of_leaf(const RegexNode& node, std::bitset<256>& bytes) {
  if (is_assertion(node.leaf.op)) return false;
  CharSet set = node.set;
  set.finish();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool simple = node.leaf.op == Op::kChar && byte < 128;
    const char32_t code = node.leaf.folds ? folded_of(static_cast<char32_t>(byte)) : static_cast<char32_t>(byte);
    const bool in = simple                                   ? code == node.leaf.code
                    : node.leaf.op == Op::kSet && byte < 128 ? set.has(static_cast<char32_t>(byte))
                                                             : true;
    if (in) bytes.set(byte);
  }
  return true;
}

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : at_(pattern.data()), end_(at_ + pattern.size()) {}

  RegexNode parse() {
    RegexNode tree = alternatives(0);
    if (at_ != end_) throw RegexRefused{"a ) without a ("};
    return tree;
  }

 private:
  bool more() const { return at_ != end_; }
  bool next_is(std::string_view text) const { return std::string_view(at_, end_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_character() {
    if (!more()) throw RegexRefused{"it ends too early"};
    const Character character = character_at(at_, end_);
    if (character.code >= kCodePoints) throw RegexRefused{"it is not UTF-8"};
    at_ += character.bytes;
    return character.code;
  }

  RegexNode alternatives(int depth) {
    if (depth > kDeepest) throw RegexRefused{"it is nested too deeply"};
    std::vector<RegexNode> found;
    do {
      found.push_back(sequence(depth));
    } while (take("|"));
    if (found.size() == 1) return std::move(found[0]);
    RegexNode out;
    out.kind = RegexNode::Kind::kAlternatives;
    out.parts = std::move(found);
    return out;
  }

  RegexNode sequence(int depth) {
    RegexNode out;
    out.kind = RegexNode::Kind::kSequence;
    const bool folds = folds_;
    while (more() && *at_ != '|' && *at_ != ')') out.parts.push_back(repeated(depth));
    folds_ = folds;  // (?i) holds to the end of its group
    return out;
  }

  RegexNode repeated(int depth) {
    RegexNode item = atom(depth);
    for (;;) {
      std::uint32_t least = 0, most = kUnlimitedRepeats;
      const bool interval = more() && *at_ == '{' && take_interval(least, most);
      if (!interval) {
        if (take("*")) {
        } else if (take("+")) {
          least = 1;
        } else if (take("?")) {
          most = 1;
        } else {
          return item;
        }
      }
      Greed greed = Greed::kGreedy;
      if (take("?")) {
        greed = Greed::kLazy;
      } else if (!interval && take("+")) {
        greed = Greed::kPossessive;
      }
      if (most == kUnlimitedRepeats && may_be_empty(item)) throw RegexRefused{"it repeats what may be empty"};
      RegexNode out;
      out.kind = RegexNode::Kind::kRepeat;
      out.leaf.least = least, out.leaf.most = most, out.leaf.greed = greed;
      out.parts.push_back(std::move(item));
      item = std::move(out);
    }
  }

  // "{2}", "{2,}", "{,3}", "{2,3}"; anything else is characters.
  bool take_interval(std::uint32_t& least, std::uint32_t& most) {
    const char* p = at_ + 1;
    const auto number = [&](std::uint32_t none) {
      std::uint32_t value = 0;
      bool any = false;
      for (; p != end_ && *p >= '0' && *p <= '9'; ++p, any = true)
        value = std::min<std::uint32_t>(value * 10 + static_cast<std::uint32_t>(*p - '0'), kMostRepeats + 1);
      return any ? value : none;
    };
    const char* const begin = p;
    least = number(0);
    most = least;
    bool known = p != begin;
    if (p != end_ && *p == ',') {
      ++p;
      const char* const second = p;
      most = number(kUnlimitedRepeats);
      known |= p != second;
    }
    if (!known || p == end_ || *p != '}') return false;
    if (least > kMostRepeats || (most != kUnlimitedRepeats && most > kMostRepeats))
      throw RegexRefused{"it repeats more than 1000 times"};
    if (most < least) throw RegexRefused{"a repetition ends before it begins"};
    at_ = p + 1;
    return true;
  }

  RegexNode leaf(Op op) {
    RegexNode out;
    out.kind = RegexNode::Kind::kLeaf;
    out.leaf.op = op;
    return out;
  }
  RegexNode leaf(CharSet set) {
    RegexNode out = leaf(Op::kSet);
    if (folds_) set.ignore_case();
    out.set = std::move(set);
    return out;
  }
  RegexNode literal(char32_t code) {
    RegexNode out = leaf(Op::kChar);
    out.leaf.folds = folds_;
    out.leaf.code = folds_ ? folded_of(code) : code;
    return out;
  }

  RegexNode atom(int depth) {
    if (take("(")) return group(depth);
    if (take("[")) return leaf(bracket(depth));
    if (take(".")) return leaf(Op::kAny);
    if (take("^")) return leaf(Op::kLineBegin);
    if (take("$")) return leaf(Op::kLineEnd);
    if (take("\\")) return escape();
    if (next_is("*") || next_is("+") || next_is("?")) throw RegexRefused{"a repetition of nothing"};
    return literal(take_character());
  }

  RegexNode group(int depth) {
    RegexNode out;
    if (take("?:")) return closed(depth);
    if (take("?>")) {
      out.kind = RegexNode::Kind::kAtomic;
    } else if (take("?=") || take("?!") || take("?<=") || take("?<!")) {
      out.kind = RegexNode::Kind::kLook;
      out.leaf.negated = at_[-1] == '!';
      out.leaf.behind = at_[-2] == '<';
    } else if (take("?i:")) {
      const bool before = std::exchange(folds_, true);
      out = closed(depth);
      folds_ = before;
      return out;
    } else if (take("?i)")) {
      folds_ = true;
      return out;
    } else if (next_is("?")) {
      throw RegexRefused{fmt::format("a group of the kind ({} is not known", std::string_view(at_, end_).substr(0, 2))};
    } else {
      return closed(depth);
    }
    out.parts.push_back(closed(depth));
    if (out.leaf.behind) {
      const std::optional<std::uint32_t> length = fixed_length(out.parts[0]);
      if (!length) throw RegexRefused{"a look-behind of more than one length"};
      out.leaf.least = *length;
    }
    return out;
  }
  RegexNode closed(int depth) {
    RegexNode out = alternatives(depth + 1);
    if (!take(")")) throw RegexRefused{"a ( without a )"};
    return out;
  }

  RegexNode escape() {
    if (!more()) throw RegexRefused{"it ends with a \\"};
    switch (*at_) {
      case 'A':
        return ++at_, leaf(Op::kTextBegin);
      case 'z':
        return ++at_, leaf(Op::kTextEnd);
      case 'Z':
        return ++at_, leaf(Op::kLastLine);
      case 'b':
        return ++at_, leaf(Op::kWordEdge);
      case 'B':
        return ++at_, leaf(Op::kNoWordEdge);
      default:
        break;
    }
    CharSet set;
    if (add_class(set)) return leaf(std::move(set));
    return literal(escaped_character());
  }

  // The class behind a '\', if it is one.
  bool add_class(CharSet& set) {
    const char name = *at_;
    const CategorySet digits = set_of(Category::kNd);
    switch (name) {
      case 's':
      case 'S':
        set.add_white_space(name == 'S');
        break;
      case 'w':
      case 'W':
        set.add_word(name == 'W');
        break;
      case 'd':
        set.add(digits);
        break;
      case 'D':
        set.add_not(digits);
        break;
      case 'h':
        set.add('0', '9'), set.add('A', 'F'), set.add('a', 'f');
        break;
      case 'p':
      case 'P':
        ++at_;
        add_property(set, name == 'P');
        return true;
      default:
        return false;
    }
    ++at_;
    return true;
  }

  void add_property(CharSet& set, bool negated) {
    std::string name;
    if (take("{")) {
      if (take("^")) negated = !negated;
      while (more() && *at_ != '}') name.push_back(*at_++);
      if (!take("}")) throw RegexRefused{"a \\p{ without a }"};
    } else {
      append_utf8(name, take_character());
    }
    const std::size_t equals = name.find('=');
    const std::string value = equals == std::string::npos ? name : name.substr(equals + 1);
    const std::string key = equals == std::string::npos ? "" : name.substr(0, equals);
    const bool by_script = key == "Script" || key == "sc", by_category = key == "General_Category" || key == "gc";
    if (key.empty() || by_category) {
      if (const std::optional<CategorySet> categories = category_named(value)) {
        negated ? set.add_not(*categories) : set.add(*categories);
        return;
      }
    }
    if (key.empty() || by_script) {
      if (const std::optional<std::uint8_t> script = script_named(value)) return set.add_script(*script, negated);
    }
    throw RegexRefused{fmt::format("\\p{{{}}} is not known", name.substr(0, 40))};
  }

  char32_t escaped_character() {
    const char32_t code = take_character();
    switch (code) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'e':
        return 0x1B;
      case '0':
        return 0;
      case 'x':
        return take("{") ? hexadecimal(1, 8, true) : hexadecimal(1, 2, false);
      case 'u':
        return hexadecimal(4, 4, false);
      default:
        break;
    }
    const bool letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '1' && code <= '9');
    if (letter) throw RegexRefused{fmt::format("\\{} is not known", static_cast<char>(code))};
    return code;
  }

  char32_t hexadecimal(int least, int most, bool braced) {
    char32_t value = 0;
    int digits = 0;
    for (; digits < most && more(); ++digits, ++at_) {
      const char c = *at_;
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (digits < least || (braced && !take("}")) || value >= kCodePoints) throw RegexRefused{"a wrong code point"};
    return value;
  }

  // Behind the '['.
  CharSet bracket(int depth) {
    if (depth > kDeepest) throw RegexRefused{"it is nested too deeply"};
    const bool negated = take("^");
    CharSet whole, part;
    std::vector<CharSet> limits;
    bool first = true;
    for (; first || !next_is("]"); first = false) {
      if (!more()) throw RegexRefused{"a [ without a ]"};
      if (take("&&")) {
        limits.push_back(std::exchange(part, {}));
        continue;
      }
      if (next_is("[:")) throw RegexRefused{"a class [:…:] is not known"};
      if (take("[")) {
        part.add(bracket(depth + 1));
        continue;
      }
      bracket_range(part);
    }
    take("]");
    for (CharSet& limit : limits) part.intersect(std::move(limit));
    if (negated) part.negate();
    return part;
  }

  void bracket_range(CharSet& set) {
    bool is_class = false;
    const char32_t begin = bracket_character(set, is_class);
    if (is_class) return;
    const bool range = next_is("-") && end_ - at_ > 1 && at_[1] != ']' && at_[1] != '[';
    if (!range) return set.add(begin, begin);
    ++at_;
    CharSet other;
    const char32_t end = bracket_character(other, is_class);
    if (is_class || end < begin) throw RegexRefused{"a range of characters ends before it begins"};
    set.add(begin, end);
  }
  char32_t bracket_character(CharSet& set, bool& is_class) {
    if (!take("\\")) return take_character();
    if (more() && *at_ == 'b') return ++at_, '\b';
    is_class = more() && add_class(set);
    return is_class ? 0 : escaped_character();
  }

  const char *at_, *end_;
  bool folds_ = false;
};

}  // namespace

RegexNode parse_regex(std::string_view pattern) {
  return RegexParser(pattern).parse();
}

bool add_first_bytes(const RegexNode& node, std::bitset<256>& bytes) {
  switch (node.kind) {
    case RegexNode::Kind::kEmpty:
    case RegexNode::Kind::kLook:
      return false;
    case RegexNode::Kind::kLeaf:
      return add_first_bytes_of_leaf(node, bytes);
    case RegexNode::Kind::kAtomic:
      return add_first_bytes(node.parts[0], bytes);
    case RegexNode::Kind::kSequence:
      return std::ranges::any_of(node.parts, [&](const RegexNode& part) { return add_first_bytes(part, bytes); });
    case RegexNode::Kind::kAlternatives: {
      bool all = true;
      for (const RegexNode& part : node.parts) all &= add_first_bytes(part, bytes);
      return all;
    }
    case RegexNode::Kind::kRepeat:
      return add_first_bytes(node.parts[0], bytes) && node.leaf.least > 0;
  }
  return false;
}

}  // namespace mlx::data::subword
