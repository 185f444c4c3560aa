// A backend: the device whose memory holds the tensors, the kernels that run there, and the capabilities of both. Code
// above kernels/ asks for capabilities. It never compares names or asks for a certain device.
//
// All backends are rows of one table (backend.cpp). The choice depends on the CPU and the OS, on MLX_KERNELS, and on
// --device.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device.h"

namespace mlx::kernels {

// What a backend can do beyond what all backends can. A field is named after the decision that it is used for.
struct Capabilities {
  // Memory and execution.
  bool own_memory = false;        // tensors are in the device's memory: inputs and results are copied
  bool tiles_batches = false;     // inference is faster if a batch is cut into tiles that fit into caches
  bool updates_together = false;  // one launch updates many parameters, if nothing is between their updates
  // A row of a product has the same bits whatever other rows there are (op_list.h says so of kLinearGroups on any).
  bool independent_rows = false;
  // Operations that other backends leave to the data loader, or compute in two steps.
  bool augments_images = false;  // makes its images from raw bytes (Op::kAugment)
  bool adds_in_norms = false;    // a norm adds its residual, and its gradient adds what is added to that gradient
  bool gelu_in_linear = false;   // a linear layer also applies gelu to its output, and its gradient that of gelu
  // Precision of training.
  bool multiplies_tf32 = false, multiplies_f16 = false;
  bool prefers_bf16 = false;        // bf16 is the default precision
  bool reads_half_weights = false;  // products read half-precision weights; else they round weights when packing them
  // Half precision wherever it is allowed: convolutions with groups or few channels, attention, logits of losses.
  bool half_throughout = false;
};

struct BackendRow;

// Cheap to copy. Lives as long as the process.
class Backend {
 public:
  explicit Backend(const BackendRow& row, int index = 0) : row_(&row), index_(index) {}
  const char* name() const;         // "ref", "avx2", "avx512", "onednn", "cuda": printed and recorded
  const char* device_word() const;  // as in --device: "cpu", "cuda"
  const Device& device() const;     // throws kMissing if this machine has none
  const Capabilities& can() const;
  const BackendRow& row() const { return *row_; }
  bool operator==(const Backend&) const = default;

 private:
  const BackendRow* row_;
  int index_;  // which of its devices
};

// The best for the CPU: oneDNN's kernels with our own below them, or the best of our own. avx2 and avx512 give the same
// bits in f32.
Backend best_backend();
// "ref", "avx2", "avx512", "onednn" (also "" for the best). Throws kUsage for another word, kMissing if the CPU lacks
// it.
Backend parse_backend(const std::string& name);
// Those words, worst first.
std::vector<std::string_view> cpu_backend_names();
// All backends, worst first, whether or not this machine can use them.
std::vector<Backend> all_backends();
// The words of --device, that of the CPU first.
std::vector<std::string_view> device_words();
// The best backend with this word that this machine can use. Throws kMissing, with the reason, if there is none.
Backend backend_on(std::string_view device_word);
// The GPUs that the driver shows, counted from 0. Throws kMissing as cuda_device() does.
Backend cuda_backend(int index = 0);
// The devices that it may use, by number: an id that no other device of the machine has, a space, and the model. Throws
// kMissing if there is none.
std::vector<std::string> devices_of(const Backend& backend);
// The same backend on its device `index`.
Backend on_device(const Backend& backend, int index);
// The backend with that name, which this machine may lack: kernels below it then serve. For tests.
Backend backend_named(std::string_view name);
// For the same bits on every machine: of avx512 and avx2, whose f32 is the same, `wanted` or the best one below it; ref
// serves what they do not. Throws kUsage if there is neither at or below `wanted`, kMissing if the CPU lacks AVX2 or
// FMA.
Backend portable_backend(const Backend& wanted);

// Why this machine cannot use it; "" if it can.
std::string problem_of(const Backend& backend);
// Why this machine cannot use it though what it needs is there: a module is missing or damaged, a driver is too old. ""
// if it can, and if the machine lacks the hardware.
std::string defect_of(const Backend& backend);
// What its device is ("NVIDIA H200, compute capability 9.0 …"), or why there is none.
std::string description_of(const Backend& backend);
// Why its bf16 products are slow or incomplete ("this CPU lacks AVX512_BF16"); "" if they are neither.
std::string bf16_problem(const Backend& backend);
// The hardware that results depend on: the ISA, or the GPU and the host's ISA. Part of the numerics id.
std::string hardware_of(const Backend& backend);
// The library that its kernels come from; nullopt for our own kernels and CUDA's.
struct Library {
  const char* name = "";  // recorded
  std::string version;    // with the ISA that it uses; "" if it is not loaded
};
std::optional<Library> library_of(const Backend& backend);

}  // namespace mlx::kernels
