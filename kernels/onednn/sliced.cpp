// See sliced.h.
#include "kernels/onednn/sliced.h"

#include <bit>
#include <utility>

namespace mlx::kernels::onednn {
namespace {

struct Slice {
  Call call;
  std::size_t source = 0, destination = 0, scratchpad = 0;  // offsets in bytes
  bool has_scratchpad = false;
};

struct Sliced {
  std::vector<Slice> slices;
  Call reorder;                      // plain weights → packed
  std::vector<std::int64_t> layout;  // of both: Plan::layout
  int source_input = 0, bias_input = -1;
  bool has_bias = false;
  std::vector<float> own_bias;

  void pack(const void* weights, void* packed) const { reorder.run({weights, packed}); }

  void run(const Args& args, int, int index) const {
    const Slice& slice = slices[static_cast<std::size_t>(index)];
    const char* source = static_cast<const char*>(args.inputs[source_input]) + slice.source;
    const char* destination = static_cast<const char*>(args.outputs[0]) + slice.destination;
    const char* scratchpad = static_cast<const char*>(args.workspace) + slice.scratchpad;
    if (has_bias) {
      const void* bias = own_bias.empty() ? args.inputs[bias_input] : own_bias.data();
      if (slice.has_scratchpad)
        slice.call.run({source, args.packed, destination, bias, scratchpad});
      else
        slice.call.run({source, args.packed, destination, bias});
    } else if (slice.has_scratchpad) {
      slice.call.run({source, args.packed, destination, scratchpad});
    } else {
      slice.call.run({source, args.packed, destination});
    }
  }
};

// Appends everything that distinguishes one blocked layout from another. False for other kinds of layouts, whose
// descriptors oneDNN does not expose.
bool append_layout(const Desc& desc, std::vector<std::int64_t>& to) {
  const dnnl_memory_desc_t& d = desc.data;
  if (d.format_kind != dnnl_blocked) return false;
  const dnnl_blocking_desc_t& blocks = d.format_desc.blocking;
  to.insert(to.end(), {d.ndims, d.data_type, d.offset0, blocks.inner_nblks});
  for (int i = 0; i < d.ndims; ++i)
    to.insert(to.end(), {d.dims[i], d.padded_dims[i], d.padded_offsets[i], blocks.strides[i]});
  for (int i = 0; i < blocks.inner_nblks; ++i) to.insert(to.end(), {blocks.inner_blks[i], blocks.inner_idxs[i]});
  const dnnl_memory_extra_desc_t& extra = d.extra;
  to.push_back(static_cast<std::int64_t>(extra.flags));
  if (extra.flags & dnnl_memory_extra_flag_compensation_conv_s8s8) to.push_back(extra.compensation_mask);
  if (extra.flags & dnnl_memory_extra_flag_scale_adjust) to.push_back(std::bit_cast<std::int32_t>(extra.scale_adjust));
  if (extra.flags & dnnl_memory_extra_flag_compensation_conv_asymmetric_src)
    to.push_back(extra.asymm_compensation_mask);
  return true;
}

Call bind(const dnnl::engine& engine, const Parts& parts, bool has_bias, bool has_scratchpad) {
  const Call::Slot source{parts.source_argument, parts.source}, weights{DNNL_ARG_WEIGHTS, parts.weights};
  const Call::Slot destination{parts.destination_argument, parts.destination};
  const Call::Slot bias{DNNL_ARG_BIAS, parts.bias}, scratchpad{DNNL_ARG_SCRATCHPAD, parts.scratchpad};
  if (has_bias && has_scratchpad) return {engine, parts.primitive, {source, weights, destination, bias, scratchpad}};
  if (has_bias) return {engine, parts.primitive, {source, weights, destination, bias}};
  if (has_scratchpad) return {engine, parts.primitive, {source, weights, destination, scratchpad}};
  return {engine, parts.primitive, {source, weights, destination}};
}

}  // namespace

bool prepare_sliced(const Sliceable& sliceable, Plan& plan) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const Cut& slices = sliceable.slices;
  auto state = std::make_unique<Sliced>();
  state->source_input = sliceable.source_input;
  state->bias_input = sliceable.bias_input;
  state->own_bias = sliceable.own_bias;
  state->has_bias = sliceable.bias_input >= 0 || !sliceable.own_bias.empty();

  const Parts first = sliceable.make(engine, slices.size(0), nullptr);
  const int last_index = slices.count - 1;
  const Parts last = slices.size(last_index) == slices.size(0)
                         ? first
                         : sliceable.make(engine, slices.size(last_index), &first.weights);
  for (const Parts* parts : {&first, &last}) {
    if (parts->implementation.starts_with("ref")) return false;
  }

  std::size_t workspace = 0;
  for (int i = 0; i < slices.count; ++i) {
    const Parts& parts = i == last_index ? last : first;
    Slice slice;
    slice.has_scratchpad = parts.scratchpad.get_size() > 0;
    slice.call = bind(engine, parts, state->has_bias, slice.has_scratchpad);
    slice.source = static_cast<std::size_t>(i) * first.source.get_size();
    slice.destination = static_cast<std::size_t>(i) * first.destination.get_size();
    slice.scratchpad = workspace;
    workspace += round_up(parts.scratchpad.get_size());
    state->slices.push_back(std::move(slice));
  }

  const dnnl::reorder::primitive_desc reorder(engine, sliceable.plain_weights, engine, first.weights);
  state->reorder =
      Call(engine, dnnl::reorder(reorder), {{DNNL_ARG_FROM, sliceable.plain_weights}, {DNNL_ARG_TO, first.weights}});

  if (append_layout(sliceable.plain_weights, state->layout) && append_layout(first.weights, state->layout)) {
    plan.layout = state->layout.data();
    plan.layout_count = static_cast<int>(state->layout.size());
  }
  plan.phases = 1;
  plan.slices[0] = slices.count;
  plan.workspace_bytes = workspace;
  plan.packed_input = sliceable.weights_input;
  plan.packed_bytes = first.weights.get_size();
  give(plan, std::move(state));
  return true;
}

}  // namespace mlx::kernels::onednn
