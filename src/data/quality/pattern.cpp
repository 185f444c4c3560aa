// Compiles a pattern by recursive descent into a syntax tree, and that into steps.

#include "data/quality/pattern.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/error.h"

namespace mlx::data {
namespace {

constexpr char32_t kLastCharacter = 0x10FFFF;
constexpr std::uint32_t kLookEvery = 256;  // characters between two looks at the interruption

// The next character; a byte that is not UTF-8 is a character of its own, beyond all others.
char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xF0 && first < 0xF5 ? 4
                           : first >= 0xE0 && first < 0xF0 ? 3
                           : first >= 0xC2 && first < 0xE0 ? 2
                                                           : 0;
  char32_t value = size <= 1 ? first : first & (0x7F >> size);
  bool good = size > 0 && at + size <= text.size();
  for (std::size_t i = 1; good && i < size; ++i) {
    good = (byte(at + i) & 0xC0) == 0x80;
    value = value << 6 | (byte(at + i) & 0x3F);
  }
  at += good ? size : 1;
  return good ? value : kLastCharacter + 1 + first;
}

}  // namespace

class PatternParser {
 public:
  PatternParser(std::string_view text, Pattern& to) : text_(text), to_(to) {}

  void run() {
    const Part whole = alternatives(0);
    if (at_ < text_.size()) wrong("')' without '('");
    emit(whole);
    add({Step::Kind::kMatch});
  }

 private:
  using Step = Pattern::Step;
  using Ranges = Pattern::Ranges;
  struct Part {
    enum class Kind { kSet, kBegin, kEnd, kAll, kAny, kRepeat } kind = Kind::kAll;  // kAll, kAny: of `parts`
    std::size_t set = 0;
    int least = 1, most = 1;  // of kRepeat; most -1: no limit
    std::vector<Part> parts{};
  };

  [[noreturn]] void wrong(std::string_view why) const {
    throw Error(ErrorKind::kUsage,
                fmt::format("the pattern '{}' is wrong at byte {}: {}", text_.substr(0, 100), at_, why));
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Part alternatives(int depth) {
    if (depth > 100) wrong("more than 100 groups in one another");
    Part any{Part::Kind::kAny};
    do {
      Part all{Part::Kind::kAll};
      while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') all.parts.push_back(repeated(depth));
      any.parts.push_back(std::move(all));
    } while (take('|'));
    if (any.parts.size() > 1) return any;
    Part only = std::move(any.parts[0]);
    return only;
  }

  Part repeated(int depth) {
    Part part = single(depth);
    while (at_ < text_.size()) {
      int least = 0, most = -1;
      if (take('*')) {
      } else if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (take('{')) {
        least = number();
        most = take(',') ? (at_ < text_.size() && text_[at_] != '}' ? number() : -1) : least;
        if (!take('}')) wrong("expected '}'");
        if (most >= 0 && most < least) wrong("{m,n} with n below m");
      } else {
        break;
      }
      if (++nested_ > 1000) wrong("too many repetitions");
      Part outer{Part::Kind::kRepeat};
      outer.least = least, outer.most = most;
      outer.parts.push_back(std::move(part));
      part = std::move(outer);
    }
    return part;
  }

  int number() {
    int value = 0;
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > 1000) wrong("more than 1000 repetitions");
    }
    if (at_ == begin) wrong("expected a number");
    return value;
  }

  Part single(int depth) {
    if (take('(')) {
      if (take('?') && !take(':')) wrong("of groups with '?' there is only (?:");
      Part inner = alternatives(depth + 1);
      if (!take(')')) wrong("expected ')'");
      return inner;
    }
    if (take('^')) return {Part::Kind::kBegin};
    if (take('$')) return {Part::Kind::kEnd};
    if (take('.')) return set_of({{0, '\n' - 1}, {'\n' + 1, kLastCharacter + 256}});
    if (take('[')) return set_of(bracket());
    if (take('\\')) return set_of(escaped());
    if (std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) wrong("nothing to repeat");
    const char32_t c = next_character(text_, at_);
    return set_of({{c, c}});
  }

  static Ranges inverted(Ranges ranges) {
    std::ranges::sort(ranges);
    Ranges out;
    char32_t next = 0;
    for (const auto& [low, high] : ranges) {
      if (low > next) out.emplace_back(next, low - 1);
      next = std::max<char32_t>(next, high + 1);
    }
    out.emplace_back(next, kLastCharacter + 256);
    return out;
  }

  Ranges escaped() {
    if (at_ >= text_.size()) wrong("a backslash at the end");
    const char c = text_[at_];
    const Ranges digits = {{'0', '9'}}, spaces = {{'\t', '\r'}, {' ', ' '}};
    const Ranges words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    ++at_;
    switch (c) {
      case 'd':
        return digits;
      case 'D':
        return inverted(digits);
      case 's':
        return spaces;
      case 'S':
        return inverted(spaces);
      case 'w':
        return words;
      case 'W':
        return inverted(words);
      case 't':
        return {{'\t', '\t'}};
      case 'n':
        return {{'\n', '\n'}};
      default:
        break;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      --at_, wrong(fmt::format("unknown escape \\{}", c));
    --at_;
    const char32_t self = next_character(text_, at_);
    return {{self, self}};
  }

  Ranges bracket() {
    const bool negative = take('^');
    Ranges out;
    for (bool first = true;; first = false) {
      if (at_ >= text_.size()) wrong("expected ']'");
      if (!first && take(']')) break;
      Ranges low = element();
      const bool range = at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']';
      if (range) {
        ++at_;
        const Ranges high = element();
        if (low.size() != 1 || high.size() != 1 || low[0].first != low[0].second || high[0].first != high[0].second ||
            high[0].first < low[0].first)
          wrong("a range whose ends are wrong");
        low[0].second = high[0].first;
      }
      out.insert(out.end(), low.begin(), low.end());
    }
    return negative ? inverted(out) : out;
  }
  Ranges element() {
    if (take('\\')) return escaped();
    const char32_t c = next_character(text_, at_);
    return {{c, c}};
  }

  Part set_of(Ranges ranges) {
    to_.sets_.push_back(std::move(ranges));
    Part part{Part::Kind::kSet};
    part.set = to_.sets_.size() - 1;
    return part;
  }

  std::size_t add(Step step) {
    if (to_.steps_.size() >= Pattern::kMost)
      throw Error(ErrorKind::kUsage, fmt::format("the pattern '{}' is too large", text_.substr(0, 100)));
    to_.steps_.push_back(step);
    return to_.steps_.size() - 1;
  }
  std::size_t here() const { return to_.steps_.size(); }

  void emit(const Part& part) {
    // Repetitions of nothing make no steps, but take time.
    if (++emitted_ > 10 * Pattern::kMost)
      throw Error(ErrorKind::kUsage, fmt::format("the pattern '{}' is too large", text_.substr(0, 100)));
    switch (part.kind) {
      case Part::Kind::kSet:
        add({Step::Kind::kSet, part.set});
        break;
      case Part::Kind::kBegin:
        add({Step::Kind::kBegin});
        break;
      case Part::Kind::kEnd:
        add({Step::Kind::kEnd});
        break;
      case Part::Kind::kAll:
        for (const Part& each : part.parts) emit(each);
        break;
      case Part::Kind::kAny: {
        std::vector<std::size_t> ends;
        for (std::size_t i = 0; i < part.parts.size(); ++i) {
          const bool last = i + 1 == part.parts.size();
          const std::size_t split = last ? 0 : add({Step::Kind::kSplit, here() + 1});
          emit(part.parts[i]);
          if (!last) ends.push_back(add({Step::Kind::kJump}));
          if (!last) to_.steps_[split].other = here();
        }
        for (const std::size_t end : ends) to_.steps_[end].to = here();
        break;
      }
      case Part::Kind::kRepeat:
        emit_repeat(part);
        break;
    }
  }
  void emit_repeat(const Part& part) {
    const Part& inner = part.parts[0];
    for (int i = 0; i < part.least; ++i) emit(inner);
    if (part.most < 0) {
      const std::size_t split = add({Step::Kind::kSplit, here() + 1});
      emit(inner);
      add({Step::Kind::kJump, split});
      to_.steps_[split].other = here();
      return;
    }
    std::vector<std::size_t> splits;
    for (int i = part.least; i < part.most; ++i) {
      splits.push_back(add({Step::Kind::kSplit, here() + 1}));
      emit(inner);
    }
    for (const std::size_t split : splits) to_.steps_[split].other = here();
  }

  std::string_view text_;
  Pattern& to_;
  std::size_t at_ = 0;
  int nested_ = 0;
  std::size_t emitted_ = 0;
};

