// Running and comparing (harness.h).
#include "harness.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/module.h"
#include "kernels/half.h"

namespace mlx::kernels::test {
namespace {

constexpr std::size_t kGuard = 256;
constexpr char kCanary = '\x5a';

// `size` bytes at an address that misses 64-byte alignment by `offset`, with canaries on both sides; on a device that
// is not the host with a copy there.
class Guarded {
 public:
  Guarded(std::size_t size, std::size_t offset, char fill, const Device& device)
      : size_(size), storage_(size + 2 * kGuard + 128, kCanary), device_(device) {
    auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    address = (address + 63) / 64 * 64 + offset;
    data_ = reinterpret_cast<char*>(address);
    if (size > 0) std::memset(data_, fill, size);
    if (!device.host) copy_ = static_cast<char*>(device.allocate(storage_.size() + 64));
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() {
    if (copy_) device_.release(copy_);
  }
  char* data() const { return data_; }
  // Where the kernel finds it; as far from alignment as data().
  char* there() const {
    const auto skew = reinterpret_cast<std::uintptr_t>(storage_.data()) % 64;
    return copy_ ? copy_ + skew + (data_ - storage_.data()) : data_;
  }
  void send() {
    if (copy_) device_.upload(there() - (data_ - storage_.data()), storage_.data(), storage_.size());
  }
  void fetch() {
    if (copy_) device_.download(storage_.data(), there() - (data_ - storage_.data()), storage_.size());
  }
  std::string damage() const {
    for (const char* at = storage_.data(); at < data_; ++at)
      if (*at != kCanary) return fmt::format("{} bytes before its first", data_ - at);
    for (const char* at = data_ + size_; at < storage_.data() + storage_.size(); ++at)
      if (*at != kCanary) return fmt::format("{} bytes after its last", at - (data_ + size_) + 1);
    return {};
  }

 private:
  std::size_t size_;
  std::vector<char> storage_;
  const Device& device_;
  char* data_ = nullptr;
  char* copy_ = nullptr;
};

std::uint64_t next(std::uint64_t& state) {  // SplitMix64 (Steele et al. 2014)
  std::uint64_t z = (state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void note(std::string& damage, const Guarded& memory, const std::string& what) {
  const std::string found = memory.damage();
  if (damage.empty() && !found.empty()) damage = what + ": " + found;
}

double value_at(const Tensor& tensor, std::int64_t i) {
  switch (tensor.shape.dtype) {
    case DType::kF32:
      return tensor.data<float>()[i];
    case DType::kBF16:
      return widen(tensor.data<BF16>()[i]);
    case DType::kF16:
      return widen(tensor.data<F16>()[i]);
    case DType::kS32:
      return tensor.data<std::int32_t>()[i];
    case DType::kU8:
      return tensor.data<std::uint8_t>()[i];
    case DType::kS8:
      return tensor.data<std::int8_t>()[i];
    case DType::kI64:
      return static_cast<double>(tensor.data<std::int64_t>()[i]);
  }
  return 0.0;
}

}  // namespace

CudaTable emulated_cuda() {
  Module module = open_module("mlx_cuda_emulated.so");
  const auto rows = reinterpret_cast<const Kernel* (*)(int*)>(module.symbol("mlx_cuda_kernels"));
  const auto device = reinterpret_cast<const Device* (*)(int)>(module.symbol("mlx_cuda_device"));
  if (!rows || !device || !device(0)) fail(ErrorKind::kMissing, "the emulated GPU: {}", module.problem);
  int count = 0;
  const Kernel* first = rows(&count);
  return {{first, first + count}, *device(0)};
}

Shape shape_of(DType dtype, std::vector<std::int64_t> dims) {
  Shape shape;
  shape.dtype = dtype;
  shape.rank = static_cast<int>(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) shape.dims[i] = dims[i];
  return shape;
}

Tensor zeros(DType dtype, std::vector<std::int64_t> dims) {
  Tensor tensor{shape_of(dtype, std::move(dims)), {}};
  tensor.bytes.resize(tensor.shape.bytes());
  return tensor;
}

Tensor absent() {
  Tensor tensor;
  tensor.shape.rank = -1;
  return tensor;
}

Tensor uniform(std::vector<std::int64_t> dims, float low, float high, std::uint64_t seed) {
  Tensor tensor = zeros(DType::kF32, std::move(dims));
  for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
    tensor.data<float>()[i] = low + (high - low) * static_cast<float>(next(seed) >> 40) * 0x1p-24f;
  return tensor;
}

Tensor integers(DType dtype, std::vector<std::int64_t> dims, int low, int high, std::uint64_t seed) {
  Tensor tensor = zeros(dtype, std::move(dims));
  for (std::int64_t i = 0; i < tensor.shape.count(); ++i) {
    const int value = low + static_cast<int>(next(seed) % static_cast<std::uint64_t>(high - low + 1));
    if (dtype == DType::kS32) tensor.data<std::int32_t>()[i] = value;
    if (dtype == DType::kU8) tensor.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
    if (dtype == DType::kS8) tensor.data<std::int8_t>()[i] = static_cast<std::int8_t>(value);
  }
  return tensor;
}

Tensor scalar(float value) {
  Tensor tensor = zeros(DType::kF32, {1});
  tensor.data<float>()[0] = value;
  return tensor;
}

Tensor stored(const Tensor& f32, DType dtype) {
  if (dtype == DType::kF32) return f32;
  Tensor tensor{f32.shape, {}};
  tensor.shape.dtype = dtype;
  tensor.bytes.resize(tensor.shape.bytes());
  for (std::int64_t i = 0; i < tensor.shape.count(); ++i) {
    const float x = f32.data<float>()[i];
    if (dtype == DType::kBF16)
      tensor.data<BF16>()[i] = to_bf16(x);
    else
      tensor.data<F16>()[i] = to_f16(x);
  }
  return tensor;
}

bool prepare_case(const Kernel& kernel, const Case& test, Prepared& prepared) {
  std::vector<Shape> inputs;
  std::vector<const void*> constants(test.inputs.size(), nullptr);
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.push_back(test.inputs[i].shape);
    if (test.constants && i > 0 && !test.inputs[i].absent()) constants[i] = test.inputs[i].bytes.data();
  }
  Problem problem;
  problem.op = test.op;
  problem.attrs = test.attrs;
  problem.input_count = static_cast<int>(inputs.size());
  problem.output_count = static_cast<int>(test.outputs.size());
  problem.inputs = inputs.data();
  problem.outputs = test.outputs.data();
  problem.constants = constants.data();
  Plan plan;
  const bool served = kernel.prepare(problem, plan);
  prepared = Prepared(plan, "of the test");
  return served;
}

std::vector<Tensor> run_case(const Plan& plan, const Case& test, const RunOptions& options, std::string& damage,
                             const Device& device) {
  std::vector<std::unique_ptr<Guarded>> inputs, outputs;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (const Tensor& tensor : test.inputs) {
    inputs.push_back(std::make_unique<Guarded>(tensor.bytes.size(), options.offset, options.fill, device));
    if (!tensor.bytes.empty()) std::memcpy(inputs.back()->data(), tensor.bytes.data(), tensor.bytes.size());
    input_pointers.push_back(tensor.absent() ? nullptr : inputs.back()->there());
  }
  for (const Shape& shape : test.outputs) {
    outputs.push_back(
        std::make_unique<Guarded>(shape.rank < 0 ? 0 : shape.bytes(), options.offset, options.fill, device));
    output_pointers.push_back(shape.rank < 0 ? nullptr : outputs.back()->there());
  }
  std::vector<const char*> results_at;  // on the host
  for (std::size_t i = 0; i < outputs.size(); ++i)
    results_at.push_back(output_pointers[i] ? outputs[i]->data() : nullptr);
  const auto share = [&](const std::vector<std::pair<int, int>>& pairs) {
    for (const auto& [in, out] : pairs) {
      output_pointers[static_cast<std::size_t>(out)] = inputs[static_cast<std::size_t>(in)]->there();
      results_at[static_cast<std::size_t>(out)] = inputs[static_cast<std::size_t>(in)]->data();
    }
  };
  share(test.shared);
  if (options.share) share(test.may_share);
  Guarded workspace(plan.workspace_bytes, 0, options.fill, device), packed(plan.packed_bytes, 0, options.fill, device);
  Guarded key(sizeof(RandomKey), 0, 0, device);
  const RandomKey random{test.seed, test.step};
  std::memcpy(key.data(), &random, sizeof random);
  const auto each = [&](auto what) {
    for (const auto& memory : inputs) what(*memory);
    for (const auto& memory : outputs) what(*memory);
    for (Guarded* memory : {&workspace, &packed, &key}) what(*memory);
  };
  each([](Guarded& memory) { memory.send(); });
  Args args;
  args.inputs = input_pointers.data();
  args.outputs = output_pointers.data();
  args.workspace = workspace.there();
  args.seed = test.seed, args.step = test.step;
  args.key = reinterpret_cast<const RandomKey*>(key.there());
  args.stream = device.stream;
  if (plan.packed_input >= 0) {
    plan.pack(plan.state, input_pointers[static_cast<std::size_t>(plan.packed_input)],
              plan.packed_scales < 0 ? nullptr : input_pointers[static_cast<std::size_t>(plan.packed_scales)],
              packed.data());
    args.packed = packed.data();
  }
  for (int phase = 0; phase < plan.phases; ++phase) {
    const int slices = plan.slices[static_cast<std::size_t>(phase)];
    for (int i = 0; i < slices; ++i) plan.run(plan.state, args, phase, options.reverse ? slices - 1 - i : i);
  }
  each([](Guarded& memory) { memory.fetch(); });
  damage.clear();
  if (const char* problem = device.wait()) damage = problem;
  note(damage, workspace, "workspace");
  note(damage, packed, "packed weights");
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    note(damage, *outputs[i], fmt::format("output {}", i));
    Tensor tensor{test.outputs[i], {}};
    const char* from = results_at[i];
    if (from) tensor.bytes.assign(from, from + test.outputs[i].bytes());
    results.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    note(damage, *inputs[i], fmt::format("input {}", i));
    bool shared = false;
    for (const auto& pairs : {test.shared, options.share ? test.may_share : std::vector<std::pair<int, int>>{}})
      for (const auto& pair : pairs) shared = shared || pair.first == static_cast<int>(i);
    const std::vector<char>& before = test.inputs[i].bytes;
    if (!shared && !before.empty() && std::memcmp(inputs[i]->data(), before.data(), before.size()) != 0 &&
        damage.empty())
      damage = fmt::format("input {} was changed", i);
  }
  return results;
}

namespace {

// What two neighbours in half precision are apart at most. Where a sum lies near the middle between them either is
// right; exact operations have no tolerance at all. bf16 has 7 bits behind the first, f16 has 10, and steps of 2^-24
// below its normal numbers.
double step(DType dtype, double value) {
  if (dtype == DType::kBF16) return 0x1p-7 * std::fabs(value);
  return dtype == DType::kF16 ? std::fmax(0x1p-10 * std::fabs(value), 0x1p-24) : 0.0;
}

}  // namespace

std::string difference(const Tensor& expected, const Tensor& got, Tolerance tolerance) {
  if (expected.absent()) return {};
  const std::int64_t count = expected.shape.count();
  double squares = 0.0, finite = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = value_at(expected, i);
    if (std::isfinite(value)) squares += value * value, finite += 1.0;
  }
  const double rms = finite > 0.0 ? std::sqrt(squares / finite) : 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double want = value_at(expected, i), have = value_at(got, i);
    if (!std::isfinite(want) || !std::isfinite(have)) {
      if (std::isfinite(want) == std::isfinite(have)) continue;
      return fmt::format("element {} of {}: {} instead of {}", i, count, have, want);
    }
    double allowed = tolerance.relative * std::fabs(want) + tolerance.scaled * rms;
    if (allowed > 0.0) allowed += step(expected.shape.dtype, want);
    if (expected.shape.dtype == DType::kS32) allowed = 0.0;
    if (expected.shape.dtype == DType::kU8 || expected.shape.dtype == DType::kS8)
      allowed = tolerance.scaled > 0.0 ? 1.0 : 0.0;
    if (std::fabs(have - want) > allowed)
      return fmt::format("element {} of {}: {} instead of {}, allowed {}", i, count, have, want, allowed);
  }
  return {};
}

