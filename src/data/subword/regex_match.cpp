// Running a pattern's program: a loop with a stack of the places to go back to.

#include <algorithm>

#include "base/error.h"
#include "data/subword/regex.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {

// A place to go back to: an instruction and a position. Of a loop: `at` may go down to `least`, or up to `most` by one
// character of the set each time (lazy).
struct Regex::State {
  std::uint32_t instruction = 0;
  bool loop = false;
  std::size_t at = 0, limit = 0;
  std::uint32_t left = 0;  // of a lazy loop: characters that it may still take
};

namespace {

[[noreturn]] void out_of_budget(const std::string& pattern) {
  throw Error(ErrorKind::kUsage, fmt::format("the pattern {} takes too long for this text", pattern.substr(0, 60)),
              "it tries too many ways to match");
}

bool is_word_edge(std::string_view text, std::size_t at) {
  const bool before = at > 0 && is_word(character_before(text.data(), text.data() + at).code);
  const bool after = at < text.size() && is_word(character_at(text, at).code);
  return before != after;
}

// `count` characters before `at`; nullopt: the text begins sooner.
std::optional<std::size_t> characters_back(std::string_view text, std::size_t at, std::uint32_t count) {
  for (; count > 0; --count) {
    if (at == 0) return std::nullopt;
    at -= character_before(text.data(), text.data() + at).bytes;
  }
  return at;
}

}  // namespace

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from, Budget& budget) const {
  thread_local std::vector<State> stack;
  stack.clear();
  for (std::size_t at = from;;) {
    for (const Branch& branch : branches_) {
      const bool possible =
          at < text.size() ? branch.first.test(static_cast<unsigned char>(text[at])) : branch.first.all();
      if (!possible) continue;
      const std::optional<std::size_t> end = run(text, at, branch.start, budget, stack);
      if (end) return Match{at, *end};
    }
    if (at >= text.size()) return std::nullopt;
    if (!budget.spend()) out_of_budget(pattern_);
    at += character_at(text, at).bytes;
  }
}

std::optional<std::size_t> Regex::run(std::string_view text, std::size_t at, std::uint32_t start, Budget& budget,
                                      std::vector<State>& stack) const {
  using Op = Instruction::Op;
  using Greed = Instruction::Greed;
  const std::size_t bottom = stack.size();
  const auto leave = [&](std::optional<std::size_t> end) {
    stack.resize(bottom);
    return end;
  };
  std::uint32_t i = start;
  for (;;) {
    if (!budget.spend()) out_of_budget(pattern_);
    const Instruction& instruction = program_[i];
    bool matches = true;
    switch (instruction.op) {
      case Op::kAccept:
        return leave(at);
      case Op::kChar:
      case Op::kSet:
      case Op::kAny: {
        matches = at < text.size();
        if (!matches) break;
        const Character character = character_at(text, at);
        const char32_t code = instruction.folds ? folded_of(character.code) : character.code;
        matches = instruction.op == Op::kChar  ? code == instruction.code
                  : instruction.op == Op::kSet ? sets_[instruction.set].has(code)
                                               : code != '\n';
        at += character.bytes;
        ++i;
        break;
      }
      case Op::kLoop: {
        const CharSet& set = sets_[instruction.set];
        const bool lazy = instruction.greed == Greed::kLazy;
        const std::uint32_t most = lazy ? instruction.least : instruction.most;
        std::uint32_t count = 0;
        std::size_t least = at;  // the end of the fewest characters
        while (count < most && at < text.size()) {
          const Character character = character_at(text, at);
          if (!set.has(character.code)) break;
          at += character.bytes;
          if (++count <= instruction.least) least = at;
          if (!budget.spend()) out_of_budget(pattern_);
        }
        matches = count >= instruction.least;
        if (matches && lazy && instruction.most > count) stack.push_back({i, true, at, 0, instruction.most - count});
        if (matches && instruction.greed == Greed::kGreedy && at > least) stack.push_back({i, true, at, least, 0});
        ++i;
        break;
      }
      case Op::kSplit:
        stack.push_back({instruction.negated ? i + 1 : instruction.other, false, at, 0, 0});
        i = instruction.negated ? instruction.other : i + 1;
        break;
      case Op::kJump:
        i = instruction.other;
        break;
      case Op::kLook: {
        const std::optional<std::size_t> from =
            instruction.behind ? characters_back(text, at, instruction.least) : std::optional(at);
        matches = (from && run(text, *from, i + 1, budget, stack).has_value()) != instruction.negated;
        i = instruction.other;
        break;
      }
      case Op::kAtomic: {
        const std::optional<std::size_t> end = run(text, at, i + 1, budget, stack);
        matches = end.has_value();
        at = end.value_or(at);
        i = instruction.other;
        break;
      }
      case Op::kLineBegin:
        matches = at == 0 || (text[at - 1] == '\n' && at < text.size());
        ++i;
        break;
      case Op::kLineEnd:
        matches = at == text.size() || text[at] == '\n';
        ++i;
        break;
      case Op::kTextBegin:
        matches = at == 0;
        ++i;
        break;
      case Op::kTextEnd:
        matches = at == text.size();
        ++i;
        break;
      case Op::kLastLine:
        matches = at == text.size() || (at + 1 == text.size() && text[at] == '\n');
        ++i;
        break;
      case Op::kWordEdge:
      case Op::kNoWordEdge:
        matches = is_word_edge(text, at) == (instruction.op == Op::kWordEdge);
        ++i;
        break;
    }
    while (!matches) {
      if (stack.size() == bottom) return std::nullopt;
      State& back = stack.back();
      i = back.instruction;
      at = back.at;
      matches = true;
      if (!back.loop) {
        stack.pop_back();
      } else if (program_[i].greed == Greed::kLazy) {
        const Character character = at < text.size() ? character_at(text, at) : Character{kInvalidByte, 0};
        matches = back.left > 0 && character.bytes > 0 && sets_[program_[i].set].has(character.code);
        at = back.at += character.bytes;
        --back.left;
        if (!matches) stack.pop_back();
        ++i;
      } else {
        at -= character_before(text.data() + back.limit, text.data() + at).bytes;
        back.at = at;
        if (at <= back.limit) stack.pop_back();
        ++i;
      }
      if (!budget.spend()) out_of_budget(pattern_);
    }
  }
}

}  // namespace mlx::data::subword
