// Reference image augmentation from bytes: table lookup, mirroring, shifting, erasing, mixing (image_change.h).
#include "kernels/image_change.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

struct Images {
  const void* pixels;
  const void* changes;
};

// One element of the changed image `n`.
float changed(const Geometry& g, const Images& from, const float* table, std::int64_t n, std::int64_t row,
              std::int64_t column, std::int64_t channel) {
  const ImageChange& change = static_cast<const ImageChange*>(from.changes)[n];
  const std::int64_t below = row - change.top, behind = column - change.left;
  if (below >= 0 && below < change.erase && behind >= 0 && behind < change.erase) return 0.0f;
  const std::int64_t y = row - change.down, moved = column - change.right;
  const std::int64_t x = change.flip != 0 ? g.w - 1 - moved : moved;
  const bool inside = y >= 0 && y < g.h && x >= 0 && x < g.w;
  const std::int64_t at = ((n * g.h + y) * g.w + x) * g.c + channel;
  const std::uint8_t value = inside ? static_cast<const std::uint8_t*>(from.pixels)[at] : std::uint8_t{0};
  return table[channel * kPixelValues + value];
}

// Sliced by row of the output. A mixed element is two products and their sum, each rounded: the same bits as
// src/data/kinds/loader.cpp computes on a CPU.
void augment(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Geometry& g = s.g;
  const Images own{args.inputs[0], args.inputs[1]};
  const Images partner = g.has_input[3] ? Images{args.inputs[3], args.inputs[4]} : Images{};
  const float* const table = f32_in(&s, args, 2);
  const float share = partner.pixels ? f32_in(&s, args, 5)[0] : 1.0f, rest = 1 - share;
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t n = r / g.h, row = r % g.h;
    for (std::int64_t i = 0; i < g.w * g.c; ++i) {
      float value = changed(g, own, table, n, row, i / g.c, i % g.c);
      if (partner.pixels) {
        const float mine = share * value, theirs = rest * changed(g, partner, table, n, row, i / g.c, i % g.c);
        value = mine + theirs;
      }
      store_real(args.outputs[0], g.y_type, r * g.w * g.c + i, double{value});
    }
  }
}

}  // namespace

bool prepare_augment(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, augment, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, s->g.n * s->g.h, s->g.count * 5);
  return true;
}

}  // namespace mlx::kernels::ref
