// See weights.h.

#include "graph/weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "kernels/half.h"

namespace mlx::graph {
namespace {

bool is_aligned(ByteView data, kernels::DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data.data()) % kernels::size_of(dtype) == 0;
}

template <typename Half>
void widen_all(const Half* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = kernels::widen(from[i]);
}

std::shared_ptr<const void> shared(Memory memory) {
  const FreeMemory free = memory.get_deleter();
  return {static_cast<const void*>(memory.release()), [free](const void* at) { free(const_cast<void*>(at)); }};
}

}  // namespace

Weight::Weight(const kernels::Shape& shape, ByteView data, Backing backing)
    : shape_(shape), data_(data), backing_(std::move(backing)) {
  if (!data.data() || !is_aligned(data, shape.dtype)) keep(Bytes(data.begin(), data.end()));
}

Weight::Weight(std::shared_ptr<const Weight> half) : shape_(half->shape()), half_(std::move(half)) {
  CHECK(kernels::is_half(shape_.dtype));
  shape_.dtype = kernels::DType::kF32;
}

void Weight::keep(Bytes bytes) const {
  const auto kept = std::make_shared<Bytes>(std::move(bytes));
  kept->reserve(1);  // so that even an empty tensor's data has an address
  data_ = *kept;
  backing_ = {kept, nullptr};
}

Bytes Weight::widened() const {
  const void* const from = half_->data().data();
  Bytes f32(shape_.bytes());
  auto* const to = reinterpret_cast<float*>(f32.data());
  if (half_->shape_.dtype == kernels::DType::kBF16)
    widen_all(static_cast<const kernels::BF16*>(from), shape_.count(), to);
  else
    widen_all(static_cast<const kernels::F16*>(from), shape_.count(), to);
  half_->release();
  return f32;
}

bool Weight::kept() const {
  const std::scoped_lock lock(mutex_);
  return data_.data() != nullptr;
}

ByteView Weight::data() const {
  const std::scoped_lock lock(mutex_);
  if (!data_.data()) keep(widened());
  return data_;
}

ByteView Weight::stored_data() const {
  return half_ ? half_->data() : data();
}

void Weight::release() const {
  if (backing_.release) backing_.release(data_);
}

std::shared_ptr<const void> Weight::packed(const kernels::Plan& plan, const kernels::Shape& shape,
                                           const Weight* scales) const {
  const bool shareable = plan.layout_count >= 0;
  std::vector<std::int64_t> layout;
  if (shareable) layout.assign(plan.layout, plan.layout + plan.layout_count);
  const std::scoped_lock lock(mutex_);
  std::erase_if(packed_, [](const Packed& each) { return each.memory.expired(); });
  if (shareable) {
    for (const Packed& each : packed_) {
      if (each.pack != plan.pack || each.bytes != plan.packed_bytes || each.shape != shape || each.scales != scales ||
          each.layout != layout)
        continue;
      if (auto memory = each.memory.lock()) return memory;
    }
  }
  Memory made = allocate(plan.packed_bytes);
  // Decoding reads all of it once a token: with small pages their addresses take longer to find than the bytes.
  advise_large_pages(made.get(), plan.packed_bytes);
  const bool as_stored = plan.packs_stored && half_;
  const Bytes f32 = as_stored || data_.data() ? Bytes() : widened();
  const ByteView bytes = as_stored ? half_->data() : data_.data() ? data_ : ByteView(f32);
  plan.pack(plan.state, bytes.data(), scales ? scales->data().data() : nullptr, made.get());
  release();
  if (as_stored) half_->release();
  if (scales) scales->release();
  ++times_packed_;
  std::shared_ptr<const void> memory = shared(std::move(made));
  // A form that cannot be shared is noted for packed_bytes(), under a function that no plan has.
  packed_.push_back({shareable ? plan.pack : nullptr, shape, scales, std::move(layout), plan.packed_bytes, memory});
  return memory;
}

std::shared_ptr<const void> Weight::on(const kernels::Device& device, const std::function<Memory()>& allocate) const {
  const std::scoped_lock lock(mutex_);
  std::erase_if(copies_, [](const Copy& each) { return each.memory.expired(); });
  for (const Copy& each : copies_) {
    if (each.device != &device) continue;
    if (auto memory = each.memory.lock()) return memory;
  }
  Memory made = allocate();
  const Bytes f32 = data_.data() ? Bytes() : widened();
  device.upload(made.get(), data_.data() ? data_.data() : f32.data(), shape_.bytes());
  std::shared_ptr<const void> memory = shared(std::move(made));
  copies_.push_back({&device, memory});
  return memory;
}

std::size_t Weight::packed_bytes() const {
  const std::scoped_lock lock(mutex_);
  std::size_t bytes = 0;
  for (const Packed& each : packed_)
    if (!each.memory.expired()) bytes += each.bytes;
  return bytes;
}

std::int64_t Weight::times_packed() const {
  const std::scoped_lock lock(mutex_);
  return times_packed_;
}

Weights::Weights(Tensors tensors) {
  while (!tensors.empty()) {
    auto node = tensors.extract(tensors.begin());
    const auto data = std::make_shared<const Bytes>(std::move(node.mapped().data));
    weights_.emplace(std::move(node.key()), std::make_shared<const Weight>(node.mapped().shape, *data, Backing{data}));
  }
}

Weights::Weights(const std::map<std::string, TensorView>& tensors, const Backing& backing) {
  for (const auto& [name, tensor] : tensors)
    weights_.emplace(name, std::make_shared<const Weight>(tensor.shape, tensor.data, backing));
}

Weights Weights::viewing(const Tensors& tensors) {
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : tensors) views.emplace(name, TensorView{tensor.shape, tensor.data});
  return {views, {}};
}

std::shared_ptr<const Weight> Weights::find(std::string_view name) const {
  const auto found = weights_.find(name);
  return found == weights_.end() ? nullptr : found->second;
}

Tensors Weights::tensors() const {
  Tensors tensors;
  for (const auto& [name, weight] : weights_) tensors.emplace(name, tensor(name));
  return tensors;
}

Tensor Weights::tensor(std::string_view name) const {
  const auto weight = find(name);
  if (!weight) fail(ErrorKind::kNotFound, "weights: '{}' does not exist", name);
  return {weight->shape(), Bytes(weight->data().begin(), weight->data().end())};
}

std::size_t Weights::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [name, weight] : weights_)
    bytes += static_cast<std::size_t>(weight->shape().count()) * kernels::size_of(weight->stored());
  return bytes;
}

std::size_t Weights::packed_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [name, weight] : weights_) bytes += weight->packed_bytes();
  return bytes;
}

std::int64_t Weights::times_packed() const {
  std::int64_t times = 0;
  for (const auto& [name, weight] : weights_) times += weight->times_packed();
  return times;
}

}  // namespace mlx::graph
