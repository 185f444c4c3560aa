// From expressions to nodes, each made after what follows it; characters as tables of their bytes in UTF-8.
#include "infer/grammar/automaton.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::infer::grammar {
namespace {

constexpr std::uint64_t kMostNodes = 1 << 20, kMostTables = 16'384;

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return std::min(a + b, 2 * kMostNodes);
}

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return a == 0 || b <= 2 * kMostNodes / a ? a * b : 2 * kMostNodes;
}

// How many nodes an expression becomes, at least; 2 kMostNodes stands for more than that.
std::uint64_t nodes_of(const Expression& e) {
  using Kind = Expression::Kind;
  if (e.kind == Kind::kLiteral) return std::min<std::uint64_t>(e.text.size(), 2 * kMostNodes);
  if (e.kind == Kind::kCharacter || e.kind == Kind::kRule) return 1;
  std::uint64_t parts = 0;
  for (const Expression& part : e.parts) parts = plus(parts, nodes_of(part));
  if (e.kind == Kind::kRepeat) return times(plus(parts, 1), e.most == kNoLimit ? e.least + 1ULL : e.most);
  return plus(parts, e.kind == Kind::kChoice ? e.parts.size() : 0);
}

}  // namespace

Automaton::Automaton(const Rules& rules, const std::string& what, bool blank) : what_(what) {
  std::uint64_t size = 0;
  for (const Rule& each : rules.rules) size = plus(size, nodes_of(each.body));
  if (size > kMostNodes)
    fail(ErrorKind::kUsage, "{}: the grammar is too large: with its repetitions it has more than {} places", what,
         kMostNodes);
  add({});
  for (const Rule& each : rules.rules) rule_starts_.push_back(compile(each.body, kEndNode));
  resolve_calls();
  start_ = rule_starts_[rules.root];
  check(rules);
  if (blank) start_ = add({Node::Kind::kSplit, start_, add({Node::Kind::kByte, start_, ' '})});
}

