// Every row of the kernel table, of every backend that this machine has, on every case of its operation, against ref:
// values, memory outside, misaligned and shared memory, and that the order in which slices run changes no bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "harness.h"
#include "tests/stride.h"

namespace mlx::kernels::test {
namespace {

// The rows of a backend, without those below it.
struct Rows {
  const char* backend;
  std::vector<Kernel> kernels;
  const Device& device = host_device();
};

// bug: a message held the address of the name, because doctest takes a `const char*` for a pointer.
std::string named(Op op) {
  return name_of(op);
}

std::string title(const Rows& rows, const Case& test) {
  return std::string(rows.backend) + " " + name_of(test.op) + ": " + test.name;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].bytes != b[i].bytes) return false;
  return a.size() == b.size();
}

// The outputs of the first of `rows` that serves the case; none where none does.
std::vector<Tensor> outputs_of(const std::vector<Kernel>& rows, const Case& test) {
  for (const Kernel& kernel : rows) {
    Prepared prepared;
    std::string damage;
    if (kernel.op != test.op || !prepare_case(kernel, test, prepared)) continue;
    return run_case(prepared.plan(), test, {}, damage);
  }
  return {};
}

std::vector<Tensor> reference(const Case& test) {
  static const std::vector<Kernel> rows = ref_kernels();
  return outputs_of(rows, test);
}

// The first element whose bits differ, -1 for none; NaN equals NaN.
std::int64_t first_apart(const Tensor& a, const Tensor& b) {
  if (a.shape.rank < 0) return -1;
  const std::size_t size = size_of(a.shape.dtype);
  for (std::int64_t i = 0; i < a.shape.count(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * size;
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, size) == 0) continue;
    const bool numbers = a.shape.dtype == DType::kF32;
    if (!numbers || !std::isnan(a.data<float>()[i]) || !std::isnan(b.data<float>()[i])) return i;
  }
  return -1;
}

// How many cases each row served: an operation may have several, which differ in how they prepare.
// Off by one element of the widest type: elements themselves are always aligned.
std::size_t misaligned(const Case& test) {
  std::size_t offset = sizeof(float);
  for (const Tensor& input : test.inputs) offset = std::max(offset, size_of(input.shape.dtype));
  for (const Shape& output : test.outputs) offset = std::max(offset, size_of(output.dtype));
  return offset;
}

using Served = std::map<std::pair<Op, bool (*)(const Problem&, Plan&)>, int>;

void check_case(const Rows& rows, const Kernel& kernel, const Case& test, const std::vector<Tensor>& expected,
                Served& served) {
  const Device& device = rows.device;
  Prepared prepared;
  if (!prepare_case(kernel, test, prepared)) return;
  ++served[{kernel.op, kernel.prepare}];
  std::string damage;
  const auto run = [&](RunOptions options) {
    auto outputs = run_case(prepared.plan(), test, options, damage, device);
    CHECK_MESSAGE(damage.empty(), title(rows, test) << ": " << damage);
    return outputs;
  };
  const std::vector<Tensor> outputs = run({});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string wrong = difference(expected[i], outputs[i], tolerance_of(test, i, rows.backend));
    CHECK_MESSAGE(wrong.empty(), title(rows, test) << ", output " << i << ": " << wrong);
  }
  RunOptions options;
  options.reverse = true, options.fill = '\xff';  // workspace full of NaN
  if (!device.host) options.offset = 64;          // nothing on a GPU is less aligned (kernel.h), or cut into slices
  if (device.host || mlx::test::stride() == 1) {  // a GPU's second run takes the same way through its code
    CHECK_MESSAGE(same_bits(outputs, run(options)), title(rows, test)
                                                        << ": depends on the order of slices or on old memory");
  }
  if (device.host) {
    options = {};
    options.offset = misaligned(test);
    CHECK_MESSAGE(same_bits(outputs, run(options)), title(rows, test) << ": depends on alignment");
  }
  if (test.may_share.empty()) return;
  options = {};
  options.share = true;
  CHECK_MESSAGE(same_bits(outputs, run(options)), title(rows, test) << ": wrong in place");
}

void check_rows(const Rows& rows) {
  Served served;
  for (const Case& test : all_cases()) {
    const std::vector<Tensor> expected = reference(test);
    REQUIRE_MESSAGE(!expected.empty(), named(test.op) << ": " << test.name << " is not served by ref");
    for (const Kernel& kernel : rows.kernels)
      if (kernel.op == test.op) check_case(rows, kernel, test, expected, served);
  }
  for (const Kernel& kernel : rows.kernels)
    CHECK_MESSAGE((served[{kernel.op, kernel.prepare}] > 0), std::string(rows.backend)
                                                                 << " " << named(kernel.op) << " served no case");
}

bool has_kernel(Op op) {
  return !row_of(op).view && !row_of(op).collective;
}

bool may_lack(Op op) {
  return !has_kernel(op) || row_of(op).primitive;
}

// That the rows serve every operation that has kernels; of a device, every one that it must have.
void check_complete(const std::vector<Kernel>& kernels, bool device = false) {
  std::map<Op, bool> rows;
  for (const Kernel& kernel : kernels) rows[kernel.op] = true;
  for (int i = 0; i < static_cast<int>(Op::kCount); ++i) {
    const Op op = static_cast<Op>(i);
    CHECK_MESSAGE((rows[op] || (device ? may_lack(op) : !has_kernel(op))), named(op));
  }
}

