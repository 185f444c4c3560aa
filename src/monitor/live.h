// Watches a model that is served: what it was asked and what it answered, in windows, on a thread of its own.
//
// Threads: answered() and state() may be called from any. answered() hands over and returns; where examples come faster
// than they are looked at, it drops some, and counts them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "infer/model.h"
#include "monitor/drift.h"
#include "monitor/reference.h"

namespace mlx::monitor {

class Live {
 public:
  struct State {
    std::uint64_t items = 0, dropped = 0, windows = 0;
    std::vector<ColumnDrift> columns;   // of the last window; none before the first one is full
    std::vector<std::string> drifted;   // columns whose drift is established
    std::uint64_t drifted_windows = 0;  // that ended with any
  };
  // `reference`: of the model's columns_of(). `window` examples are judged together.
  Live(std::shared_ptr<const infer::Model> model, const Reference& reference, std::uint64_t window,
       const DriftOptions& options);
  ~Live();
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  // Examples as the network got them, and its outputs.
  void answered(std::vector<float> examples, std::vector<float> logits);
  State state() const;
  // The columns whose drift was established in any window since the last call, also if it has ended since.
  std::vector<std::string> take_news();

 private:
  static constexpr std::size_t kMostWaiting = std::size_t{1} << 24;  // floats
  struct Part {
    std::vector<float> examples, logits;
    std::size_t size() const { return examples.size() + logits.size(); }
  };
  void work();
  void look_at(const Part& part);
  void judge();

  const std::shared_ptr<const infer::Model> model_;
  const std::vector<ColumnReference> columns_;
  const std::uint64_t size_;
  const DriftOptions options_;
  Window window_;  // of the thread, as is persistence_
  Persistence persistence_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Part> waiting_;
  std::size_t waiting_floats_ = 0;
  bool stopping_ = false;
  State state_;
  std::vector<std::string> news_;
  std::thread thread_;
};

}  // namespace mlx::monitor