std::uint32_t Automaton::add(Node node) {
  nodes_.push_back(node);
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

std::uint32_t Automaton::compile(const Expression& e, std::uint32_t next) {
  switch (e.kind) {
    case Expression::Kind::kLiteral:
      for (std::size_t i = e.text.size(); i > 0; --i)
        next = add({Node::Kind::kByte, next, static_cast<unsigned char>(e.text[i - 1])});
      return next;
    case Expression::Kind::kCharacter:
      return add({Node::Kind::kCharacter, next, table_of(e.characters)});
    case Expression::Kind::kRule:
      return add({Node::Kind::kCall, next, static_cast<std::uint32_t>(e.rule)});
    case Expression::Kind::kSequence:
      for (std::size_t i = e.parts.size(); i > 0; --i) next = compile(e.parts[i - 1], next);
      return next;
    case Expression::Kind::kChoice: {
      std::uint32_t first = compile(e.parts.back(), next);
      for (std::size_t i = e.parts.size() - 1; i > 0; --i)
        first = add({Node::Kind::kSplit, compile(e.parts[i - 1], next), first});
      return first;
    }
    case Expression::Kind::kRepeat:
      return compile_repeat(e, next);
  }
  CHECK(false);
  return next;
}

std::uint32_t Automaton::compile_repeat(const Expression& e, std::uint32_t next) {
  std::uint32_t at = next;
  if (e.most == kNoLimit) {
    at = add({Node::Kind::kSplit, 0, next});
    const std::uint32_t body = compile(e.parts[0], at);
    nodes_[at].next = body;
  } else {
    for (std::uint32_t i = e.least; i < e.most; ++i) {
      const std::uint32_t body = compile(e.parts[0], at);
      at = add({Node::Kind::kSplit, body, next});
    }
  }
  for (std::uint32_t i = 0; i < e.least; ++i) at = compile(e.parts[0], at);
  return at;
}

std::uint16_t Automaton::table(const Continuations& of) {
  const auto [found, fresh] = numbers_.emplace(of, static_cast<std::uint16_t>(tables_.size()));
  if (fresh) {
    if (tables_.size() == kMostTables)
      fail(ErrorKind::kUsage, "{}: the grammar is too large: its classes have too many characters", what_);
    tables_.push_back(of);
  }
  return found->second;
}

// Characters that begin with `prefix`, the bits of the bytes before, and have `bytes` more.
std::uint16_t Automaton::table_of(const CodePoints& set, char32_t prefix, int bytes) {
  if (bytes == 0) return Continuations::kWhole;
  const char32_t each = char32_t{1} << (6 * (bytes - 1)), first = prefix * each * 64;
  const bool all = set.size() == 1 && set[0] == std::pair<char32_t, char32_t>(first, first + each * 64 - 1);
  std::uint16_t& known = any_[static_cast<std::size_t>(bytes)];  // most classes have nearly all characters
  if (all && known > 0) return known - 1;
  Continuations out;
  out.by_byte.fill(Continuations::kNone);
  for (char32_t byte = 0; byte < 64; ++byte) {
    const char32_t code = (prefix << 6 | byte) * each;
    const CodePoints part = common(set, {{code, code + each - 1}});
    if (!part.empty()) out.by_byte[0x80 + byte] = table_of(part, prefix << 6 | byte, bytes - 1);
  }
  const std::uint16_t number = table(out);
  if (all) known = number + 1;
  return number;
}

std::uint16_t Automaton::table_of(const CodePoints& set) {
  if (const auto found = classes_.find(set); found != classes_.end()) return found->second;
  Continuations out;
  out.by_byte.fill(Continuations::kNone);
  for (const auto& [low, high] : common(set, {{0, 0x7F}}))
    for (char32_t code = low; code <= high; ++code) out.by_byte[code] = Continuations::kWhole;
  const auto lead = [&](const CodePoints& part, char32_t first, char32_t last, int bytes) {
    for (char32_t byte = first; byte <= last && !part.empty(); ++byte) {
      const char32_t prefix = byte - first, each = char32_t{1} << (6 * bytes);
      const CodePoints own = common(part, {{prefix * each, prefix * each + each - 1}});
      if (!own.empty()) out.by_byte[byte] = table_of(own, prefix, bytes);
    }
  };
  lead(common(set, {{0x80, 0x7FF}}), 0xC0, 0xDF, 1);
  lead(common(set, {{0x800, 0xFFFF}}), 0xE0, 0xEF, 2);
  lead(common(set, {{0x10000, 0x10FFFF}}), 0xF0, 0xF4, 3);
  return classes_[set] = table(out);
}

// Calls have the number of a rule until all rules are there.
void Automaton::resolve_calls() {
  for (Node& node : nodes_)
    if (node.kind == Node::Kind::kCall) node.value = rule_starts_[node.value];
}

std::vector<bool> Automaton::reaching_end(bool with_bytes) const {
  // Edges backwards: who has to be looked at again once a node reaches its end.
  std::vector<std::uint32_t> first(nodes_.size() + 2), from;
  const auto each_edge = [&](const auto& visit) {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.kind == Node::Kind::kEnd) continue;
      visit(node.next, i);
      if (node.kind == Node::Kind::kSplit || node.kind == Node::Kind::kCall) visit(node.value, i);
    }
  };
  each_edge([&](std::uint32_t to, std::uint32_t) { ++first[to + 2]; });
  for (std::size_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
  from.resize(first.back());
  each_edge([&](std::uint32_t to, std::uint32_t i) { from[first[to + 1]++] = i; });

  std::vector<bool> reaches(nodes_.size());
  reaches[kEndNode] = true;
  std::vector<std::uint32_t> todo{kEndNode};
  while (!todo.empty()) {
    const std::uint32_t at = todo.back();
    todo.pop_back();
    for (std::uint32_t i = first[at]; i < first[at + 1]; ++i) {
      const std::uint32_t before = from[i];
      const Node& node = nodes_[before];
      if (reaches[before]) continue;
      const bool of_bytes = node.kind == Node::Kind::kByte || node.kind == Node::Kind::kCharacter;
      if (of_bytes && !with_bytes) continue;
      if (node.kind == Node::Kind::kCall && !(reaches[node.next] && reaches[node.value])) continue;
      reaches[before] = true;
      todo.push_back(before);
    }
  }
  return reaches;
}

