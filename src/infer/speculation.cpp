// Proposals are looked up or drawn; wrong ones cost time and change nothing.

#include "infer/speculation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "infer/generate.h"
#include "infer/text_writer.h"

namespace mlx::infer {
namespace {

constexpr std::int64_t kDefaultNgram = 4, kLeastNgram = 2;
constexpr std::size_t kLookedAt = std::size_t{1} << 16;  // last tokens of a text
constexpr std::int64_t kAskDraftEvery = 16;              // tokens, where its proposals do not pay
constexpr double kRate = 0.1;                            // at which what is known of acceptance follows what happens

// The time of a pass, in passes of one row: measured with weights of four bits on two cores. Where processors have more
// arithmetic for their memory, more rows cost less.
constexpr std::array<double, ProposalCount::kRows.size()> kCost{1.18, 1.36, 2.1, 4.0};

// The length of the equal ends of the text and of its part before `end`.
std::int64_t common_end(std::span<const std::int32_t> tokens, std::size_t end, std::int64_t most) {
  std::int64_t same = 0;
  while (same < most && static_cast<std::size_t>(same) < end &&
         tokens[end - 1 - static_cast<std::size_t>(same)] == tokens[tokens.size() - 1 - static_cast<std::size_t>(same)])
    ++same;
  return same;
}

}  // namespace

std::int64_t parse_ngram(const std::string& text, const std::string& what) {
  constexpr std::string_view kName = "ngram";
  std::int64_t longest = kDefaultNgram;
  bool good = text == kName;
  if (text.starts_with(kName) && text.size() > kName.size() + 1 && text[kName.size()] == ':') {
    const char *const begin = text.data() + kName.size() + 1, *const end = text.data() + text.size();
    const auto [stop, wrong] = std::from_chars(begin, end, longest);
    good = wrong == std::errc() && stop == end && longest >= kLeastNgram && longest <= kMostNgram;
  }
  if (!good)
    fail(ErrorKind::kUsage, "{} {}: expected ngram, or ngram:N with N from {} to {}", what, printable(text),
         kLeastNgram, kMostNgram);
  return longest;
}

Continuation continued(std::span<const std::int32_t> tokens, std::int64_t longest, std::int64_t most) {
  if (tokens.size() > kLookedAt) tokens = tokens.last(kLookedAt);
  Continuation out;
  std::size_t at = 0;  // what followed
  for (std::size_t end = tokens.size() - std::min<std::size_t>(1, tokens.size()); end > 0 && out.run < longest; --end) {
    const std::int64_t same = common_end(tokens, end, longest);
    if (same >= kLeastNgram && same > out.run) out.run = same, at = end;
  }
  for (std::int64_t i = 0; out.run > 0 && i < most; ++i, ++at)
    out.tokens.push_back(at < tokens.size() ? tokens[at] : out.tokens[at - tokens.size()]);
  return out;
}

std::int64_t ProposalCount::choose(std::size_t kind, std::int64_t most) const {
  const double right = accepted_[kind];
  double best = 1;  // tokens in the time of a pass of one row
  std::int64_t count = 0;
  for (std::size_t i = 0; i < kRows.size() && kRows[i] - 1 <= most; ++i) {
    const auto rows = static_cast<double>(kRows[i]);
    const double tokens = (1 - std::pow(right, rows)) / (1 - right);
    const double rate = tokens / (kCost[i] + each_ * (rows - 1));
    if (rate > best) best = rate, count = kRows[i] - 1;
  }
  return count;
}

void ProposalCount::learn(std::size_t kind, std::int64_t right, std::int64_t tried) {
  constexpr double kMost = 0.99;
  double& accepted = accepted_[kind];
  for (std::int64_t i = 0; i < right; ++i) accepted += kRate * (1 - accepted);
  if (right < tried) accepted -= kRate * accepted;
  accepted = std::min(accepted, kMost);
}

// The small model, and what it has read of the text.
struct Speculator::Draft {
  explicit Draft(const Model& model) : generator(model) {}
  Generator generator;

