// Which kernel serves a problem (table.h). What the CPU has is asked once, the oneDNN module is opened once; both are
// kept for the life of the process.
#include "kernels/table.h"

#include <cpuid.h>
#include <fmt/format.h>

#include "base/error.h"
#include "kernels/geometry.h"
#include "kernels/kernel_module.h"
#include "kernels/on_host.h"

namespace mlx::kernels {
namespace {

struct Cpu {
  bool avx512 = false;  // F, BW, DQ, VL, VNNI, BF16 and FMA: what its objects are compiled for
  bool avx2 = false;    // with FMA and F16C
  bool vnni = false, bf16 = false;
};

// Which register states the OS saves; executing an AVX-512 instruction without them faults, whatever cpuid says.
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
  const bool vnni = (c >> 11 & 1u) != 0;
  cpu.avx512 = zmm && ebx(16) && ebx(17) && ebx(30) && ebx(31);
  unsigned a1 = 0;
  const bool bf16 = __get_cpuid_count(7, 1, &a1, &b, &c, &d) && (a1 >> 5 & 1u);
  cpu.vnni = cpu.avx512 && vnni;
  cpu.bf16 = cpu.avx512 && bf16;
  // The objects for AVX-512 are compiled with VNNI and BF16 allowed, so the level needs both.
  cpu.avx512 = cpu.vnni && cpu.bf16;
  return cpu;
}

const Cpu& cpu() {
  static const Cpu asked = ask_cpu();
  return asked;
}

// Its kernels' addresses stand in plans.
struct OneDnn {
  std::vector<Kernel> kernels;
  std::string version;
  std::string problem;  // why it cannot be used; empty when it can
};

OneDnn open_onednn() {
  OneDnn opened;
  KernelModule opened_module = open_kernel_module("mlx_onednn");
  Module& module = opened_module.module;
  opened.kernels = std::move(opened_module.kernels);
  const auto version = reinterpret_cast<const char* (*)()>(module.symbol("mlx_onednn_version"));
  opened.problem = module.problem;
  if (!opened.problem.empty()) return opened;
  opened.version = version();
  return opened;
}

const OneDnn& onednn() {
  static const OneDnn module = open_onednn();
  return module;
}

const std::vector<Kernel>& rows_of(Level level) {
  static const std::vector<Kernel> ref = ref_kernels();
  static const std::vector<Kernel> avx2 = cpu().avx2 ? avx2_kernels() : std::vector<Kernel>{};
  static const std::vector<Kernel> avx512 = cpu().avx512 ? avx512_kernels() : std::vector<Kernel>{};
  static const std::vector<Kernel> none;
  switch (level) {
    case Level::kRef:
      return ref;
    case Level::kAvx2:
      return avx2;
    case Level::kAvx512:
      return avx512;
    case Level::kOneDnn:
      return onednn().problem.empty() ? onednn().kernels : none;
    case Level::kCuda: {
      static const std::vector<Kernel> cuda = cuda_kernels();
      return cuda;
    }
  }
  return none;
}

bool try_level(const Problem& problem, Level level, Prepared& prepared) {
  for (const Kernel& kernel : rows_of(level)) {
    if (kernel.op != problem.op) continue;
    Plan plan;
    if (kernel.prepare(problem, plan)) {
      prepared = Prepared(plan, kernel.backend);
      return true;
    }
    // A kernel that declines may already have allocated; the owner frees it.
    const Prepared declined(plan, kernel.backend);
  }
  return false;
}

// Where kernels/simd by AVX-512 measured faster than oneDNN 2.6, which pads images of few channels to blocks of them.
// GFLOP/s on a core of a Zen 4, ours/oneDNN's: 28×28×1 to 32, 3×3: forward 85/60, gradient to the weights 103/48, u8
// 129/55, s8 143/73; stride 2: 78/44, 94/48, 105/42. 32×32×3 to 32: 103/93, 96/74, but u8 175/171; 112×112×3 to 64,
// 7×7, stride 2: 103/110, 96/89, u8 245/314: there oneDNN keeps what it does better.
bool convolves_few_channels(const Problem& problem, const Geometry& g) {
  if (g.groups != 1 || g.c > kFewChannels) return false;
  if (problem.op == Op::kConv2dBackwardWeights) return true;
  if (problem.op != Op::kConv2d) return false;
  return g.c <= 2 || (g.sh == 1 && g.sw == 1);
}

// The same of quantized layers, which only answer. Ours/oneDNN's, microseconds of eight images on a core of a Zen 4
// with VNNI, u8, 3x3: 32×32×3 to 16: 28/36, ×16 to 16: 65/66, to 32 at stride 2: 26/31; 16×16×32 to 32: 42/46. 8×8×64
// to 64: 41/39, 1×1 of 16 to 960 channels: 42/43 to 125/70: oneDNN keeps those. ResNet-20 as a whole: 1.2 times as
// fast.
bool convolves_bytes(const Problem& problem, const Geometry& g) {
  return problem.op == Op::kConv2d && g.quantized && g.groups == 1 && g.kh == 3 && g.kw == 3 && g.c > kFewChannels &&
         g.c <= 32 && g.o <= 32 && problem.attrs.activation != Activation::kGelu;
}

// The same of linear layers in training, where weights are packed anew in each step. Microseconds on a core of a Zen 4,
// ours/oneDNN's, 128 rows of 784 to 512: bf16 forward 447/451, packed in 41/120; to the data 444/448, in 29/117 (f32
// 888/905, in 38/52); to the weights 499/740 (f32 925/1114). 8192 rows of 384 to 1536, bf16: 55.4/46.0 ms, 48.2/44.2,
// 86.6/66.1; 128 rows of 6272 to 128 to the weights: 1147/1067. Not forward in f32, which inference is too: its bits
// are not to depend on how many rows are asked at once.
bool multiplies_few_rows(const Problem& problem, const Geometry& g) {
  constexpr std::int64_t kFewRows = 1024, kCached = std::int64_t{1} << 20;  // bytes of x and dy
  const bool bf16 = problem.inputs[0].dtype == DType::kBF16;
  switch (problem.op) {
    case Op::kLinear:
      return bf16 && g.rows <= kFewRows;
    case Op::kLinearBackwardData:
      return g.rows <= kFewRows;
    case Op::kLinearBackwardWeights:
      return g.rows * (g.in_width + g.out_width) * (bf16 ? 2 : 4) <= kCached;
    default:
      return false;
  }
}

bool avx512_first(const Problem& problem, const Geometry& g) {
  const bool convolves =
      problem.op == Op::kConv2d || problem.op == Op::kConv2dBackwardData || problem.op == Op::kConv2dBackwardWeights;
  if (!convolves) return multiplies_few_rows(problem, g);
  return convolves_few_channels(problem, g) || convolves_bytes(problem, g);
}

std::string text_of(const Shape& shape) {
  if (shape.rank < 0) return "absent";
  std::string text = name_of(shape.dtype);
  text += '[';
  for (int i = 0; i < shape.rank && i < kMaxRank; ++i)
    text += fmt::format("{}{}", i ? "," : "", shape.dims[static_cast<std::size_t>(i)]);
  return text + ']';
}

std::string text_of(const Problem& problem) {
  std::string text = name_of(problem.op);
  text += '(';
  for (int i = 0; i < problem.input_count; ++i) text += (i ? ", " : "") + text_of(problem.inputs[i]);
  text += ") -> (";
  for (int i = 0; i < problem.output_count; ++i) text += (i ? ", " : "") + text_of(problem.outputs[i]);
  return text + ')';
}

}  // namespace

