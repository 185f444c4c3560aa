// Weights that any number of sessions share: immutable tensors by name, reference-counted. Inference reads them in
// place; training copies them into its own parameters.
//
// Forms that kernels derive from a weight (packed, or copied to a GPU) are made once for all sessions and shape buckets
// that use them, and freed with the last of these. What is only packed does not stay in memory a second time: pages of
// a mapped file are given back, and a late weight is packed or read as it is stored, or else widened, packed and freed.
//
// Thread-safe: any thread may call any of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "graph/graph.h"
#include "graph/memory.h"
#include "kernels/kernel.h"

namespace mlx::graph {

// What keeps a tensor's bytes alive, and how to take them out of the process's memory until they are read again (null:
// that is not possible, as for bytes that are in no file).
struct Backing {
  std::shared_ptr<const void> memory;
  void (*release)(ByteView part) = nullptr;
};

// One tensor.
class Weight {
 public:
  // `data` has the length that `shape` implies; without `backing.memory` somebody else keeps it alive. Data that is not
  // aligned for its type, as in some files, is copied, because kernels read it in place.
  Weight(const kernels::Shape& shape, ByteView data, Backing backing);
  // A late weight: f32 that is stored as `half`, of the same dimensions in half precision.
  explicit Weight(std::shared_ptr<const Weight> half);
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  const kernels::Shape& shape() const { return shape_; }
  bool late() const { return half_ != nullptr; }
  kernels::DType stored() const { return half_ ? half_->shape_.dtype : shape_.dtype; }
  ByteView data() const;         // that of a late weight is widened the first time, and kept
  ByteView stored_data() const;  // of the type stored()
  bool kept() const;             // whether data() takes memory, or a mapped file
  void release() const;          // the memory of data(), if it can be had again

  // What plan.pack() writes for this weight, which the graph sees as `shape`, and its scales (null for none; they live
  // as long as forms with them are in use). Two plans get the same bytes if they have the same layout
  // (kernels::Plan::layout); then only the first caller packs, and others wait for it.
  std::shared_ptr<const void> packed(const kernels::Plan& plan, const kernels::Shape& shape,
                                     const Weight* scales = nullptr) const;
  // A copy in the memory of `device`, which is not the host. `allocate` gives the first caller memory for it.
  std::shared_ptr<const void> on(const kernels::Device& device, const std::function<Memory()>& allocate) const;

  std::size_t packed_bytes() const;  // of the packed forms in use
  std::int64_t times_packed() const;

 private:
  struct Packed {
    void (*pack)(const void*, const void*, const void*, void*);
    kernels::Shape shape;
    const Weight* scales;
    std::vector<std::int64_t> layout;
    std::size_t bytes;
    std::weak_ptr<const void> memory;
  };
  struct Copy {
    const kernels::Device* device;
    std::weak_ptr<const void> memory;
  };

  void keep(Bytes bytes) const;
  Bytes widened() const;

  kernels::Shape shape_;
  std::shared_ptr<const Weight> half_;  // null unless late
  mutable std::mutex mutex_;            // guards everything below; held while a form is made
  mutable ByteView data_;               // null as long as a late weight is not kept
  mutable Backing backing_;
  mutable std::vector<Packed> packed_;
  mutable std::vector<Copy> copies_;
  mutable std::int64_t times_packed_ = 0;
};

struct TensorView {
  kernels::Shape shape;
  ByteView data;
};

class Weights {
 public:
  using Map = std::map<std::string, std::shared_ptr<const Weight>, std::less<>>;

  Weights() = default;
  explicit Weights(Tensors tensors);  // moved, not copied
  // Tensors in the same memory: a mapped file, or bytes read at once.
  Weights(const std::map<std::string, TensorView>& tensors, const Backing& backing);
  explicit Weights(Map weights) : weights_(std::move(weights)) {}
  // For tensors that outlive the result and everything made from it.
  static Weights viewing(const Tensors& tensors);

  std::shared_ptr<const Weight> find(std::string_view name) const;  // null if there is none
  const Map& all() const { return weights_; }
  std::size_t size() const { return weights_.size(); }
  bool contains(std::string_view name) const { return weights_.contains(name); }
  Tensors tensors() const;                     // a copy, to be changed
  Tensor tensor(std::string_view name) const;  // a copy of one; throws kNotFound

  std::size_t bytes() const;         // of the tensors, as they are stored
  std::size_t packed_bytes() const;  // of the packed forms in use
  std::int64_t times_packed() const;

 private:
  Map weights_;
};

// A value that outlives a step, as a session holds it: in its own memory, or shared.
struct Held {
  void* data =
      nullptr;  // null before it exists, and of a late weight until it is read as it is; never written if shared
  std::size_t bytes = 0;
  Memory own;
  std::shared_ptr<const Weight> weight;     // null if the memory is the session's own
  std::shared_ptr<const void> device_copy;  // of `weight`; null on the host

  bool exists() const { return data || weight; }
  void* address() {
    if (!data && weight) data = const_cast<std::uint8_t*>(weight->data().data());
    return data;
  }
};

}  // namespace mlx::graph
