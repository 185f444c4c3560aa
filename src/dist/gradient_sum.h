// The sums of a step's gradients over the micro-batches of all ranks (tree_sum.h). Arrays are put into buckets in the
// order in which a backward pass makes them. A bucket is summed over the ranks by a thread of its own as soon as this
// rank's last micro-batch has filled it, while the rest of the backward pass runs (Li et al. 2020) and other buckets
// are still on their way. How arrays are put into buckets changes no bit.
//
// Several steps may be under way: sums of the first ones wait while those of later ones are made, which then need not
// wait for the slowest rank.
//
// Of arrays that are owned (bucket_layout.h) a rank gets the sums of its pieces. It writes there what all ranks are to
// have in their stead, such as new weights, and gather() brings that to all of them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "dist/bucket_layout.h"
#include "dist/communicator.h"
#include "dist/tree_sum.h"

namespace mlx::dist {

class GradientSum {
 public:
  using Array = SummedArray;
  // These arrays, in order, for each of `terms` micro-batches of all ranks. All ranks have the same. `communicator` is
  // the sum's own from the first last micro-batch of a step until wait() has returned; without `in_background` only
  // while wait() runs, which then exchanges all buckets. `waiting`: the steps whose sums may wait beside those of the
  // step that is made; then the communicator is the sum's own until settle().
  GradientSum(Communicator& communicator, int terms, const std::vector<Array>& arrays, bool in_background = true,
              int waiting = 0);
  ~GradientSum();  // waits

  Terms terms() const { return held_; }  // this rank's micro-batches
  void share(const Shares& shares);      // between steps: other ones for each rank, the same on all
  std::size_t arrays() const { return layout_.places.size(); }
  const BucketLayout& layout() const { return layout_; }
  // Adds array `i` of this rank's current micro-batch. Arrays may come in any order, each once a micro-batch.
  void add(std::size_t i, std::span<const float> data);
  // Another exchange in the middle of a step: `exchange` has the communicator while it runs, and this waits for it.
  // All ranks do the same between the same buckets. Throws what it threw.
  void between(const std::function<void()>& exchange);
  void end_term();  // the micro-batch has added all of its arrays; the last one ends the step, and the next may begin
  // Until all sums of the first step are there that was not ended. Throws what an exchange threw.
  void wait();
  std::span<float> sum(std::size_t i);  // after wait(), until end_step()
  // The part of it that is the sum before finish_gathers(): all, unless the array is owned.
  std::span<float> own(std::size_t i);
  bool is_owned(std::size_t i) const { return layout_.buckets[layout_.places[i].bucket].owned; }
  // After wait(), once this rank has written its pieces of an owned bucket: they go to all others while other buckets
  // are written. finish_gathers() waits for what the others have written: then sum() has all of it.
  void gather(std::size_t bucket);
  void finish_gathers();
  void end_step();
  int waits() const { return made_; }  // steps whose terms were added, and that were not ended
  // Until nothing is on its way: then sum_of_waiting() has the sums of each step that waits.
  void settle();
  std::span<const float> sum_of_waiting(int step, std::size_t i) const;
  // One more step that waits, whose sums are known: to be written there.
  std::vector<std::span<float>> restore();

  // Since it was made: bytes that this rank has sent, seconds of exchanges, and seconds that wait() has taken.
  struct Cost {
    std::int64_t bytes_sent = 0;
    double exchanging = 0, waiting = 0;
  };
  Cost cost() const;
  // When it communicated, for a trace: an exchange of a bucket, or (bucket -1) wait(), on the clock of seconds_now().
  struct Span {
    int bucket = 0;
    double start = 0, seconds = 0;
    std::int64_t bytes_sent = 0;
  };
  void keep_spans(bool on);
  std::vector<Span> spans() const;
  // The bytes that sums of `bytes` bytes of arrays take on a rank.
  // `shared_anew`: shares may become uneven.
  static std::int64_t memory(std::int64_t bytes, int ranks, int terms, Wire wire, bool shared_anew = false);
  static constexpr std::int64_t kBucket = kBucketBytes;

 private:
  struct Bucket {
    std::vector<TreeSum> sums;            // of the steps that wait, and of the one that is made
    std::size_t arrays = 0, missing = 0;  // missing in the current micro-batch
  };
  void post(std::function<void()> job);
  void see_to_under_way();
  struct UnderWay {
    TreeSum* sum = nullptr;
    std::size_t slot = 0;
    Span span;
  };
  std::size_t slot_of(int step) const { return (first_ + static_cast<std::size_t>(step)) % open_.size(); }
  int tag_of(std::size_t bucket, std::size_t slot) const;
  void exchange(std::size_t bucket, std::size_t slot);
  void rest(std::chrono::microseconds most);
  std::span<float> sum_in(std::size_t slot, std::size_t i);
  void advance_all();
  void keep(const Span& span);

  Communicator& communicator_;
  Terms held_;
  int term_;
  BucketLayout layout_;
  std::vector<Bucket> buckets_;
  std::size_t first_ = 0;                 // slot of the first step that was not ended
  int made_ = 0;                          // steps whose terms were added, and that were not ended
  std::atomic<std::int64_t> posted_ = 0;  // jobs of the thread: buckets, and what is exchanged between them
  std::int64_t begun_ = 0;                // of these; the thread's own
  std::vector<UnderWay> under_way_;       // begun and not done; the thread's own
  mutable std::mutex mutex_;              // of what follows
  std::condition_variable changed_, wake_;
  std::vector<int> open_;  // by slot: buckets that are to be exchanged, or on their way
  bool failed_ = false;    // an exchange did
  bool awaited_ = false;   // somebody waits for sums
  Cost cost_;
  bool keeps_spans_ = false;
  std::vector<Span> spans_;
  std::unique_ptr<Background> thread_;  // last, so that it ends first
};

}  // namespace mlx::dist