std::vector<Kernel> onednn_kernels() {
  if (!onednn().problem.empty())
    throw Error(ErrorKind::kMissing, "oneDNN kernels: " + onednn().problem,
                "install mlx whole (lib/mlx beside its executable), or use MLX_KERNELS=avx512, avx2 or ref");
  return onednn().kernels;
}

Level best_level() {
  if (cpu().avx2 && onednn().problem.empty()) return Level::kOneDnn;
  return cpu().avx512 ? Level::kAvx512 : cpu().avx2 ? Level::kAvx2 : Level::kRef;
}

Level parse_level(const std::string& name) {
  if (name.empty()) return best_level();
  if (name == "ref") return Level::kRef;
  if (name == "avx2") {
    if (!cpu().avx2)
      throw Error(ErrorKind::kMissing, "kernels 'avx2': this CPU lacks AVX2 or FMA, or the OS does not enable them",
                  "leave MLX_KERNELS unset for the best this machine has");
    return Level::kAvx2;
  }
  if (name == "avx512") {
    if (!cpu().avx512)
      throw Error(ErrorKind::kMissing,
                  "kernels 'avx512': this CPU lacks AVX-512 with VNNI and BF16, or the OS does not enable it",
                  "leave MLX_KERNELS unset for the best this machine has");
    return Level::kAvx512;
  }
  if (name == "onednn") {
    onednn_kernels();  // kMissing where it cannot be opened
    return Level::kOneDnn;
  }
  throw Error(ErrorKind::kUsage, fmt::format("unknown kernels '{}'", name),
              "MLX_KERNELS is one of ref, avx2, avx512, onednn");
}

