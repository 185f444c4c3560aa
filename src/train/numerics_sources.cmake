# Writes a header with the SHA-256 over every source that can change a result, in a fixed order (names, then contents).
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/kernels/*.cpp ${ROOT}/kernels/*.cu ${ROOT}/kernels/*.h
     ${ROOT}/src/graph/*.cpp ${ROOT}/src/graph/*.h ${ROOT}/src/nn/*.cpp ${ROOT}/src/nn/*.h ${ROOT}/src/data/*.cpp ${ROOT}/src/data/*.h
     ${ROOT}/src/train/*.cpp ${ROOT}/src/train/*.h)
list(FILTER sources EXCLUDE REGEX "^kernels/cuda_emulation/")  # for tests only
list(SORT sources)
set(all "")
foreach(source ${sources})
  file(SHA256 ${ROOT}/${source} digest)
  string(APPEND all "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
file(WRITE ${OUT} "// Made by src/train/numerics_sources.cmake.\n#pragma once\n#define MLX_NUMERICS_SOURCES \"${digest}\"\n")
