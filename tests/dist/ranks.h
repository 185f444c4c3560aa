// Runs a body on each of several ranks that are threads.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "dist/local_ranks.h"

namespace mlx::dist {

// Rethrows the first exception, by rank.
inline void on_ranks(int count, const std::function<void(Communicator&)>& body) {
  std::vector<std::unique_ptr<Communicator>> ranks = local_ranks(count);
  std::vector<std::exception_ptr> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::unique_ptr<Communicator> own = std::move(ranks[i]);  // destroyed with an exception: others see it
      try {
        body(*own);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace mlx::dist
