// Dynamic batching: one thread that computes whatever waits, at once. A single request never waits for company; those
// that arrive while a batch is computed go into the next one together.
//
// Used by batched_model.cpp. Jobs are taken in order of arrival; a job larger than a batch is computed in several.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "infer/session.h"
#include "serve/examples.h"
#include "serve/metrics.h"

namespace mlx::serve {

struct Job {
  Examples examples;
  std::vector<float> logits;                       // examples.count * width, once done
  std::string error;                               // why there are none; else ""
  std::function<void(std::shared_ptr<Job>)> done;  // called on the batcher's thread, which lets go of the job
};

class Batcher {
 public:
  // At most `queue_limit` examples wait, beside one job of any size where nothing waits. The session belongs to the
  // batcher's thread from here on.
  Batcher(infer::Session& session, std::int64_t queue_limit, ModelMetrics& metrics);
  ~Batcher() { finish(); }

  bool submit(std::shared_ptr<Job> job);  // false where too many wait
  std::int64_t waiting() const;
  void finish();  // computes what waits, then ends the thread; nothing may be submitted after this

 private:
  struct Part {  // of a batch: examples [first, first + count) of one job
    std::shared_ptr<Job> job;
    std::int64_t first = 0, count = 0;
  };
  void work();
  std::vector<Part> take(std::unique_lock<std::mutex>& lock);
  void compute(const std::vector<Part>& parts);

  infer::Session& session_;
  const std::int64_t queue_limit_;
  ModelMetrics& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::int64_t waiting_ = 0, taken_of_first_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mlx::serve
