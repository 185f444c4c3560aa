// The walk: each branch of the trie whose bytes lead somewhere is entered, all below the others are passed over.
#include "infer/grammar/token_grammar.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/tokenizer.h"

namespace mlx::infer::grammar {
namespace {

constexpr std::size_t kMostMaskBytes = std::size_t{32} << 20, kManyFrames = std::size_t{1} << 20;
constexpr std::size_t kLongestToken = 4096;  // bytes; longer ones are never drawn under a grammar

}  // namespace

Vocabulary::Vocabulary(const data::Tokenizer& tokenizer, std::vector<std::int32_t> ends) : ends_(std::move(ends)) {
  std::erase_if(ends_, [&](std::int32_t token) { return token < 0 || token >= tokenizer.size(); });
  for (std::int32_t token = 0; token < tokenizer.size(); ++token) {
    const std::string_view piece = tokenizer.piece(token);
    const bool text = !tokenizer.is_special(token) && !this->ends(token) && piece.size() <= kLongestToken;
    bytes_.emplace_back(text ? piece : std::string_view());
    if (!bytes_.back().empty()) tokens_.push_back(token);
  }
  std::ranges::sort(tokens_, [&](std::int32_t a, std::int32_t b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  std::vector<std::uint32_t> path;  // of open branches
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      branches_[path.back()].behind = static_cast<std::uint32_t>(branches_.size());
  };
  std::string_view before;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view now = bytes(tokens_[i]);
    close_to(static_cast<std::size_t>(std::ranges::mismatch(before, now).in2 - now.begin()));
    while (path.size() < now.size()) {
      path.push_back(static_cast<std::uint32_t>(branches_.size()));
      branches_.push_back(
          {.depth = static_cast<std::uint16_t>(path.size()), .byte = static_cast<std::uint8_t>(now[path.size() - 1])});
    }
    Branch& last = branches_[path.back()];
    if (last.count++ == 0) last.first = static_cast<std::uint32_t>(i);
    deepest_ = std::max(deepest_, now.size());
    before = now;
  }
  close_to(0);
}

bool Vocabulary::ends(std::int32_t token) const {
  return std::ranges::find(ends_, token) != ends_.end();
}

TokenGrammar::TokenGrammar(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<const Automaton> automaton,
                           std::string what)
    : vocabulary_(std::move(vocabulary)), what_(std::move(what)), states_(std::move(automaton), what_) {}

bool TokenGrammar::is_full() const {
  const std::lock_guard lock(mutex_);
  return states_.frames() > kManyFrames;
}

void TokenGrammar::make_room() {
  const std::size_t each = (vocabulary_->size() + 63) / 64 * 8;
  if (!states_.is_crowded() && masks_.size() * each < kMostMaskBytes) return;
  states_.forget_sets();
  masks_.clear();
  ++epoch_;
}

States::Set TokenGrammar::set_of(const Places& places, Kept& kept) {
  make_room();
  if (kept.epoch != epoch_) kept = {epoch_, states_.number_of(places)};
  return kept.set;
}

const std::shared_ptr<const Mask>& TokenGrammar::mask_of(States::Set set) {
  std::shared_ptr<const Mask>& mask = masks_[set];
  if (!mask) mask = make_mask(set);
  return mask;
}

std::shared_ptr<const Mask> TokenGrammar::make_mask(States::Set set) {
  auto mask = std::make_shared<Mask>();
  mask->bits.resize((vocabulary_->size() + 63) / 64 + 1);  // never of no words, which would allow all
  const auto allow = [&](std::int32_t token) {
    mask->bits[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
    ++mask->tokens;
  };
  const std::vector<Vocabulary::Branch>& branches = vocabulary_->branches();
  const std::vector<std::int32_t>& tokens = vocabulary_->tokens();
  std::vector<const States::Row*> rows(vocabulary_->deepest() + 1);
  rows[0] = &states_.row(set);
  for (std::size_t at = 0; at < branches.size();) {
    const Vocabulary::Branch& branch = branches[at];
    const States::Set next = (*rows[branch.depth - 1u])[branch.byte];
    if (next == States::kNone) {
      at = branch.behind;
      continue;
    }
    for (std::uint32_t i = 0; i < branch.count; ++i) allow(tokens[branch.first + i]);
    if (++at < branch.behind) rows[branch.depth] = &states_.row(next);
  }
  if (states_.may_end(set))
    for (const std::int32_t token : vocabulary_->ends()) allow(token);
  return mask;
}

Matcher::Matcher(std::shared_ptr<TokenGrammar> grammar) : grammar_(std::move(grammar)) {
  const std::lock_guard lock(grammar_->mutex_);
  places_ = grammar_->states_.start();
}

std::shared_ptr<const Mask> Matcher::allowed() {
  const std::lock_guard lock(grammar_->mutex_);
  const States::Set set = grammar_->set_of(places_, kept_);
  std::shared_ptr<const Mask> mask = grammar_->mask_of(set);
  if (mask->tokens == 0 && !grammar_->states_.may_end(set))
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: what comes next in the text is in no token of the model", grammar_->what_),
                "the model's tokenizer cannot write every text of the grammar");
  return mask;
}

bool Matcher::accept(std::int32_t token) {
  const Vocabulary& vocabulary = grammar_->vocabulary();
  if (vocabulary.ends(token)) return false;
  const std::lock_guard lock(grammar_->mutex_);
  States::Set set = grammar_->set_of(places_, kept_);
  for (const char byte : vocabulary.bytes(token)) set = grammar_->states_.row(set)[static_cast<unsigned char>(byte)];
  CHECK(set != States::kNone);
  places_ = grammar_->states_.places(set);
  kept_.set = set;
  return true;
}

bool Matcher::complete() {
  const std::lock_guard lock(grammar_->mutex_);
  return grammar_->states_.must_end(grammar_->set_of(places_, kept_));
}

}  // namespace mlx::infer::grammar
