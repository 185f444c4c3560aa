// The hashes of the smaller split are kept, and those of the training split pass by.

#include "train/loop/leaks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/error.h"

namespace mlx::train {
namespace {

using Visit = std::function<void(std::uint64_t)>;
using Contents = std::function<void(const Visit&)>;

// Hashes of a split's examples. Of more than kMost, only those below a limit are kept, so that the share of them that
// is found stands for the share of all.
class Wanted {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 22;

  void add(std::uint64_t hash) {
    if (hash > limit_) return;
    hashes_.push_back(hash);
    if (hashes_.size() <= kMost) return;
    limit_ /= 2;
    std::erase_if(hashes_, [this](std::uint64_t each) { return each > limit_; });
  }
  void finish() {
    std::ranges::sort(hashes_);
    found_.assign(hashes_.size(), false);
    filter_.assign(std::size_t{1} << kFilterBits, false);
    for (const std::uint64_t hash : hashes_) filter_[hash >> (64 - kFilterBits)] = true;
  }
  void see(std::uint64_t hash) {
    if (!filter_[hash >> (64 - kFilterBits)]) return;  // most examples, without a search
    const auto [begin, end] = std::equal_range(hashes_.begin(), hashes_.end(), hash);
    for (auto each = begin; each != end; ++each) found_[static_cast<std::size_t>(each - hashes_.begin())] = true;
  }
  double share() const {
    const auto found = std::ranges::count(found_, true);
    return hashes_.empty() ? 0 : static_cast<double>(found) / static_cast<double>(hashes_.size());
  }

 private:
  static constexpr unsigned kFilterBits = 24;
  std::uint64_t limit_ = ~std::uint64_t{0};
  std::vector<std::uint64_t> hashes_;
  std::vector<bool> found_, filter_;
};

void compare(const TrainConfig& config, const std::string& split, const Contents& of_split, const Contents& of_train) {
  Wanted wanted;
  of_split([&](std::uint64_t hash) { wanted.add(hash); });
  wanted.finish();
  of_train([&](std::uint64_t hash) { wanted.see(hash); });
  if (wanted.share() <= config.leaks) return;
  throw Error(ErrorKind::kRefused,
              fmt::format("{}: {:.3g} % of split '{}' are in split '{}' too, [data] leaks allows {:.3g} %", config.file,
                          100 * wanted.share(), split, config.train_split, 100 * config.leaks),
              fmt::format("`mlx check {}` names some; mend the splits, or allow them: [data] leaks = \"{:.0f}%\"",
                          config.dataset, std::ceil(100 * wanted.share())));
}

Contents in_list(const std::vector<std::uint64_t>& hashes) {
  return [&hashes](const Visit& visit) {
    for (const std::uint64_t hash : hashes) visit(hash);
  };
}

}  // namespace

void check_leaks(const TrainConfig& config, const data::Dataset& train, const data::Dataset& valid) {
  if (config.leaks >= 1) return;
  compare(
      config, config.valid_split, [&](const Visit& visit) { valid.each_content(visit); },
      [&](const Visit& visit) { train.each_content(visit); });
}

void check_listed_leaks(const store::Store& store, const Digest& dataset, const TrainConfig& config) {
  if (config.leaks >= 1) return;
  const std::vector<std::uint64_t> train = data::listed_contents(store, dataset, config.train_split, config.reading);
  if (train.empty()) return;
  for (const std::string& split : data::splits(store, dataset, config.reading)) {
    if (split == config.train_split || (split != config.valid_split && split != "test")) continue;
    const std::vector<std::uint64_t> hashes = data::listed_contents(store, dataset, split, config.reading);
    compare(config, split, in_list(hashes), in_list(train));
  }
}

}  // namespace mlx::train
