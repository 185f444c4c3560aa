// Ranks of a group, translated to those of all.
#include "dist/group.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mlx::dist {
namespace {

class Group final : public Communicator {
 public:
  Group(Communicator& all, std::vector<int> members) : all_(all), members_(std::move(members)) {
    const auto own = std::ranges::find(members_, all.rank());
    CHECK(own != members_.end());
    rank_ = static_cast<int>(own - members_.begin());
  }

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(members_.size()); }
  std::string name() const override { return all_.name(); }
  Activity& activity() const override { return all_.activity(); }
  bool encrypted() const override { return all_.encrypted(); }
  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    return all_.send(member(to), tag, data, bytes);
  }
  Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
    return all_.receive(member(from), tag, data, bytes);
  }
  void wait(std::span<Transfer> transfers) override { all_.wait(transfers); }
  bool advance(std::span<Transfer> transfers) override { return all_.advance(transfers); }
  bool poll(std::span<Transfer> transfers) override { return all_.poll(transfers); }

 private:
  int member(int rank) const { return members_.at(static_cast<std::size_t>(rank)); }

  Communicator& all_;
  std::vector<int> members_;
  int rank_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> group_of(Communicator& all, std::vector<int> members) {
  return std::make_unique<Group>(all, std::move(members));
}

}  // namespace mlx::dist
