// Queries cpuid, and the OS with XGETBV (cpu.h).
#include "kernels/cpu.h"

#include <cpuid.h>

#include <cstdint>

namespace mlx::kernels {
namespace {

// The register states that the OS saves. Without them an AVX-512 instruction faults, whatever cpuid says.
std::uint64_t enabled_states() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

Cpu ask_cpu() {
  Cpu cpu;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return cpu;
  const bool osxsave = c & (1u << 27), fma = c & (1u << 12), f16c = c & (1u << 29);
  if (!osxsave || !fma || !f16c) return cpu;
  const std::uint64_t states = enabled_states();
  const bool ymm = (states & 0x6) == 0x6, zmm = (states & 0xe6) == 0xe6;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return cpu;
  const auto ebx = [&](int bit) { return (b >> bit & 1u) != 0; };
  cpu.avx2 = ymm && ebx(5);
  const bool avx512 = zmm && ebx(16) && ebx(17) && ebx(30) && ebx(31);
  const bool vnni = (c >> 11 & 1u) != 0;
  unsigned a1 = 0;
  const bool bf16 = __get_cpuid_count(7, 1, &a1, &b, &c, &d) && (a1 >> 5 & 1u);
  cpu.avx512 = avx512 && vnni && bf16;
  return cpu;
}

}  // namespace

const Cpu& cpu() {
  static const Cpu asked = ask_cpu();
  return asked;
}

std::string isa_name() {
  if (cpu().avx512) return "avx512_vnni_bf16";
  return cpu().avx2 ? "avx2" : "x86_64";
}

}  // namespace mlx::kernels