std::vector<bool> Automaton::reachable() const {
  std::vector<bool> seen(nodes_.size());
  std::vector<std::uint32_t> todo{start_};
  while (!todo.empty()) {
    const std::uint32_t at = todo.back();
    todo.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const Node& node = nodes_[at];
    if (node.kind == Node::Kind::kEnd) continue;
    todo.push_back(node.next);
    if (node.kind == Node::Kind::kSplit || node.kind == Node::Kind::kCall) todo.push_back(node.value);
  }
  return seen;
}

void Automaton::check(const Rules& rules) const {
  check_ends(rules);
  check_left_recursion(rules);
}

void Automaton::check_ends(const Rules& rules) const {
  const std::vector<bool> ends = reaching_end(true), seen = reachable();
  for (std::size_t i = 0; i < rules.rules.size(); ++i)
    if (seen[rule_starts_[i]] && !ends[rule_starts_[i]])
      fail(ErrorKind::kUsage, "{}: no text of the rule '{}' ends: each of its alternatives needs another of it", what_,
           rules.rules[i].name);
}

// A rule is left-recursive if it can call itself before any byte.
void Automaton::check_left_recursion(const Rules& rules) const {
  const std::vector<bool> empty = reaching_end(false);
  std::map<std::uint32_t, std::size_t> rule_at;
  for (std::size_t i = 0; i < rule_starts_.size(); ++i) rule_at.emplace(rule_starts_[i], i);
  // What each rule begins with: the starts of others.
  std::vector<std::uint32_t> seen_by(nodes_.size(), UINT32_MAX), todo;
  const auto begins_with = [&](std::size_t number) {
    std::vector<std::size_t> out;
    todo = {rule_starts_[number]};
    while (!todo.empty()) {
      const std::uint32_t at = todo.back();
      todo.pop_back();
      if (seen_by[at] == number) continue;
      seen_by[at] = static_cast<std::uint32_t>(number);
      const Node& node = nodes_[at];
      if (node.kind == Node::Kind::kSplit) todo.push_back(node.next), todo.push_back(node.value);
      if (node.kind != Node::Kind::kCall) continue;
      out.push_back(rule_at.at(node.value));
      if (empty[node.value]) todo.push_back(node.next);
    }
    return out;
  };
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(rule_starts_.size(), Mark::kNew);
  struct Visit {
    std::size_t rule;
    std::vector<std::size_t> next;
  };
  for (std::size_t root = 0; root < marks.size(); ++root) {
    if (marks[root] != Mark::kNew) continue;
    std::vector<Visit> path;
    const auto enter = [&](std::size_t number) {
      marks[number] = Mark::kOpen;
      path.push_back({number, begins_with(number)});
    };
    enter(root);
    while (!path.empty()) {
      Visit& visit = path.back();
      if (visit.next.empty()) {
        marks[visit.rule] = Mark::kDone;
        path.pop_back();
        continue;
      }
      const std::size_t next = visit.next.back();
      visit.next.pop_back();
      if (marks[next] == Mark::kOpen)
        throw Error(
            ErrorKind::kUsage,
            fmt::format("{}: the rule '{}' is left-recursive: it begins with itself", what_, rules.rules[next].name),
            "write what repeats with * or +, or on the right: a ::= b | b a");
      if (marks[next] == Mark::kNew) enter(next);
    }
  }
}

}  // namespace mlx::infer::grammar