  // The end of a text longer than the model's context; where it begins moves by halves of that.
  std::span<const std::int32_t> window(std::span<const std::int32_t> tokens) const {
    const auto context = static_cast<std::size_t>(generator.context());
    if (tokens.size() <= context) return tokens;
    const std::size_t half = std::max<std::size_t>(1, context / 2);
    return tokens.subspan((tokens.size() - context + half - 1) / half * half);
  }

  std::vector<std::int32_t> propose(std::span<const std::int32_t> tokens, Drawer drawer, std::int64_t most) {
    std::vector<std::int32_t> all(tokens.begin(), tokens.end()), out;
    while (static_cast<std::int64_t>(out.size()) < most && !drawer.complete()) {
      const std::optional<std::int32_t> token = drawer.draw(generator.follow(window(all)));
      if (!token) break;
      all.push_back(*token);
      out.push_back(*token);
    }
    return out;
  }
};

void check_draft(const Model& draft, const Model& model, const std::string& draft_name, const std::string& name) {
  const auto tokens = [](const Model& of) { return of.graph().value(of.graph().outputs.at(0)).dims.back().size; };
  if (draft.signature().takes != Takes::kText)
    fail(ErrorKind::kUsage, "--draft {}: it is no language model", draft_name);
  if (tokens(draft) != tokens(model))
    fail(ErrorKind::kUsage, "--draft {}: it knows {} tokens, {} knows {}", draft_name, tokens(draft), name,
         tokens(model));
  const auto &mine = draft.about().preprocessing.tokenizer, &theirs = model.about().preprocessing.tokenizer;
  if (mine && theirs && !(*mine == *theirs))
    fail(ErrorKind::kUsage, "--draft {}: its tokenizer is not that of {}", draft_name, name);
}

double draft_cost(const Model& draft, const Model& model) {
  const auto bytes = [](const Model& of) { return static_cast<double>(of.about().weights->bytes()); };
  return bytes(draft) / std::max(bytes(model), 1.0);
}

Speculator::Speculator(const Speculation& how) : how_(how), count_(how.draft ? how.draft_cost : 0) {}

Speculator::~Speculator() = default;
Speculator::Speculator(Speculator&&) noexcept = default;

std::vector<std::int32_t> Speculator::propose(std::span<const std::int32_t> tokens, const Drawer& drawer,
                                              std::int64_t most) {
  std::int64_t count = 0;
  proposed_.clear();
  if (how_.draft) {
    if (!draft_) draft_ = std::make_unique<Draft>(*how_.draft);  // a text beside others needs none
    count = count_.choose(kind_, most);
    // A proposal that is not computed but only compared tells whether they would pay by now.
    if (count > 0 || ++idle_ % kAskDraftEvery == 0)
      proposed_ = draft_->propose(tokens, drawer, std::max<std::int64_t>(count, 1));
  } else {
    Continuation found = continued(tokens, how_.ngram, ProposalCount::kRows.back() - 1);
    kind_ = static_cast<std::size_t>(found.run);
    proposed_ = std::move(found.tokens);
    count = count_.choose(kind_, most);
  }
  // The draft may have ended the text early.
  while (count > static_cast<std::int64_t>(proposed_.size())) count = (count + 1) / 2 - 1;
  if (!proposed_.empty()) proposed_.resize(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)));
  return {proposed_.begin(), proposed_.begin() + count};
}

void Speculator::learn(std::span<const std::int32_t> drawn) {
  if (proposed_.empty() || drawn.empty()) return;
  const auto right = std::ranges::mismatch(proposed_, drawn).in1 - proposed_.begin();
  // Where the text has ended, the rest was not tried.
  const std::int64_t tried =
      std::min<std::int64_t>(right + 1, static_cast<std::int64_t>(std::min(proposed_.size(), drawn.size())));
  count_.learn(kind_, right, tried);
}

}  // namespace mlx::infer