const char* name_of(Level level) {
  switch (level) {
    case Level::kRef:
      return "ref";
    case Level::kAvx2:
      return "avx2";
    case Level::kAvx512:
      return "avx512";
    case Level::kOneDnn:
      return "onednn";
    case Level::kCuda:
      return "cuda";
  }
  return "unknown";
}

std::string bf16_problem(Level level) {
  if (level == Level::kRef || level == Level::kCuda || (level == Level::kOneDnn && cpu().bf16)) return {};
  if (level == Level::kOneDnn) return "this CPU lacks AVX512_BF16, or the OS does not enable AVX-512";
  return fmt::format("the kernels '{}' have no products of bf16{}; oneDNN has all of them", name_of(level),
                     level == Level::kAvx512 ? " but for linear layers" : "");
}

Level portable_level(Level wanted) {
  if (wanted == Level::kCuda)
    throw Error(ErrorKind::kUsage, "portable numerics are those of CPUs, not of a GPU",
                "train with --device cpu, or with native numerics");
  if (wanted == Level::kRef) {
    throw Error(ErrorKind::kUsage, "portable numerics are those of kernels 'avx2' and 'avx512', not 'ref'",
                "leave MLX_KERNELS unset, or set it to avx2 or avx512");
  }
  if (!cpu().avx2)
    throw Error(ErrorKind::kMissing, "portable numerics: this CPU lacks AVX2 or FMA, or the OS does not enable them",
                "train on a machine that has them, or with native numerics");
  return wanted >= Level::kAvx512 && cpu().avx512 ? Level::kAvx512 : Level::kAvx2;
}

std::string isa_name() {
  if (cpu().avx512) return "avx512_vnni_bf16";
  return cpu().avx2 ? "avx2" : "x86_64";
}

std::string onednn_problem() {
  return cpu().avx2 ? onednn().problem : "";
}

std::string onednn_version() {
  return onednn().problem.empty() ? onednn().version : "";
}

const Device& device_of(Level level, int index) {
  return level == Level::kCuda ? cuda_device(index) : host_device();
}

Prepared prepare(const Problem& problem, Level level) {
  Geometry geometry;
  if (const std::string wrong = describe(problem, geometry); !wrong.empty())
    fail(ErrorKind::kUsage, "{}: {}", text_of(problem), wrong);
  Prepared prepared;
  if (level == Level::kCuda) {
    if (try_level(problem, level, prepared)) return prepared;
    if (row_of(problem.op).primitive) return prepare_on_host(problem, prepare(problem, best_level()), device_of(level));
    fail(ErrorKind::kUsage, "no kernel for CUDA serves {}", text_of(problem));
  }
  if (level >= Level::kAvx512 && avx512_first(problem, geometry) && try_level(problem, Level::kAvx512, prepared))
    return prepared;
  for (const Level candidate : {Level::kOneDnn, Level::kAvx512, Level::kAvx2, Level::kRef})
    if (candidate <= level && try_level(problem, candidate, prepared)) return prepared;
  fail(ErrorKind::kUsage, "no kernel of level {} serves {}", name_of(level), text_of(problem));
}

}  // namespace mlx::kernels
