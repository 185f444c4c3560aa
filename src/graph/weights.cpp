// See weights.h.

#include "graph/weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/fd.h"

namespace mlx::graph {
namespace {

bool is_aligned(ByteView data, kernels::DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data.data()) % kernels::size_of(dtype) == 0;
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

Weight::Weight(const kernels::Shape& shape, std::function<Bytes()> make) : shape_(shape), make_(std::move(make)) {}

void Weight::keep(Bytes bytes) const {
  const auto kept = std::make_shared<Bytes>(std::move(bytes));
  kept->reserve(1);  // so that even an empty tensor's data has an address
  data_ = *kept;
  backing_ = {kept, nullptr};
}

Bytes Weight::made() const {
  Bytes bytes = make_();
  CHECK(bytes.size() == shape_.bytes());
  return bytes;
}

ByteView Weight::data() const {
  const std::scoped_lock lock(mutex_);
  if (!data_.data()) keep(made());
  return data_;
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
  const Bytes now = data_.data() ? Bytes() : this->made();
  plan.pack(plan.state, data_.data() ? data_.data() : now.data(), scales ? scales->data().data() : nullptr, made.get());
  release();
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
  const Bytes now = data_.data() ? Bytes() : this->made();
  device.upload(made.get(), data_.data() ? data_.data() : now.data(), shape_.bytes());
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
  for (const auto& [name, weight] : weights_) bytes += weight->shape().bytes();
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