Pattern::Pattern(std::string_view text) {
  if (text.size() > 4096) throw Error(ErrorKind::kUsage, "the pattern is longer than 4096 bytes");
  PatternParser(text, *this).run();
}

bool Pattern::matches(std::string_view value, const Interruption* interruption) const {
  std::vector<std::size_t> now, next, stack;
  std::vector<std::uint32_t> seen(steps_.size(), 0);
  std::uint32_t round = 0;
  bool matched = false;
  // Adds the step and all that follow from it without a character.
  const auto reach = [&](std::size_t first, std::vector<std::size_t>& list, bool begin, bool end) {
    stack.assign(1, first);
    while (!stack.empty()) {
      const std::size_t at = stack.back();
      stack.pop_back();
      if (seen[at] == round) continue;
      seen[at] = round;
      const Step& step = steps_[at];
      switch (step.kind) {
        case Step::Kind::kSplit:
          stack.push_back(step.other);
          stack.push_back(step.to);
          break;
        case Step::Kind::kJump:
          stack.push_back(step.to);
          break;
        case Step::Kind::kBegin:
          if (begin) stack.push_back(at + 1);
          break;
        case Step::Kind::kEnd:
          if (end) stack.push_back(at + 1);
          break;
        case Step::Kind::kMatch:
          matched = true;
          break;
        case Step::Kind::kSet:
          list.push_back(at);
          break;
      }
    }
  };
  ++round;
  reach(0, now, true, value.empty());
  for (std::size_t at = 0; at < value.size();) {
    const char32_t c = next_character(value, at);
    if (++round % kLookEvery == 0 && interruption) interruption->check();
    matched = false;
    next.clear();
    for (const std::size_t step : now) {
      const Ranges& set = sets_[steps_[step].to];
      const bool in =
          std::ranges::any_of(set, [c](const auto& range) { return c >= range.first && c <= range.second; });
      if (in) reach(step + 1, next, false, at == value.size());
    }
    now.swap(next);
    if (now.empty() && !matched) return false;
  }
  return matched;
}

}  // namespace mlx::data
