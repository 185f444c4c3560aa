// The first phase copies the inputs and the last one the outputs; the phases between are the host kernel's (on_host.h).
#include "kernels/on_host.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"

namespace mlx::kernels {
namespace {

constexpr std::size_t kAlignment = 64;

struct HostRun {
  Prepared kernel;
  const Device* device;
  std::vector<std::size_t> input_bytes, output_bytes;
  std::vector<char> memory;  // for everything below
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void *workspace = nullptr, *packed = nullptr;
};

std::size_t bytes_of(const Shape& shape) {
  return shape.rank < 0 ? 0 : shape.bytes();
}

// Lays out everything in one block of memory, each part aligned for kernels.
void lay_out(const Problem& problem, HostRun& run) {
  std::vector<std::size_t> offsets;
  std::size_t end = 0;
  const auto add = [&](std::size_t bytes) {
    offsets.push_back(end);
    end += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  for (int i = 0; i < problem.input_count; ++i) add(run.input_bytes.emplace_back(bytes_of(problem.inputs[i])));
  for (int i = 0; i < problem.output_count; ++i) add(run.output_bytes.emplace_back(bytes_of(problem.outputs[i])));
  add(run.kernel.plan().workspace_bytes);
  add(run.kernel.plan().packed_bytes);
  run.memory.resize(end + kAlignment);
  const auto begin = reinterpret_cast<std::uintptr_t>(run.memory.data());
  char* const first = run.memory.data() + (kAlignment - begin % kAlignment) % kAlignment;
  std::size_t at = 0;
  for (int i = 0; i < problem.input_count; ++i, ++at)
    run.inputs.push_back(problem.inputs[i].rank < 0 ? nullptr : first + offsets[at]);
  for (int i = 0; i < problem.output_count; ++i, ++at)
    run.outputs.push_back(problem.outputs[i].rank < 0 ? nullptr : first + offsets[at]);
  run.workspace = first + offsets[at];
  run.packed = first + offsets[at + 1];
}

void fetch_inputs(const HostRun& run, const Args& args) {
  for (std::size_t i = 0; i < run.inputs.size(); ++i)
    if (run.input_bytes[i] > 0)
      run.device->download(const_cast<void*>(run.inputs[i]), args.inputs[i], run.input_bytes[i]);
  const Plan& plan = run.kernel.plan();
  if (plan.packed_input >= 0)
    plan.pack(plan.state, run.inputs[static_cast<std::size_t>(plan.packed_input)],
              plan.packed_scales < 0 ? nullptr : run.inputs[static_cast<std::size_t>(plan.packed_scales)], run.packed);
}

void send_outputs(const HostRun& run, const Args& args) {
  for (std::size_t i = 0; i < run.outputs.size(); ++i)
    if (run.output_bytes[i] > 0 && args.outputs[i])
      run.device->upload(args.outputs[i], run.outputs[i], run.output_bytes[i]);
}

void run_phase(const void* state, const Args& args, int phase, int slice) {
  const auto& run = *static_cast<const HostRun*>(state);
  const Plan& plan = run.kernel.plan();
  if (phase == 0) return fetch_inputs(run, args);
  if (phase == plan.phases + 1) return send_outputs(run, args);
  Args here = args;
  here.inputs = run.inputs.data();
  here.outputs = run.outputs.data();
  here.workspace = run.workspace;
  here.packed = run.packed;
  plan.run(plan.state, here, phase - 1, slice);
}

}  // namespace

Prepared prepare_on_host(const Problem& problem, Prepared host, const Device& device) {
  const int phases = host.plan().phases;
  if (phases + 2 > kMaxPhases)
    fail(ErrorKind::kUsage, "{} has too many phases to run on the host", name_of(problem.op));
  auto run = std::make_unique<HostRun>();
  run->kernel = std::move(host);
  run->device = &device;
  lay_out(problem, *run);
  Plan plan;
  plan.phases = phases + 2;
  for (std::size_t i = 0; i < static_cast<std::size_t>(phases); ++i) plan.slices[i + 1] = run->kernel.plan().slices[i];
  plan.run = run_phase;
  plan.visits_host = true;
  plan.destroy = [](void* state) { delete static_cast<HostRun*>(state); };
  const char* const kernels = run->kernel.kernels();
  plan.state = run.release();
  return {plan, kernels};
}

}  // namespace mlx::kernels
