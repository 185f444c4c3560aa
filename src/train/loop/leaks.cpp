// The contents of the smaller split are kept, and those of the training split pass by.

#include "train/loop/leaks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace mlx::train {
namespace {

using data::Content;
using Visit = std::function<void(const Content&)>;
using Contents = std::function<void(const Visit&)>;

constexpr std::size_t kNamedPairs = 3;
constexpr std::int64_t kNone = -1;

// Finds examples by a hash that several may have.
class HashIndex {
 public:
  void add(std::uint64_t hash, std::size_t example) {
    if (hash != 0) entries_.emplace_back(hash, static_cast<std::uint32_t>(example));
  }
  void finish() {
    std::ranges::sort(entries_);
    filter_.assign(std::size_t{1} << kFilterBits, false);
    for (const auto& [hash, example] : entries_) filter_[hash >> (64 - kFilterBits)] = true;
  }
  template <typename Found>
  void each(std::uint64_t hash, Found found) const {
    if (hash == 0 || !filter_[hash >> (64 - kFilterBits)]) return;  // most examples, without a search
    auto at = std::ranges::lower_bound(entries_, hash, {}, &Entry::first);
    for (; at != entries_.end() && at->first == hash; ++at) found(std::size_t{at->second});
  }

 private:
  static constexpr unsigned kFilterBits = 24;
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  std::vector<Entry> entries_;
  std::vector<bool> filter_;
};

// A split's examples, and the first ones of the training split that are equal and almost the same. Of more than kMost
// examples, only those whose hashes are below a limit are kept, so that the share of them that is found stands for the
// share of all.
class Judged {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 19;

  void add(const Content& content) {
    const std::int64_t index = seen_++;
    if (content.hash > limit_) return;
    examples_.push_back({content.hash, content.near, index});
    if (content.look && looks_.size() + 1 == examples_.size()) looks_.push_back(*content.look);
    while (examples_.size() > kMost) lower_limit();
  }
  void finish() {
    for (std::size_t i = 0; i < examples_.size(); ++i) {
      equal_.add(examples_[i].hash, i);
      near_first_.add(examples_[i].near.first, i), near_second_.add(examples_[i].near.second, i);
    }
    equal_.finish(), near_first_.finish(), near_second_.finish();
    for (std::size_t i = 0; i < looks_.size(); ++i) alike_.add(i);
  }
  // Of the training split, in order.
  void see(const Content& content) {
    const std::int64_t index = passed_++;
    equal_.each(content.hash, [&](std::size_t i) { note(examples_[i].equal, index); });
    const auto almost = [&](std::size_t i) {
      if (examples_[i].hash != content.hash) note(examples_[i].almost, index);
    };
    near_first_.each(content.near.first, almost), near_second_.each(content.near.second, almost);
    if (content.look)
      alike_.each(
          *content.look, [&](std::size_t i) { return examples_[i].almost == kNone; }, almost);
  }

  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;  // of the split, of the training split
  struct Found {
    double share = 0;
    Pairs first;
  };
  Found equal() const {
    return found([](const Example& each) { return each.equal; });
  }
  // But equal to none.
  Found almost() const {
    return found([](const Example& each) { return each.equal == kNone ? each.almost : kNone; });
  }

 private:
  struct Example {
    std::uint64_t hash = 0;
    data::NearHashes near;
    std::int64_t index = 0, equal = kNone, almost = kNone;
  };
  static void note(std::int64_t& first, std::int64_t index) {
    if (first == kNone) first = index;
  }
  void lower_limit() {
    limit_ /= 2;
    std::size_t kept = 0, kept_looks = 0;
    for (std::size_t i = 0; i < examples_.size(); ++i) {
      if (examples_[i].hash > limit_) continue;
      if (i < looks_.size()) looks_[kept_looks++] = looks_[i];
      examples_[kept++] = examples_[i];
    }
    examples_.resize(kept);
    looks_.resize(kept_looks);
  }
  template <typename Which>
  Found found(Which which) const {
    Found out;
    std::size_t count = 0;
    for (const Example& each : examples_) {
      const std::int64_t other = which(each);
      if (other == kNone) continue;
      if (++count <= kNamedPairs) out.first.emplace_back(each.index, other);
    }
    out.share = examples_.empty() ? 0 : static_cast<double>(count) / static_cast<double>(examples_.size());
    return out;
  }

