// Trees to programs, whose length is bounded.

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "data/subword/regex.h"
#include "data/subword/regex_tree.h"

namespace mlx::data::subword {
namespace {

constexpr std::size_t kLongestPattern = 64 << 10, kLongestProgram = 64 << 10;

using Instruction = Regex::Instruction;
using Op = Instruction::Op;
using Greed = Instruction::Greed;

}  // namespace

class RegexCompiler {
 public:
  explicit RegexCompiler(Regex& out) : out_(out) {}

  void compile(const RegexNode& tree) {
    const std::span<const RegexNode> branches =
        tree.kind == RegexNode::Kind::kAlternatives ? std::span(tree.parts) : std::span(&tree, 1);
    for (const RegexNode& branch : branches) {
      Regex::Branch& added = out_.branches_.emplace_back();
      added.start = here();
      emit(branch);
      add({.op = Op::kAccept});
      if (!add_first_bytes(branch, added.first)) added.first.set();
    }
  }

 private:
  std::uint32_t here() const { return static_cast<std::uint32_t>(out_.program_.size()); }
  std::uint32_t add(const Instruction& instruction) {
    if (out_.program_.size() >= kLongestProgram) throw RegexRefused{"it is too long"};
    out_.program_.push_back(instruction);
    return here() - 1;
  }
  std::uint32_t add_set(CharSet set) {
    set.finish();
    const auto found = std::ranges::find(out_.sets_, set);
    if (found != out_.sets_.end()) return static_cast<std::uint32_t>(found - out_.sets_.begin());
    out_.sets_.push_back(std::move(set));
    return static_cast<std::uint32_t>(out_.sets_.size() - 1);
  }

  void emit(const RegexNode& node) {
    switch (node.kind) {
      case RegexNode::Kind::kEmpty:
        return;
      case RegexNode::Kind::kLeaf: {
        Instruction leaf = node.leaf;
        if (leaf.op == Op::kSet) leaf.set = add_set(node.set);
        add(leaf);
        return;
      }
      case RegexNode::Kind::kSequence:
        for (const RegexNode& part : node.parts) emit(part);
        return;
      case RegexNode::Kind::kAlternatives:
        return emit_alternatives(node);
      case RegexNode::Kind::kRepeat:
        return emit_repeat(node);
      case RegexNode::Kind::kLook:
      case RegexNode::Kind::kAtomic: {
        Instruction inside = node.leaf;
        inside.op = node.kind == RegexNode::Kind::kLook ? Op::kLook : Op::kAtomic;
        emit_inside(inside, node.parts[0]);
        return;
      }
    }
  }
  void emit_inside(const Instruction& instruction, const RegexNode& part) {
    const std::uint32_t at = add(instruction);
    emit(part);
    add({.op = Op::kAccept});
    out_.program_[at].other = here();
  }

  void emit_alternatives(const RegexNode& node) {
    std::vector<std::uint32_t> jumps;
    for (std::size_t i = 0; i + 1 < node.parts.size(); ++i) {
      const std::uint32_t split = add({.op = Op::kSplit});
      emit(node.parts[i]);
      jumps.push_back(add({.op = Op::kJump}));
      out_.program_[split].other = here();
    }
    emit(node.parts.back());
    for (const std::uint32_t jump : jumps) out_.program_[jump].other = here();
  }

  void emit_repeat(const RegexNode& node) {
    const RegexNode& part = node.parts[0];
    const auto single = [](const RegexNode& one) {
      return one.kind == RegexNode::Kind::kLeaf &&
             (one.leaf.op == Op::kSet || (one.leaf.op == Op::kChar && !one.leaf.folds));
    };
    if (single(part)) {
      CharSet set = part.set;
      if (part.leaf.op == Op::kChar) set.add(part.leaf.code, part.leaf.code);
      Instruction loop = node.leaf;
      loop.op = Op::kLoop;
      loop.set = add_set(std::move(set));
      add(loop);
      return;
    }
    if (node.leaf.greed == Greed::kPossessive) {
      RegexNode greedy = node;
      greedy.leaf.greed = Greed::kGreedy;
      return emit_inside({.op = Op::kAtomic}, greedy);
    }
    const bool lazy = node.leaf.greed == Greed::kLazy;
    for (std::uint32_t i = 0; i < node.leaf.least; ++i) emit(part);
    if (node.leaf.most == kUnlimitedRepeats) {
      const std::uint32_t split = add({.op = Op::kSplit, .negated = lazy});
      emit(part);
      const std::uint32_t jump = add({.op = Op::kJump});
      out_.program_[jump].other = split;
      out_.program_[split].other = here();
      return;
    }
    std::vector<std::uint32_t> splits;
    for (std::uint32_t i = node.leaf.least; i < node.leaf.most; ++i) {
      splits.push_back(add({.op = Op::kSplit, .negated = lazy}));
      emit(part);
    }
    for (const std::uint32_t split : splits) out_.program_[split].other = here();
  }

  Regex& out_;
};

Regex::Regex(std::string_view pattern, std::string_view what) : pattern_(pattern) {
  try {
    if (pattern.size() > kLongestPattern) throw RegexRefused{"it is too long"};
    RegexCompiler(*this).compile(parse_regex(pattern));
  } catch (const RegexRefused& refused) {
    fail(ErrorKind::kCorrupt, "{}: the pattern {}: {}", what, pattern.substr(0, 60), refused.why);
  }
}

}  // namespace mlx::data::subword
