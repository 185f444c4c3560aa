// How wide each layer's weights must be so that a bound on what quantization loses holds: those that lose the most for
// their bytes get the next wider type, and at last stay as they are stored. Used by quantize_text.cpp.
#pragma once

#include <optional>
#include <vector>

#include "compress/layer_by_layer.h"
#include "compress/likeness.h"

namespace mlx::compress {

struct Bound {
  std::optional<double> rise, kl;  // of the perplexity, as a share (0.005: half a per cent); nats a token
  bool wanted() const { return rise || kl; }
  bool holds(const Likeness& likeness) const;
};

struct Widths {
  std::vector<std::size_t> of;  // each layer's width, as with_widths() takes it
  // What the divergence falls by, on calibration data, if the layer alone is one step wider than all others; none if
  // the bound holds with the fewest bits.
  std::vector<double> gains;
  Likeness likeness;
};
// `held_out` decides, `calibration` puts the layers in order. Throws kNo, with what is lost in the widest type, if the
// bound does not hold with any layer quantized.
Widths find_widths(const QuantizedLayers& quantized, const Bound& bound, Comparison& held_out, Comparison& calibration,
                   Pool& pool, Progress& progress);

}  // namespace mlx::compress
