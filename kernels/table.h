// Which kernel serves a problem: the one piece of global state, chosen once by cpuid, OS support and MLX_KERNELS.
#pragma once

#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

// What may be used, best last: ref, then avx2, avx512 and oneDNN where CPU and OS have it. avx2 and avx512 give the
// same bits of f32. kCuda stands for itself: all of its kernels run on the GPU, and none of the others' beside them.
enum class Level { kRef, kAvx2, kAvx512, kOneDnn, kCuda };

// Rows of one backend; a backend is one function like this and a line in table.cpp.
std::vector<Kernel> ref_kernels();
std::vector<Kernel> avx2_kernels();
std::vector<Kernel> avx512_kernels();
std::vector<Kernel>
onednn_kernels();  // opens lib/mlx/mlx_onednn.so relative to the executable; kMissing where it cannot be

std::vector<Kernel> cuda_kernels();  // opens lib/mlx/mlx_cuda.so likewise; kMissing where there is no GPU to use

Level best_level();  // of the CPU
// "ref", "avx2", "avx512", "onednn" (also "" for the best); kUsage for another word, kMissing where the CPU lacks it.
Level parse_level(const std::string& name);
const char* name_of(Level level);
// Why the products of bf16 at this level are not worth having, or not all there ("this CPU lacks AVX512_BF16"); ""
// where they are.
std::string bf16_problem(Level level);
// The level for the same bits on every machine: `wanted`, or what is below it, of avx512 and avx2, whose f32 is the
// same; what they do not serve is ref's. kUsage where ref itself is wanted, kMissing where the CPU lacks AVX2 or FMA.
Level portable_level(Level wanted);
// Says which ISA results depend on: "avx2", "avx512_vnni_bf16"; part of the numerics id.
std::string isa_name();
std::string
onednn_problem();  // why the best kernels are not used though this CPU could: the module's; "" where they are
std::string onednn_version();  // of the library that is loaded, with the ISA that it uses; "" where there is none

// Where the kernels of a level find their tensors. kMissing if there is no such GPU.
const Device& device_of(Level level, int index = 0);  // `index`: which of the GPUs

// The best kernel at or below `level`; kUsage naming operation, dtypes and sizes where none serves it.
Prepared prepare(const Problem& problem, Level level);

}  // namespace mlx::kernels
