// A stream's work is queued, and done in order when the host waits for it or when another stream waits for one of its
// events. So a copy that nothing waits for has not happened when its data is read, and memory that is written too early
// changes what is still to be copied from it. With copies first, memory that is copied to too early changes what is
// still to be computed from it.
#include "kernels/cuda_emulation/streams.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

struct CUstream_st {
  std::deque<std::function<void()>> asked;
  std::size_t done = 0;  // items done since it was made
  int device = 0;
  bool first = false;  // the first stream of its device
  std::size_t position() const { return done + asked.size(); }
};

struct CUevent_st {  // reached when `stream` has done this many items
  cudaStream_t stream = nullptr;
  std::size_t position = 0;
};

namespace mlx::emulation {
namespace {

struct Streams {
  std::recursive_mutex mutex;  // one thread works at a time; its work may need another stream's work
  std::vector<std::unique_ptr<CUstream_st>> all;
  bool copies_first = false;
  Counts counts;
};

Streams& streams() {
  static Streams only;
  return only;
}

// An item waits only for items that were queued earlier, so two streams never wait for each other.
void work_until(cudaStream_t stream, std::size_t position) {
  const std::lock_guard lock(streams().mutex);
  while (stream->done < position) {
    const std::function<void()> work = std::move(stream->asked.front());
    stream->asked.pop_front();
    work();
    ++stream->done;
  }
}

void wait_until(cudaStream_t stream, std::size_t position) {
  const std::lock_guard lock(streams().mutex);
  if (!stream || stream->done >= position) return;
  ++streams().counts.waits;
  work_until(stream, position);
}

}  // namespace

void ask(cudaStream_t stream, std::function<void()> work, std::size_t Counts::*counted) {
  const std::lock_guard lock(streams().mutex);
  if (counted) ++(streams().counts.*counted);
  stream->asked.push_back(std::move(work));
  if (streams().copies_first && !stream->first) work_until(stream, stream->position());
}

void finish(cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  wait_until(stream, stream->position());
}

int device_of(cudaStream_t stream) {
  return stream ? stream->device : current_device();
}

void finish_all() {
  const std::lock_guard lock(streams().mutex);
  for (const auto& stream : streams().all) work_until(stream.get(), stream->position());
}

}  // namespace mlx::emulation

using mlx::emulation::streams;

void mlx_emulation_counts(mlx::emulation::Counts* counts) {
  const std::lock_guard lock(streams().mutex);
  *counts = streams().counts;
}

void mlx_emulation_copies_first(bool first) {
  const std::lock_guard lock(streams().mutex);
  streams().copies_first = first;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(streams().mutex);
  const int device = mlx::emulation::current_device();
  const bool first = std::ranges::none_of(streams().all, [&](const auto& other) { return other->device == device; });
  streams().all.push_back(std::make_unique<CUstream_st>(CUstream_st{{}, 0, device, first}));
  *stream = streams().all.back().get();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  mlx::emulation::finish(stream);
  return cudaGetLastError();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  *event = {stream, stream->position()};
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(streams().mutex);
  if (event->stream) mlx::emulation::ask(stream, [at = *event] { mlx::emulation::work_until(at.stream, at.position); });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  mlx::emulation::wait_until(event->stream, event->position);
  return cudaGetLastError();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudaEventSynchronize(event);
}
