// Dynamic loss scaling for training in f16 (Micikevicius et al. 2018, "Mixed Precision Training"). Gradients are
// multiplied by a scale, so that small ones do not underflow f16. If one of them is not finite, the step is skipped and
// the scale is halved; after a long run of good steps it is doubled. Used by the kernels of kGradientScale and by the
// code that starts a training.
#pragma once

namespace mlx::kernels {

inline constexpr float kFirstLossScale = 65536.0f, kMostLossScale = 16777216.0f;
inline constexpr float kGoodSteps = 2000.0f;  // successive good steps until the scale is doubled

// State "loss_scale" f32[2].
struct LossScale {
  float scale = 1.0f, good = 0.0f;  // good: steps since the scale was last changed
};

// The result of kGradientScale for gradients that are already scaled.
struct GradientScale {
  float factor = 1.0f, norm = 0.0f, taken = 1.0f;
  LossScale next;
};

// `norm` is that of the scaled gradients; `clip` 0 disables clipping (Pascanu et al. 2013). Without `dynamic`, `state`
// is {1, 0} and no step is skipped.
constexpr GradientScale gradient_scale(float norm, float clip, LossScale state, bool dynamic) {
  GradientScale out;
  out.norm = norm / state.scale;
  const bool finite = norm - norm == 0.0f;
  if (dynamic && !finite) {
    constexpr float kNaN = __builtin_nanf("");
    out.factor = out.taken = kNaN;
    out.next = {state.scale / 2, 0.0f};
    return out;
  }
  out.factor = (clip > 0.0f && out.norm > clip ? clip / out.norm : 1.0f) / state.scale;
  out.next = {state.scale, state.good + 1.0f};
  if (out.next.good >= kGoodSteps) {
    const float doubled = 2 * state.scale;
    out.next = {doubled < kMostLossScale ? doubled : kMostLossScale, 0.0f};
  }
  return out;
}

}  // namespace mlx::kernels
