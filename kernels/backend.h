// A backend: the device whose memory holds the tensors, the kernels that compute there, and what both can do. Code
// above kernels/ asks for capabilities. It never compares names or asks for a certain device.
//
// All backends are rows of one table (backend.cpp). Chosen by what the CPU and the OS have, by MLX_KERNELS, or by
// --device.
#pragma once

#include <string>
#include <string_view>

#include "kernels/device.h"

namespace mlx::kernels {

// What a backend can do beyond what all of them can. A field is named after what those who ask decide by it.
struct Capabilities {
  // Memory and the course of a run.
  bool own_memory = false;        // tensors lie in the device's memory: what is fed, and what is asked for, is copied
  bool tiles_batches = false;     // inference is faster where a batch is cut into tiles that fit into caches
  bool updates_together = false;  // one launch updates many parameters, if nothing stands between their updates
  // Operations that others leave to the data loader, or compute in two.
  bool augments_images = false;  // makes its images of raw bytes (Op::kAugment)
  bool adds_in_norms = false;    // a norm adds the residual that it reads, and its gradient what is added to that
  bool gelu_in_linear = false;   // a linear layer gives gelu of its output too, and its gradient takes that of gelu
  // Precision of training.
  bool multiplies_tf32 = false, multiplies_f16 = false;
  bool prefers_bf16 = false;        // bf16 is the default, where nothing else is asked for
  bool reads_half_weights = false;  // products read weights in half precision; else they round them as they pack them
  // Half precision wherever it is allowed: convolutions of groups or few channels, attention, logits of losses.
  bool half_throughout = false;
};

struct BackendRow;

// Cheap to copy. Lives as long as the process.
class Backend {
 public:
  explicit Backend(const BackendRow& row, int index = 0) : row_(&row), index_(index) {}
  const char* name() const;         // "ref", "avx2", "avx512", "onednn", "cuda": what is printed and recorded
  const char* device_word() const;  // that --device takes: "cpu", "cuda"
  const Device& device() const;     // kMissing if this machine has none
  const Capabilities& can() const;
  const BackendRow& row() const { return *row_; }
  bool operator==(const Backend&) const = default;

 private:
  const BackendRow* row_;
  int index_;  // which of its devices
};

// Of the CPU: oneDNN's kernels with our own below them, or the best of our own. avx2 and avx512 give the same bits of
// f32.
Backend best_backend();
// "ref", "avx2", "avx512", "onednn" (also "" for the best); kUsage for another word, kMissing where the CPU lacks it.
Backend parse_backend(const std::string& name);
// The GPUs that the driver shows, counted from 0. kMissing as cuda_device().
Backend cuda_backend(int index = 0);
// The backend of that name, which this machine may lack: kernels below those that it lacks serve. For tests.
Backend backend_named(std::string_view name);
// For the same bits on every machine: `wanted`, or what is below it, of avx512 and avx2, whose f32 is the same; ref
// serves what they do not. kUsage where `wanted` has neither, kMissing where the CPU lacks AVX2 or FMA.
Backend portable_backend(const Backend& wanted);

// Why this machine cannot use it; "" if it can.
std::string problem_of(const Backend& backend);
// Why its products of bf16 are not worth having, or not all there ("this CPU lacks AVX512_BF16"); "" where they are.
std::string bf16_problem(const Backend& backend);
// The hardware that results depend on: the ISA, or the GPU and the host's ISA. Part of the numerics id.
std::string hardware_of(const Backend& backend);
// Version of the library that its kernels are from, with the ISA that it uses; "" for kernels of our own and of CUDA.
std::string library_of(const Backend& backend);

// Why oneDNN is not used though this CPU could; "" if it is used, or the CPU lacks AVX2.
std::string onednn_problem();
std::string onednn_version();  // of the library that is loaded, with the ISA that it uses; "" where there is none

}  // namespace mlx::kernels
