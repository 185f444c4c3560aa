// Where an automaton may be after some bytes: a set of places, each with the calls that it returns from. Sets are known
// by number, and each has a table of the sets that follow by byte, which is made when it is first asked for: so bytes
// that were seen before cost a look-up each. Used by token_grammar.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "infer/grammar/automaton.h"

namespace mlx::infer::grammar {

struct Place {
  std::uint32_t node = 0;
  std::uint32_t table = 0;   // within a character: its continuations, counted from 1; 0 before it
  std::uint32_t caller = 0;  // a frame; 0: the text's own
  auto operator<=>(const Place&) const = default;
};
using Places = std::vector<Place>;  // ascending

class States {
 public:
  using Set = std::uint32_t;
  static constexpr Set kNone = 0;  // no text of the grammar begins so
  using Row = std::array<Set, 256>;

  // `what` names the grammar in messages.
  States(std::shared_ptr<const Automaton> automaton, std::string what);

  // All throw kUsage where a set has too many places, all sets together have, or calls are too deep in each other.
  Places start();
  Set number_of(const Places& places);
  const Places& places(Set set) const { return *sets_[set].places; }
  const Row& row(Set set) { return sets_[set].row ? *sets_[set].row : make_row(set); }
  bool may_end(Set set) const { return sets_[set].may_end; }
  bool must_end(Set set) const { return sets_[set].may_end && sets_[set].places->size() == 1; }

  bool is_crowded() const;  // forget_sets() is due
  std::size_t frames() const { return frames_.size(); }
  void forget_sets();  // numbers are valid no more; places are

 private:
  struct Known {
    const Places* places;  // in numbers_
    bool may_end = false;
    std::unique_ptr<Row> row{};
  };
  struct Frame {
    std::uint32_t back, caller;
  };
  struct PlacesHash {
    std::size_t operator()(const Places& places) const;
  };

  // A set that is being made, and what has been followed for it.
  struct Arriving {
    Places places;
    std::unordered_set<std::uint64_t> seen;
  };

  const Row& make_row(Set set);
  void arrive(std::uint32_t node, std::uint32_t caller, Arriving& to);
  std::uint32_t frame(std::uint32_t back, std::uint32_t caller);

  std::shared_ptr<const Automaton> automaton_;
  std::string what_;
  std::vector<Known> sets_;
  std::unordered_map<Places, Set, PlacesHash> numbers_;
  std::size_t held_ = 0;               // places of all sets
  std::vector<Frame> frames_{{0, 0}};  // the first is no call
  std::unordered_map<std::uint64_t, std::uint32_t> frame_numbers_;
};

}  // namespace mlx::infer::grammar