// And each of its cases: nothing is left to another backend, but caches of fewer bytes than f32.
void check_every_case(const std::vector<Kernel>& kernels) {
  for (const Case& test : all_cases()) {
    const bool small_cache = test.op == Op::kAttentionCached && test.inputs[1].shape.dtype != DType::kF32;
    if (may_lack(test.op) || small_cache) continue;
    const bool served = std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& kernel) {
      Prepared prepared;
      return kernel.op == test.op && prepare_case(kernel, test, prepared);
    });
    CHECK_MESSAGE(served, named(test.op) << ": " << test.name << " is not served");
  }
}

// Whether this machine has the backend; says so where it has not.
bool available(const char* backend) {
  try {
    parse_backend(backend);
    return true;
  } catch (const Error& error) {
    MESSAGE("skipped: " << error.message);
    return false;
  }
}

}  // namespace

TEST_CASE("kernels: ref serves every operation, stays inside its memory and does not depend on the order of slices") {
  check_rows({"ref", ref_kernels()});
  check_complete(ref_kernels());
}

TEST_CASE("kernels: avx2 agrees with ref") {
  if (available("avx2")) check_rows({"avx2", avx2_kernels()});
}

TEST_CASE("kernels: avx512 agrees with ref") {
  if (available("avx512")) check_rows({"avx512", avx512_kernels()});
}

TEST_CASE("kernels: avx2 and avx512 give the same bits, and serve the same problems but for bf16 that is multiplied") {
  if (!available("avx2") || !available("avx512")) return;
  const std::vector<Kernel> two = avx2_kernels(), five = avx512_kernels();
  for (const Case& test : all_cases()) {
    const std::vector<Tensor> a = outputs_of(two, test), b = outputs_of(five, test);
    if (a.empty() && test.inputs[0].shape.dtype == DType::kBF16 && test.op != Op::kCast) continue;
    CHECK_MESSAGE(a.size() == b.size(), named(test.op) << ": " << test.name << " is not served by both");
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
      const std::int64_t apart = first_apart(a[i], b[i]);
      CHECK_MESSAGE(apart < 0, named(test.op) << ": " << test.name << ", output " << i << ", element " << apart);
    }
  }
}

// bug: without oneDNN quantized models were computed by ref, 150 times slower.
TEST_CASE("kernels: avx2 and avx512 serve every quantized layer but grouped convolutions that are not depthwise 3x3") {
  for (const char* backend : {"avx2", "avx512"}) {
    if (!available(backend)) continue;
    for (const Case& test : all_cases()) {
      const DType type = test.inputs[0].shape.dtype;
      if ((type != DType::kU8 && type != DType::kS8) || (test.op != Op::kLinear && test.op != Op::kConv2d)) continue;
      if (test.inputs[0].shape.count() == 0) continue;
      const Shape& w = test.inputs[1].shape;
      const bool depthwise = test.attrs.groups == w.dims[0] && w.dims[1] == 3 && w.dims[3] == 1;
      if (test.op == Op::kConv2d && test.attrs.groups > 1 && !depthwise) continue;
      Prepared prepared;
      const std::vector<Kernel> rows = backend == std::string("avx2") ? avx2_kernels() : avx512_kernels();
      CHECK_MESSAGE(std::any_of(rows.begin(), rows.end(),
                                [&](const Kernel& kernel) {
                                  return kernel.op == test.op && prepare_case(kernel, test, prepared);
                                }),
                    std::string(backend) << " " << named(test.op) << ": " << test.name);
    }
  }
}

TEST_CASE("kernels: onednn agrees with ref") {
  if (available("onednn")) check_rows({"onednn", onednn_kernels()});
}

// Those above have tests of their own, which ctest runs apart by their names ("… agrees with ref",
// tests/CMakeLists.txt).
TEST_CASE("kernels: every other backend of the table gives what ref gives") {
  const std::set<std::string_view> tested = {"ref", "avx2", "avx512", "onednn"};
  for (const std::string_view name : cpu_backend_names())
    if (!tested.contains(name) && available(name.data()))
      check_rows({name.data(), kernels_of(backend_named(name).row())});
}

TEST_CASE("kernels: cuda serves every operation and agrees with ref") {
  std::vector<Kernel> kernels;
  try {
    kernels = cuda_kernels();
  } catch (const Error& error) {
    MESSAGE("skipped: " << error.message);
    return;
  }
  check_rows({"cuda", kernels, cuda_device()});
  check_complete(kernels, true);
  check_every_case(kernels);
}

// The sources of the kernels for CUDA, run on the host (kernels/cuda_emulation): indices, barriers and formulas are
// those that a GPU runs, speed and rounding of its functions are not.
TEST_CASE("kernels: cuda, emulated, serves every operation and agrees with ref") {
  const CudaTable emulated = emulated_cuda();
  check_rows({"cuda", emulated.kernels, emulated.device});
  check_complete(emulated.kernels, true);
  check_every_case(emulated.kernels);
}

}  // namespace mlx::kernels::test