// f32 has 2^-24 = 6e-8 of relative rounding error. Sums of a few hundred terms lose up to about 1e-6 of the size of
// their terms; what is allowed is several times what was measured, and far below what a wrong formula or a lost term
// would give.
Tolerance tolerance_of(const Case& test, std::size_t output, std::string_view backend) {
  if (backend == "ref") return {};  // the oracle equals itself
  // ref rounds factors to 2^-11, others may cut them to 2^-10, which shrinks all products alike, or take them whole:
  // errors of the terms that add up like the terms themselves.
  if (test.attrs.tf32) return {2e-3, 4e-3};
  // The weights of attention and their gradients count rounded to what is stored, each wrong by up to half a step of
  // its own. Where most, forward results are apart by 0.7 steps of the tensor's size; backward, where the first keys
  // have the largest sums, by 2.6.
  const DType stored = test.outputs[output].dtype;
  const double step = stored == DType::kBF16 ? 0x1p-7 : 0x1p-10;
  if (test.op == Op::kAttention && is_half(stored)) return {0.0, 2.0 * step};
  if (test.op == Op::kAttentionBackward && is_half(stored)) return {0.0, 6.0 * step};
  const bool sum = (test.op == Op::kLayerNorm && output == 3) || (test.op == Op::kRmsNorm && output == 2);
  if (sum) return {};  // of x and a residual, rounded once
  switch (test.op) {
    case Op::kLinear:
      // NVIDIA's library states no accuracy for its gelu; the tanh of the hardware is off by up to 2^-11 (PTX ISA,
      // tanh.approx), which counts where x is a few units.
      if (backend == "cuda" && test.attrs.activation == Activation::kGelu && is_half(stored) && output == 0)
        return {1e-5, 1e-3};
      return {1e-5, 1e-5};
    case Op::kLinearBackwardData:
      // The same tanh counts up to 6 times what it is off by in the gradient of gelu, at x near 3.
      if (backend == "cuda" && test.attrs.activation == Activation::kGelu && is_half(stored)) return {4e-3, 4e-3};
      return {1e-5, 1e-5};
    case Op::kRelu:
    case Op::kReluBackward:
    case Op::kRelu6:
    case Op::kRelu6Backward:
    case Op::kAdd:
    case Op::kAddPositions:
    case Op::kMaxPool:
    case Op::kDropout:
    case Op::kDropoutBackward:
    case Op::kEmbedding:
    case Op::kDequantize:
    case Op::kCast:
    case Op::kGradientScale:
    case Op::kAugment:
    case Op::kTranspose:
    case Op::kArithmetic:
    case Op::kLinearGroups:
    case Op::kLinearBlocks:
    case Op::kEmbeddingBlocks:
      return {};  // one rounding or none: the bits agree
    case Op::kAvgPoolBackward:
      return {1e-6, 0.0};  // one division
    case Op::kQuantize:
      return {0.0, 1e-9};  // one step: division in f32 may fall on the other side of a half
    case Op::kGelu:
    case Op::kGeluBackward:
    case Op::kGeluErf:
    case Op::kSoftCap:
    case Op::kSoftCapBackward:
    case Op::kSoftmax:
      return {1e-5, 2e-6};  // exp to 1.5 ulp, of an argument that carries an ulp of up to 1e2
    case Op::kSgd:
    case Op::kAdamW:
    case Op::kLion:
    case Op::kMuonDirection:
    case Op::kScaledAdd:
    case Op::kAccumulate:
      return {2e-6, 1e-6};  // a handful of roundings, cancellation in w - change
    case Op::kNorm:
    case Op::kReduce:
      return {1e-6, 0.0};  // added in double in another order, rounded once
    case Op::kAddPositionsBackward:
    case Op::kEmbeddingBackward:
    case Op::kMaxPoolBackward:
      return {1e-6, 1e-6};  // short sums in f32
    case Op::kBatchNorm:
    case Op::kBatchNormBackward:
    case Op::kBatchNormInference:
    case Op::kBatchNormStatistics:
    case Op::kBatchNormSynchronised:
    case Op::kBatchNormGradientSums:
    case Op::kBatchNormSynchronisedBackward:
    case Op::kLayerNorm:
    case Op::kLayerNormBackward:
      return {2e-5, 1e-5};  // x - mean cancels; the same error is scaled by 1/std
    default:
      return {1e-5, 1e-5};  // dot products of hundreds of terms in f32
  }
}

}  // namespace mlx::kernels::test
