// See call.h.
#include "kernels/onednn/call.h"

#include <algorithm>
#include <cstdlib>

// From libgomp, the OpenMP runtime that Debian's oneDNN links; clang's omp.h would declare another runtime's.
extern "C" void omp_set_num_threads(int);

namespace mlx::kernels::onednn {
namespace {

// About 15 µs on one core in f32: several times the cost of waking a thread.
constexpr double kLeastWork = 2e6;

}  // namespace

void stay_on_this_thread() {
  thread_local bool alone = false;
  if (!alone) {
    omp_set_num_threads(1);
    alone = true;
  }
}

dnnl::memory::data_type data_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::kF32:
      return Type::f32;
    case DType::kBF16:
      return Type::bf16;
    case DType::kS32:
      return Type::s32;
    case DType::kS8:
      return Type::s8;
    case DType::kU8:
      return Type::u8;
    case DType::kF16:
    case DType::kI64:
      break;
  }
  throw dnnl::error(dnnl_invalid_arguments, "oneDNN has no 64-bit integers");
}

Call::Call(const dnnl::engine& engine, const dnnl::primitive& primitive, std::initializer_list<Slot> slots)
    : primitive_(primitive), stream_(engine) {
  for (const Slot& slot : slots) {
    memories_[count_] = dnnl::memory(slot.desc, engine, DNNL_MEMORY_NONE);
    arguments_[count_] = {slot.argument, memories_[count_].get()};
    ++count_;
  }
}

void Call::run(std::initializer_list<const void*> pointers) const {
  int at = 0;
  for (const void* pointer : pointers) {
    // Setting a handle zeroes the padding of a blocked layout each time, so it is set only if the pointer has changed.
    if (pointers_[at] != pointer) {
      if (dnnl_memory_set_data_handle_v2(arguments_[at].memory, const_cast<void*>(pointer), stream_.get()) !=
          dnnl_success)
        std::abort();
      pointers_[at] = pointer;
    }
    ++at;
  }
  if (dnnl_primitive_execute(primitive_.get(), stream_.get(), count_, arguments_.data()) != dnnl_success) std::abort();
}

Cut cut(std::int64_t total, int most, std::int64_t least, double work) {
  const auto worth = static_cast<std::int64_t>(work * static_cast<double>(total) / kLeastWork);
  const std::int64_t count = std::clamp<std::int64_t>(std::min(worth, total / least), 1, most);
  Cut result;
  result.total = total;
  result.per = (total + count - 1) / count;
  result.count = static_cast<int>((total + result.per - 1) / result.per);
  return result;
}

}  // namespace mlx::kernels::onednn