  std::uint64_t limit_ = ~std::uint64_t{0};
  std::int64_t seen_ = 0, passed_ = 0;
  std::vector<Example> examples_;
  std::vector<data::Look> looks_;  // of the first examples, if they are images
  HashIndex equal_, near_first_, near_second_;
  data::LookIndex alike_{looks_};
};

void compare(const Contents& of_split, const Contents& of_train, Judged& judged) {
  of_split([&](const Content& content) { judged.add(content); });
  judged.finish();
  of_train([&](const Content& content) { judged.see(content); });
}

struct Sides {
  const data::Dataset *train = nullptr, *valid = nullptr;
};

// ": row 3 of valid = row 17 of train, …"; photos are named by their paths.
std::string pairs_text(const TrainConfig& config, const Sides& sides, const Judged::Pairs& pairs) {
  std::string out;
  for (const auto& [again, first] : pairs) {
    const std::string left = sides.valid->item_text(again), right = sides.train->item_text(first);
    const bool paths = left.find('/') != left.npos;
    out += out.empty() ? ": " : ", ";
    out += paths ? fmt::format("{} = {}", left, right)
                 : fmt::format("{} of {} = {} of {}", left, config.valid_split, right, config.train_split);
  }
  return out;
}

std::string percent(double share) {
  return fmt::format("{:.3g} %", 100 * share);
}

// `pairs`: pairs_text(), or empty.
void refuse_equal(const TrainConfig& config, const std::string& split, double share, const std::string& pairs) {
  throw Error(ErrorKind::kRefused,
              fmt::format("{}: {} of split '{}' are in split '{}' too, [data] leaks allows {}{}", config.file,
                          percent(share), split, config.train_split, percent(config.leaks), pairs),
              fmt::format("`mlx check {}` names some; mend the splits, or allow them: [data] leaks = \"{:.0f}%\"",
                          config.dataset, std::ceil(100 * share)));
}

void judge_near(const TrainConfig& config, double share, const std::string& pairs, Progress& progress) {
  const std::string found = fmt::format("{} of split '{}' are almost the same as some of split '{}'", percent(share),
                                        config.valid_split, config.train_split);
  if (config.near_leaks && share > *config.near_leaks) {
    throw Error(
        ErrorKind::kRefused,
        fmt::format("{}: {}, [data] near_leaks allows {}{}", config.file, found, percent(*config.near_leaks), pairs),
        fmt::format("`mlx check {}` names more; mend the splits, or allow them: [data] near_leaks = \"{:.0f}%\"",
                    config.dataset, std::ceil(100 * share)));
  }
  if (!config.near_leaks && share > kManyNearLeaks) {
    progress.warn(fmt::format("{}{}; [data] near_leaks = \"{:.0f}%\" refuses such splits, \"100%\" is silent", found,
                              pairs, 100 * kManyNearLeaks));
  }
}

Contents in_list(const std::vector<std::uint64_t>& hashes) {
  return [&hashes](const Visit& visit) {
    for (const std::uint64_t hash : hashes) visit({hash});
  };
}

}  // namespace

bool looks_for_near(const TrainConfig& config) {
  return !config.valid_split.empty() && config.near_leaks.value_or(0) < 1;
}

double check_leaks(const TrainConfig& config, const data::Dataset& train, const data::Dataset& valid,
                   Progress& progress) {
  const bool near = looks_for_near(config);
  if (config.leaks >= 1 && !near) return 0;
  Judged judged;
  compare([&](const Visit& visit) { valid.each_content(near, visit); },
          [&](const Visit& visit) { train.each_content(near, visit); }, judged);
  const Sides sides{&train, &valid};
  if (const Judged::Found equal = judged.equal(); equal.share > config.leaks)
    refuse_equal(config, config.valid_split, equal.share, pairs_text(config, sides, equal.first));
  const Judged::Found almost = judged.almost();
  judge_near(config, almost.share, pairs_text(config, sides, almost.first), progress);
  return almost.share;
}

void check_listed_leaks(const store::Store& store, const Digest& dataset, const TrainConfig& config) {
  if (config.leaks >= 1) return;
  const std::vector<std::uint64_t> train = data::listed_contents(store, dataset, config.train_split, config.reading);
  if (train.empty()) return;
  for (const std::string& split : data::splits(store, dataset, config.reading)) {
    if (split == config.train_split || (split != config.valid_split && split != "test")) continue;
    const std::vector<std::uint64_t> hashes = data::listed_contents(store, dataset, split, config.reading);
    Judged judged;
    compare(in_list(hashes), in_list(train), judged);
    if (const double share = judged.equal().share; share > config.leaks) refuse_equal(config, split, share, "");
  }
}

void check_test_leaks(const store::Store& store, const Digest& dataset, const TrainConfig& config,
                      const data::Dataset& train) {
  constexpr const char* kTest = "test";
  if (config.leaks >= 1 || config.train_split == kTest || config.valid_split == kTest) return;
  const std::vector<std::string> splits = data::splits(store, dataset, config.reading);
  if (std::ranges::find(splits, kTest) == splits.end()) return;
  const auto listed = [&](const std::string& split, bool read) {
    return data::listed_contents(store, dataset, split, config.reading, read);
  };
  if (!listed(config.train_split, false).empty() && !listed(kTest, false).empty()) return;
  const std::vector<std::uint64_t> hashes = listed(kTest, true);
  if (hashes.empty()) return;
  Judged judged;
  compare(
      in_list(hashes), [&](const Visit& visit) { train.each_content(false, visit); }, judged);
  if (const double share = judged.equal().share; share > config.leaks) refuse_equal(config, kTest, share, "");
}

Json leaks_allowed(const TrainConfig& config) {
  Json out = {{"equal", config.leaks}};
  if (config.near_leaks) out["near"] = *config.near_leaks;
  return out;
}

bool allows_fewer_leaks(const TrainConfig& config, const Json& summary) {
  const Json allowed = summary.value("leaks_allowed", leaks_allowed({}));
  const double all = 1;
  return config.leaks < allowed.value("equal", all) || config.near_leaks.value_or(all) < allowed.value("near", all);
}

}  // namespace mlx::train
