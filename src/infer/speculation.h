// Speculative decoding (Leviathan et al. 2023, with the draws of the text itself): tokens that a text probably goes on
// with are proposed, and one pass through the network computes the logits behind all of them. Each token is then drawn
// from its own logits with its own random number, as it would be without, and the first one that was not proposed ends
// the step. So the text has the same bits, if rows have the same bits in any company (can_batch).
//
// Proposals come from a small language model, or from the text: what followed the last few tokens before (Saxena 2023,
// "prompt lookup"). How many pay depends on how often they were right, and on what rows cost: the choice is made from
// counts, never from a clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mlx::infer {

class Drawer;
class Model;

inline constexpr std::int64_t kMostNgram = 16;

struct Speculation {
  std::int64_t ngram = 0;        // the longest run of last tokens that is looked for in the text; 0: none
  const Model* draft = nullptr;  // proposes instead; outlives the text
  double draft_cost = 0;         // of a proposal of the draft, as a share of a pass of one row
};

// Reads "ngram" or "ngram:N". Throws kUsage, naming `what`.
std::int64_t parse_ngram(const std::string& text, const std::string& what);

// Throws kUsage unless the tokens of `draft` are those of `model`. The names are for the message.
void check_draft(const Model& draft, const Model& model, const std::string& draft_name, const std::string& name);

// Speculation::draft_cost, by the weights that each of them reads.
double draft_cost(const Model& draft, const Model& model);

// What followed the last occurrence of the longest run of at most `longest` last tokens, at least two, that occurred
// before. `run` is its length, 0 for none. Where the text repeats itself, so do the proposals.
struct Continuation {
  std::vector<std::int32_t> tokens;
  std::int64_t run = 0;
};
Continuation continued(std::span<const std::int32_t> tokens, std::int64_t longest, std::int64_t most);

// How many proposals one pass verifies.
class ProposalCount {
 public:
  static constexpr std::array<std::int64_t, 4> kRows{2, 4, 8, 16};  // that a pass has

  // `each`: what a proposal costs, as a share of a pass of one row.
  explicit ProposalCount(double each) : each_(each) {}
  // 0, or a row of kRows less one, at most `most`. `kind`: of the proposals, below kMostNgram + 1.
  std::int64_t choose(std::size_t kind, std::int64_t most) const;
  // The first `right` of `tried` proposals were drawn; what is behind a wrong one says nothing.
  void learn(std::size_t kind, std::int64_t right, std::int64_t tried);

 private:
  double each_;
  std::array<double, kMostNgram + 1> accepted_ = [] {
    std::array<double, kMostNgram + 1> even{};
    even.fill(0.5);
    return even;
  }();
};

// The proposals of one text.
class Speculator {
 public:
  explicit Speculator(const Speculation& how);
  ~Speculator();
  Speculator(Speculator&&) noexcept;

  // What to compute beside the last token, at most `most`. `tokens`: prompt and text.
  std::vector<std::int32_t> propose(std::span<const std::int32_t> tokens, const Drawer& drawer, std::int64_t most);
  // What was drawn then.
  void learn(std::span<const std::int32_t> drawn);

 private:
  struct Draft;
  Speculation how_;
  std::unique_ptr<Draft> draft_;
  ProposalCount count_;
  std::vector<std::int32_t> proposed_;  // by the last propose(), at least one of them if there is any
  std::size_t kind_ = 0;
  std::int64_t idle_ = 0;  // tokens since the draft was last asked
};

}  // namespace mlx::infer
