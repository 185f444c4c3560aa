// Places wait for a byte; what needs none is followed at once. A call that is the last thing of a rule returns to where
// the rule would return, so that lists of any length need no depth.
#include "infer/grammar/states.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mlx::infer::grammar {
namespace {

constexpr std::size_t kMostPlaces = 4096, kMostPlacesOfAll = std::size_t{1} << 21, kMostSets = std::size_t{1} << 16,
                      kMostFrames = std::size_t{1} << 22;

std::uint64_t pair_of(std::uint32_t a, std::uint32_t b) {
  return std::uint64_t{a} << 32 | b;
}

}  // namespace

std::size_t States::PlacesHash::operator()(const Places& places) const {
  std::uint64_t hash = places.size();
  for (const Place& place : places) {
    hash = (hash ^ pair_of(place.node, place.caller)) * 0x9E3779B97F4A7C15U;
    hash = (hash ^ hash >> 29 ^ place.table) * 0xD6E8FEB86659FD93U;
  }
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

States::States(std::shared_ptr<const Automaton> automaton, std::string what)
    : automaton_(std::move(automaton)), what_(std::move(what)) {
  forget_sets();
}

void States::forget_sets() {
  sets_.clear();
  numbers_.clear();
  held_ = 0;
  number_of({});
}

bool States::is_crowded() const {
  return sets_.size() > kMostSets / 8 || held_ > kMostPlacesOfAll / 2;
}

Places States::start() {
  Arriving to;
  arrive(automaton_->start(), 0, to);
  std::ranges::sort(to.places);
  return std::move(to.places);
}

States::Set States::number_of(const Places& places) {
  const auto [found, fresh] = numbers_.emplace(places, static_cast<Set>(sets_.size()));
  if (fresh) {
    held_ += places.size();
    if (sets_.size() == kMostSets || held_ > kMostPlacesOfAll)
      fail(ErrorKind::kUsage, "{}: the grammar takes too much memory: its texts can be read in too many ways", what_);
    const bool ends = !places.empty() && places.front() == Place{Automaton::kEndNode, 0, 0};
    sets_.push_back({&found->first, ends});
  }
  return found->second;
}

std::uint32_t States::frame(std::uint32_t back, std::uint32_t caller) {
  const auto [found, fresh] = frame_numbers_.emplace(pair_of(back, caller), static_cast<std::uint32_t>(frames_.size()));
  if (fresh) {
    if (frames_.size() == kMostFrames)
      fail(ErrorKind::kUsage, "{}: the text has the grammar's rules too deep in each other", what_);
    frames_.push_back({back, caller});
  }
  return found->second;
}

// Adds the places from which a byte leads on, or where the text may end.
void States::arrive(std::uint32_t node, std::uint32_t caller, Arriving& to) {
  struct Stop {
    std::uint32_t node, caller;
  };
  std::vector<Stop> todo{{node, caller}};
  while (!todo.empty()) {
    const Stop at = todo.back();
    todo.pop_back();
    if (!to.seen.insert(pair_of(at.node, at.caller)).second) continue;
    const Node& here = automaton_->node(at.node);
    const bool waits = here.kind == Node::Kind::kByte || here.kind == Node::Kind::kCharacter ||
                       (here.kind == Node::Kind::kEnd && at.caller == 0);
    if (waits) {
      to.places.push_back({at.node, 0, at.caller});
      if (to.places.size() > kMostPlaces)
        throw Error(ErrorKind::kUsage,
                    fmt::format("{}: the text can be read in more than {} ways at once", what_, kMostPlaces),
                    "write the grammar so that what a text begins with tells what it is");
      continue;
    }
    switch (here.kind) {
      case Node::Kind::kSplit:
        todo.push_back({here.value, at.caller});
        todo.push_back({here.next, at.caller});
        break;
      case Node::Kind::kCall: {
        const bool last = automaton_->node(here.next).kind == Node::Kind::kEnd;
        todo.push_back({here.value, last ? at.caller : frame(here.next, at.caller)});
        break;
      }
      default:
        todo.push_back({frames_[at.caller].back, frames_[at.caller].caller});
        break;
    }
  }
}

// Bytes that lead on from the same places have the same next set, which is made once for them.
const States::Row& States::make_row(Set set) {
  constexpr std::uint32_t kNowhere = UINT32_MAX, kOn = UINT32_MAX - 1;
  const Places& from = *sets_[set].places;
  auto row = std::make_unique<Row>();
  std::vector<std::pair<std::vector<std::uint32_t>, Set>> known;
  std::vector<std::uint32_t> outcome(from.size());
  for (std::size_t byte = 0; byte < 256; ++byte) {
    bool any = false;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const Node& node = automaton_->node(from[i].node);
      outcome[i] = kNowhere;
      if (node.kind == Node::Kind::kByte) {
        if (node.value == byte) outcome[i] = kOn;
      } else if (node.kind == Node::Kind::kCharacter) {
        const std::uint32_t table = from[i].table > 0 ? from[i].table - 1 : node.value;
        const std::uint16_t next = automaton_->continuations(table).by_byte[byte];
        if (next != Continuations::kNone) outcome[i] = next == Continuations::kWhole ? kOn : next;
      }
      any = any || outcome[i] != kNowhere;
    }
    (*row)[byte] = kNone;
    if (!any) continue;
    const auto same = std::ranges::find(known, outcome, &std::pair<std::vector<std::uint32_t>, Set>::first);
    if (same != known.end()) {
      (*row)[byte] = same->second;
      continue;
    }
    Arriving to;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (outcome[i] == kOn) arrive(automaton_->node(from[i].node).next, from[i].caller, to);
      if (outcome[i] < kOn) to.places.push_back({from[i].node, outcome[i] + 1, from[i].caller});
    }
    std::ranges::sort(to.places);
    (*row)[byte] = number_of(to.places);
    known.emplace_back(outcome, (*row)[byte]);
  }
  sets_[set].row = std::move(row);
  return *sets_[set].row;
}

}  // namespace mlx::infer::grammar
