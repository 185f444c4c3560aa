// MPI as a communicator. A rank that waits looks again after ever longer pauses, as long as nothing arrives: the next
// bytes are there within microseconds, or a core is better left to those who compute.
#include "dist/mpi.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/module.h"
#include "base/subprocess.h"
#include "dist/mpi/module.h"

namespace mlx::dist {
namespace {

constexpr int kNotFound = 127;  // exit code

class Pause {
 public:
  void operator()() {
    ++turns_;
    if (turns_ < kSpins) return;
    if (turns_ < kSpins + kYields) {
      ::sched_yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, std::chrono::microseconds(200));
  }

 private:
  static constexpr int kSpins = 200, kYields = 50;
  int turns_ = 0;
  std::chrono::microseconds sleep_{20};
};

class MpiRanks final : public Communicator {
 public:
  explicit MpiRanks(const MpiModule& mpi) : mpi_(mpi), exceptions_(std::uncaught_exceptions()) {
    std::array<char, 256> problem{};
    if (!mpi_.start(problem.data(), problem.size()))
      fail(ErrorKind::kMissing, "MPI cannot be used: {}", problem.data());
    rank_ = mpi_.rank();
    ranks_ = mpi_.ranks();
    std::array<char, 256> host{};
    mpi_.host(host.data(), host.size());
    name_ = fmt::format("rank {} on {}", rank_, host.data());
  }
  ~MpiRanks() override {
    if (std::uncaught_exceptions() == exceptions_) mpi_.end();
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::string name() const override { return name_; }

  Transfer send(int to, int tag, const void* data, std::size_t bytes) override {
    return begin(to, bytes, [&](std::int64_t at, std::int64_t count, char* problem, std::size_t size) {
      return mpi_.send(to, tag, static_cast<const std::uint8_t*>(data) + at, count, problem, size);
    });
  }
  Transfer receive(int from, int tag, void* data, std::size_t bytes) override {
    return begin(from, bytes, [&](std::int64_t at, std::int64_t count, char* problem, std::size_t size) {
      return mpi_.receive(from, tag, static_cast<std::uint8_t*>(data) + at, count, problem, size);
    });
  }
  void wait(std::span<Transfer> transfers) override {
    while (!advance(transfers)) continue;
  }
  bool advance(std::span<Transfer> transfers) override {
    bool moved = false;
    const Transfer* open = nullptr;
    for (Transfer& transfer : transfers) {
      if (transfer.id != 0 && advance(transfer.id, moved)) transfer.id = 0;
      if (transfer.id != 0 && !open) open = &transfer;
    }
    activity().waits_for = open && !moved ? under_way_.at(open->id).other : -1;
    if (moved || !open) {
      pause_ = Pause();
    } else {
      pause_();
    }
    return !open;
  }
  bool poll(std::span<Transfer> transfers) override {
    bool moved = false, open = false;
    for (Transfer& transfer : transfers) {
      if (transfer.id != 0 && advance(transfer.id, moved)) transfer.id = 0;
      open = open || transfer.id != 0;
    }
    return !open;
  }

 private:
  struct Message {
    int other = 0;
    std::deque<void*> pieces;  // not known to be done, in their order
  };

  template <typename Begin>
  Transfer begin(int other, std::size_t bytes, const Begin& piece) {
    Message message{other, {}};
    const auto all = static_cast<std::int64_t>(bytes);
    std::int64_t at = 0;
    do {
      const std::int64_t count = std::min(kMostBytes, all - at);
      std::array<char, 256> problem{};
      void* const begun = piece(at, count, problem.data(), problem.size());
      if (!begun) fail(ErrorKind::kIo, "{} cannot reach rank {}: {}", name_, other, problem.data());
      message.pieces.push_back(begun);
      at += count;
    } while (at < all);
    const std::int64_t id = ++last_id_;
    under_way_.emplace(id, std::move(message));
    return {id};
  }

  // Whether the message is done; `moved` is set if a piece of it is.
  bool advance(std::int64_t id, bool& moved) {
    const auto found = under_way_.find(id);
    if (found == under_way_.end()) return true;
    for (std::deque<void*>& pieces = found->second.pieces; !pieces.empty(); pieces.pop_front()) {
      std::array<char, 256> problem{};
      const int state = mpi_.test(pieces.front(), problem.data(), problem.size());
      if (state == 0) return false;
      moved = true;
      if (state > 0) continue;
      const int other = found->second.other;
      under_way_.erase(found);
      fail(ErrorKind::kIo, "{} lost rank {}: {}", name_, other, problem.data());
    }
    under_way_.erase(found);
    return true;
  }

  const MpiModule& mpi_;
  int exceptions_;
  int rank_ = 0, ranks_ = 1;
  std::string name_;
  std::int64_t last_id_ = 0;
  Pause pause_;  // since something moved
  std::map<std::int64_t, Message> under_way_;
};

int count_of(const std::string& text) {
  const bool number =
      !text.empty() && text.size() < 8 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return number ? std::max(1, std::stoi(text)) : 1;
}

}  // namespace

int ranks_started(const Environment& environment) {
  // mpirun may have been started by srun: what is nearest counts. Without `mark` MPI does not know the others.
  struct Launcher {
    const char *mark, *count;
  };
  constexpr Launcher kLaunchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"},
                                     {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (const Launcher& launcher : kLaunchers)
    if (environment.get(launcher.mark)) return count_of(environment.get(launcher.count).value_or(""));
  return 1;
}

std::string why_no_mpi() {
  std::string problem;
  if (!functions_of<MpiModule>("mlx_mpi", kMpiModuleVersion, problem))
    return "the module for MPI cannot be opened: " + problem;
  return run_process({"orted", "--version"}).exit_code == kNotFound ? "there is no orted in PATH" : "";
}

std::unique_ptr<Communicator> join_ranks(int started) {
  std::string problem;
  const MpiModule* const module = functions_of<MpiModule>("mlx_mpi", kMpiModuleVersion, problem);
  if (!module) {
    throw Error(ErrorKind::kMissing, "the module for MPI cannot be opened: " + problem,
                "it needs Open MPI: apt install openmpi-bin, or install mlx anew");
  }
  auto ranks = std::make_unique<MpiRanks>(*module);
  if (ranks->ranks() == started) return ranks;
  throw Error(ErrorKind::kMissing, fmt::format("{} ranks were started, and MPI found {}", started, ranks->ranks()),
              "run mlx with the mpirun of the Open MPI that it was built with");
}

}  // namespace mlx::dist
