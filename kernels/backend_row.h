// A row of the table of backends. Used by backend.cpp, which has the table, and table.cpp, which chooses kernels.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/geometry.h"
#include "kernels/kernel.h"

namespace mlx::kernels {

struct BackendRow {
  const char* name;
  const char* device_word;             // of --device
  const char* below;                   // name of the backend that serves what this one does not; null if there is none
  std::vector<Kernel> (*kernels)();    // its own kernels; called once, if there is no problem
  std::string (*problem)();            // why this machine cannot use it; "" if it can
  const char* remedy;                  // a hint for the user if there is a problem
  const Device& (*device)(int index);  // throws kMissing if there is none
  std::vector<std::string> (*devices)();  // devices_of()
  std::string (*bf16_problem)();          // bf16_problem()
  std::string (*hardware)();              // hardware_of()
  std::string (*defect)();                // defect_of()
  std::string (*description)();           // description_of()
  const char* library;                    // the name in library_of(); null if there is none
  std::string (*library_version)();
  // The problems that its kernels solve faster than those of the backends above it. Null if there are none.
  bool (*is_faster)(const Problem& problem, const Geometry& geometry);
  bool portable;  // its f32 has the same bits on every machine
  Capabilities can;
};

const BackendRow* row_below(const BackendRow& row);            // null if there is none
const std::vector<Kernel>& kernels_of(const BackendRow& row);  // none if this machine cannot use them

// The functions in the rows.
std::vector<Kernel> ref_kernels();
std::vector<Kernel> avx2_kernels();  // simd_rows.cpp
std::vector<Kernel> avx512_kernels();
bool avx512_is_faster(const Problem& problem, const Geometry& geometry);
std::vector<Kernel>
onednn_kernels();                     // opens lib/mlx/mlx_onednn.so relative to the executable; none where it cannot be
std::string onednn_module_problem();  // why it cannot be used; "" if it can
std::string onednn_version();         // "" if it cannot be used
std::vector<Kernel> cuda_kernels();   // opens lib/mlx/mlx_cuda.so likewise; kMissing where there is no GPU to use

}  // namespace mlx::kernels
