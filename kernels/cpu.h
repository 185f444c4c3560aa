// The features of this CPU and its OS that the hand-written kernels use. Queried once.
#pragma once

#include <string>

namespace mlx::kernels {

struct Cpu {
  bool avx512 = false;  // F, BW, DQ, VL, VNNI, BF16 and FMA, which the AVX-512 objects are compiled for
  bool avx2 = false;    // with FMA and F16C
};
const Cpu& cpu();

// The ISA that results depend on: "avx2", "avx512_vnni_bf16"; part of the numerics id.
std::string isa_name();

}  // namespace mlx::kernels
