// The table: names that never change, backends by name, problems that are refused with what is wrong.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "backends.h"
#include "base/error.h"
#include "harness.h"
#include "kernels/cpu.h"
#include "kernels/library_settings.h"

namespace mlx::kernels::test {
namespace {

// The message of the Error that preparing throws; "" for none.
std::string refusal(Op op, std::vector<Shape> inputs, std::vector<Shape> outputs, Attrs attrs = {}) {
  const Problem problem{
      op,     attrs, static_cast<int>(inputs.size()), static_cast<int>(outputs.size()), inputs.data(), outputs.data(),
      nullptr};
  try {
    prepare(problem, backend_named("ref"));
    return {};
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    return error.message;
  }
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("table: operations' names are unique") {
  std::set<std::string> names;
  for (int op = 0; op < static_cast<int>(Op::kCount); ++op) names.insert(name_of(static_cast<Op>(op)));
  CHECK(names.size() == static_cast<std::size_t>(Op::kCount));
  CHECK(std::string(name_of(Op::kConv2dBackwardData)) == "conv2d_backward_data");
  CHECK(std::string(name_of(Op::kReshape)) == "reshape");
}

TEST_CASE("table: backends by name") {
  CHECK(parse_backend("ref") == backend_named("ref"));
  CHECK(parse_backend("") == best_backend());
  CHECK_THROWS_AS(parse_backend("sse9"), Error);
  for (const char* name : {"ref", "avx2", "avx512", "onednn", "cuda"})
    CHECK(std::string(backend_named(name).name()) == name);
  CHECK_THROWS_AS(parse_backend("cuda"), Error);  // a device, which MLX_KERNELS does not choose
}

TEST_CASE("table: bug: words of devices, libraries and defects are asked of the rows") {
  CHECK(device_words() == std::vector<std::string_view>{"cpu", "cuda"});
  CHECK(backend_on("cpu") == best_backend());
  std::vector<std::string> libraries;
  for (const Backend& each : all_backends()) {
    if (const auto library = library_of(each)) libraries.emplace_back(library->name);
    if (problem_of(each).empty()) CHECK(defect_of(each) == "");
    CHECK(description_of(each) != "");
  }
  CHECK(libraries == std::vector<std::string>{"onednn"});
  if (!has_gpu()) CHECK_THROWS_AS(backend_on("cuda"), Error);
}

TEST_CASE("table: oneDNN has all products of bf16, and the oracle") {
  CHECK(bf16_problem(backend_named("ref")).empty());
  CHECK(contains(bf16_problem(backend_named("avx2")), "avx2"));
  CHECK(contains(bf16_problem(backend_named("avx512")), "avx512"));
  CHECK(bf16_problem(backend_named("onednn")).empty() == (isa_name() == "avx512_vnni_bf16"));
}

// bug: they made other bits under the same key.
TEST_CASE("table: environment variables of libraries are cleared, except those for their output") {
  for (const char* name : {"DNNL_MAX_CPU_ISA", "DNNL_CPU_ISA_HINTS", "ONEDNN_DEFAULT_FPMATH_MODE",
                           "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_HEURISTICS_CACHE_CAPACITY"})
    CHECK(is_library_setting(name));
  for (const char* name :
       {"DNNL_VERBOSE", "CUBLASLT_LOG_LEVEL", "CUDNN_LOGLEVEL_DBG", "PATH", "MLX_KERNELS", "CUDA_VISIBLE_DEVICES"})
    CHECK(!is_library_setting(name));
  setenv("DNNL_CPU_ISA_HINTS", "PREFER_YMM", 1);
  clear_library_settings();
  CHECK(getenv("DNNL_CPU_ISA_HINTS") == nullptr);
}

TEST_CASE("table: portable numerics are those of the best of our own SIMD kernels") {
  CHECK_THROWS_AS(portable_backend(backend_named("ref")), Error);
  CHECK_THROWS_AS(portable_backend(backend_named("cuda")), Error);
  if (own_backend() == backend_named("ref")) return;  // no AVX2
  CHECK(portable_backend(best_backend()) == own_backend());
  CHECK(portable_backend(backend_named("avx2")) == backend_named("avx2"));
}

TEST_CASE("table: a backend keeps its tensors in memory of its own where its device does") {
  for (const char* name : {"ref", "avx2", "avx512", "onednn"}) {
    CHECK(backend_named(name).device().host);
    CHECK(!backend_named(name).can().own_memory);
  }
  CHECK(backend_named("cuda").can().own_memory);
  CHECK(std::string(backend_named("cuda").device_word()) == "cuda");
}

TEST_CASE("table: a backend serves what it lacks by the ones below it") {
  const std::vector<Shape> shape = {f32({3, 5})};
  const Problem problem{Op::kRelu, {}, 1, 1, shape.data(), shape.data(), nullptr};
  CHECK(std::string(prepare(problem, backend_named("ref")).kernels()) == "ref");
  // oneDNN has no kernel of its own for it, and AVX-512 none that this machine may lack.
  CHECK(std::string(prepare(problem, best_backend()).kernels()) == own_backend().name());
}

TEST_CASE("table: problems that do not fit together are refused before any kernel sees them") {
  CHECK(refusal(Op::kRelu, {f32({4})}, {f32({4})}).empty());
  CHECK(contains(refusal(Op::kRelu, {f32({4})}, {f32({5})}), "output 0 must be [4]"));
  CHECK(contains(refusal(Op::kAdd, {f32({4})}, {f32({4})}), "input 1 is missing"));
  CHECK(contains(refusal(Op::kLinear, {f32({2, 3}), f32({4, 5})}, {f32({2, 4})}), "last dim"));
  CHECK(contains(refusal(Op::kRelu, {f32({-4})}, {f32({-4})}), "negative"));
  CHECK(contains(refusal(Op::kRelu, {f32({1 << 30, 1 << 30})}, {f32({1 << 30, 1 << 30})}), "too large"));
  CHECK(contains(refusal(Op::kRelu, {shape_of(DType::kS8, {4})}, {f32({4})}), "is s8, not f32"));
  CHECK(contains(refusal(Op::kReshape, {f32({4})}, {f32({4})}), "no kernel"));
  const Shape half = shape_of(DType::kBF16, {2, 3});
  CHECK(refusal(Op::kLinear, {half, f32({4, 3})}, {shape_of(DType::kBF16, {2, 4})}).empty());
  CHECK(contains(refusal(Op::kLinear, {f32({2, 3}), f32({4, 3})}, {shape_of(DType::kBF16, {2, 4})}), "not f32"));
  CHECK(contains(refusal(Op::kLinearBackwardWeights, {half, f32({2, 4})}, {f32({4, 3})}), "is f32, not bf16"));
  CHECK(contains(refusal(Op::kCast, {half}, {half}), "between f32 and bf16"));
  const Shape binary16 = shape_of(DType::kF16, {2, 3});
  CHECK(contains(refusal(Op::kRelu, {half}, {binary16}), "cannot be mixed"));
  CHECK(refusal(Op::kLinear, {binary16, shape_of(DType::kF16, {4, 3})}, {f32({2, 4})}).empty());
  CHECK(contains(refusal(Op::kLinear, {f32({2, 3}), shape_of(DType::kF16, {4, 3})}, {f32({2, 4})}), "is f16, not f32"));
  CHECK(contains(refusal(Op::kLinear, {half, shape_of(DType::kF16, {4, 3})}, {f32({2, 4})}), "not f32 or bf16"));
  CHECK(contains(refusal(Op::kCast, {half}, {f32({3, 2})}), "output 0 must be"));
  Attrs attrs;
  attrs.kernel = {3, 3};
  const std::vector<Shape> image = {f32({1, 2, 2, 1}), f32({1, 3, 3, 1})};
  CHECK(contains(refusal(Op::kConv2d, image, {f32({1, 1, 1, 1})}, attrs), "larger than the padded image"));
  attrs.stride = {0, 1};
  CHECK(contains(refusal(Op::kMaxPool, {f32({1, 8, 8, 1})}, {f32({1, 3, 3, 1})}, attrs), "at least 1"));
  attrs = {};
  attrs.rate = 1.0f;
  CHECK(contains(refusal(Op::kDropout, {f32({4})}, {f32({4})}, attrs), "[0, 1)"));
  const Shape pixels = shape_of(DType::kU8, {2, 4, 5, 3}), changes = shape_of(DType::kS32, {2, 6});
  const Shape images = shape_of(DType::kBF16, {2, 4, 5, 3}), table = f32({3, 256}), share = f32({1});
  CHECK(refusal(Op::kAugment, {pixels, changes, table}, {images}).empty());
  CHECK(refusal(Op::kAugment, {pixels, changes, table, pixels, changes, share}, {images}).empty());
  CHECK(contains(refusal(Op::kAugment, {images, changes, table}, {images}), "is bf16, not u8"));
  CHECK(contains(refusal(Op::kAugment, {pixels, shape_of(DType::kS32, {2, 5}), table}, {images}), "must be [2, 6]"));
  CHECK(contains(refusal(Op::kAugment, {pixels, changes, f32({3, 255})}, {images}), "must be [3, 256]"));
  CHECK(contains(refusal(Op::kAugment, {pixels, changes, table, pixels}, {images}), "input 4 is missing"));
  CHECK(contains(refusal(Op::kAugment, {pixels, changes, table}, {f32({2, 4, 5, 1})}), "must be [2, 4, 5, 3]"));
  const Shape large = shape_of(DType::kU8, {1, 1 << 16, 1 << 15, 1});
  CHECK(contains(
      refusal(Op::kAugment, {large, shape_of(DType::kS32, {1, 6}), f32({1, 256})}, {f32({1, 1 << 16, 1 << 15, 1})}),
      "too large"));
  attrs = {};
  attrs.heads = 3;
  CHECK(contains(refusal(Op::kAttention, {f32({1, 2, 12})}, {f32({1, 2, 4})}, attrs), "multiple of heads"));
}

}  // namespace mlx::kernels::test
