// The table of backends. The CPU's features are queried once and modules are opened once; both are kept until the
// process ends.
#include "kernels/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "base/error.h"
#include "kernels/backend_row.h"
#include "kernels/cpu.h"

namespace mlx::kernels {
namespace {

constexpr const char* kUseBest = "leave MLX_KERNELS unset for the best this machine has";

std::string nothing() {
  return {};
}

std::string problem_of_avx2() {
  return cpu().avx2 ? "" : "this CPU lacks AVX2 or FMA, or the OS does not enable them";
}

std::string problem_of_avx512() {
  return cpu().avx512 ? "" : "this CPU lacks AVX-512 with VNNI and BF16, or the OS does not enable it";
}

std::string problem_of_onednn() {
  return cpu().avx2 ? onednn_module_problem() : problem_of_avx2();
}

std::string defect_of_onednn() {
  return cpu().avx2 ? onednn_module_problem() : "";
}

std::string defect_of_cuda() {
  return cuda_is_unusable() ? cuda_description() : "";
}

std::string problem_of_cuda() {
  return cuda_state() == CudaState::kUsable ? "" : cuda_description();
}

const Device& host(int) {
  return host_device();
}

std::vector<std::string> the_host() {
  return {"host " + isa_name()};
}

// Best last. A new backend is a file of kernels and a row.
const BackendRow kRows[] = {
    {.name = "ref",
     .device_word = "cpu",
     .kernels = ref_kernels,
     .problem = nothing,
     .device = host,
     .devices = the_host,
     .bf16_problem = nothing,
     .hardware = isa_name,
     .defect = nothing,
     .description = isa_name,
     .can = {.tiles_batches = true, .independent_rows = true}},
    {.name = "avx2",
     .device_word = "cpu",
     .below = "ref",
     .kernels = avx2_kernels,
     .problem = problem_of_avx2,
     .remedy = kUseBest,
     .device = host,
     .devices = the_host,
     .bf16_problem = [] { return std::string("the kernels 'avx2' have no products of bf16, oneDNN's have them all"); },
     .hardware = isa_name,
     .defect = nothing,
     .description = isa_name,
     .portable = true,
     .can = {.tiles_batches = true, .independent_rows = true}},
    {.name = "avx512",
     .device_word = "cpu",
     .below = "avx2",
     .kernels = avx512_kernels,
     .problem = problem_of_avx512,
     .remedy = kUseBest,
     .device = host,
     .devices = the_host,
     .bf16_problem =
         [] {
           return std::string(
               "the kernels 'avx512' have no products of bf16 but for linear layers, oneDNN's have them all");
         },
     .hardware = isa_name,
     .defect = nothing,
     .description = isa_name,
     .is_faster = avx512_is_faster,
     .portable = true,
     .can = {.tiles_batches = true, .independent_rows = true}},
    {.name = "onednn",
     .device_word = "cpu",
     .below = "avx512",
     .kernels = onednn_kernels,
     .problem = problem_of_onednn,
     .remedy = "install mlx whole (lib/mlx beside its executable), or use MLX_KERNELS=avx512, avx2 or ref",
     .device = host,
     .devices = the_host,
     .bf16_problem =
         [] {
           return std::string(cpu().avx512 ? "" : "this CPU lacks AVX512_BF16, or the OS does not enable AVX-512");
         },
     .hardware = isa_name,
     .defect = defect_of_onednn,
     .description = isa_name,
     .library = "onednn",
     .library_version = onednn_version,
     .can = {.tiles_batches = true}},
    // Nothing is below it; primitive operations without a kernel run on the host.
    {.name = "cuda",
     .device_word = "cuda",
     .kernels = cuda_kernels,
     .problem = problem_of_cuda,
     .device = cuda_device,
     .devices = cuda_gpus,
     .bf16_problem = nothing,
     .hardware = [] { return fmt::format("{}; host {}", cuda_description(), isa_name()); },
     .defect = defect_of_cuda,
     .description = cuda_description,
     .can = {.own_memory = true,
             .updates_together = true,
             .augments_images = true,
             .adds_in_norms = true,
             .gelu_in_linear = true,
             .multiplies_tf32 = true,
             .multiplies_f16 = true,
             .prefers_bf16 = true,
             .reads_half_weights = true,
             .half_throughout = true}},
};

const BackendRow& row_named(std::string_view name) {
  const auto* const row =
      std::ranges::find(kRows, name, [](const BackendRow& each) { return std::string_view(each.name); });
  CHECK(row != std::end(kRows));
  return *row;
}

bool is_of_cpu(const BackendRow& row) {
  return !row.can.own_memory;
}

Backend find_best() {
  const auto usable = [](const BackendRow& row) { return is_of_cpu(row) && row.problem().empty(); };
  const BackendRow* best = std::end(kRows) - 1;
  while (!usable(*best)) --best;  // ref is always usable
  return Backend(*best);
}

}  // namespace

const BackendRow* row_below(const BackendRow& row) {
  return row.below ? &row_named(row.below) : nullptr;
}

const std::vector<Kernel>& kernels_of(const BackendRow& row) {
  static std::array<std::vector<Kernel>, std::size(kRows)> kernels;
  static std::array<std::once_flag, std::size(kRows)> asked;
  const auto at = static_cast<std::size_t>(&row - kRows);
  std::call_once(asked[at], [&] {
    if (row.problem().empty()) kernels[at] = row.kernels();
  });
  return kernels[at];
}

const char* Backend::name() const {
  return row_->name;
}

const char* Backend::device_word() const {
  return row_->device_word;
}

const Device& Backend::device() const {
  return row_->device(index_);
}

const Capabilities& Backend::can() const {
  return row_->can;
}

Backend best_backend() {
  static const Backend best = find_best();
  return best;
}

std::vector<std::string_view> cpu_backend_names() {
  std::vector<std::string_view> names;
  for (const BackendRow& row : kRows)
    if (is_of_cpu(row)) names.emplace_back(row.name);
  return names;
}

Backend parse_backend(const std::string& name) {
  if (name.empty()) return best_backend();
  const std::vector<std::string_view> names = cpu_backend_names();
  if (std::ranges::find(names, name) == names.end())
    throw Error(ErrorKind::kUsage, fmt::format("unknown kernels '{}'", name),
                fmt::format("MLX_KERNELS is one of {}", fmt::join(names, ", ")));
  const BackendRow& row = row_named(name);
  if (const std::string problem = row.problem(); !problem.empty())
    throw Error(ErrorKind::kMissing, fmt::format("kernels '{}': {}", name, problem), row.remedy);
  return Backend(row);
}

std::vector<Backend> all_backends() {
  std::vector<Backend> all;
  for (const BackendRow& row : kRows) all.emplace_back(row);
  return all;
}

std::vector<std::string_view> device_words() {
  std::vector<std::string_view> words;
  for (const BackendRow& row : kRows)
    if (std::ranges::find(words, row.device_word) == words.end()) words.emplace_back(row.device_word);
  return words;
}

Backend backend_on(std::string_view device_word) {
  const BackendRow* last = nullptr;
  for (const BackendRow& row : kRows)
    if (row.device_word == device_word && (!last || row.problem().empty())) last = &row;
  CHECK(last);
  const Backend backend(*last);
  backend.device();
  return backend;
}

Backend cuda_backend(int index) {
  const Backend backend(row_named("cuda"), index);
  backend.device();
  return backend;
}

std::vector<std::string> devices_of(const Backend& backend) {
  return backend.row().devices();
}

Backend on_device(const Backend& backend, int index) {
  return Backend(backend.row(), index);
}

Backend backend_named(std::string_view name) {
  return Backend(row_named(name));
}

Backend portable_backend(const Backend& wanted) {
  if (wanted.can().own_memory)
    throw Error(ErrorKind::kUsage, "portable numerics are those of CPUs, not of a GPU",
                "train with --device cpu, or with native numerics");
  std::string problem;
  for (const BackendRow* row = &wanted.row(); row; row = row_below(*row)) {
    if (!row->portable) continue;
    problem = row->problem();
    if (problem.empty()) return Backend(*row);
  }
  if (problem.empty())
    throw Error(ErrorKind::kUsage,
                fmt::format("portable numerics are those of kernels 'avx2' and 'avx512', not '{}'", wanted.name()),
                "leave MLX_KERNELS unset, or set it to avx2 or avx512");
  throw Error(ErrorKind::kMissing, "portable numerics: " + problem,
              "train on a machine that has them, or with native numerics");
}

std::string problem_of(const Backend& backend) {
  return backend.row().problem();
}

std::string bf16_problem(const Backend& backend) {
  return backend.row().bf16_problem();
}

std::string hardware_of(const Backend& backend) {
  return backend.row().hardware();
}

std::string defect_of(const Backend& backend) {
  return backend.row().defect();
}

std::string description_of(const Backend& backend) {
  return backend.row().description();
}

std::optional<Library> library_of(const Backend& backend) {
  const BackendRow& row = backend.row();
  if (!row.library) return std::nullopt;
  return Library{row.library, row.library_version()};
}

}  // namespace mlx::kernels
