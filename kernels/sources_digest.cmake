# Writes a header that defines NAME as the SHA-256 over every source in FOLDERS (names, then contents, in a fixed order),
# and their CMakeLists.txt, which has the flags of instruction sets: what can change a result.
set(patterns "")
foreach(folder ${FOLDERS})
  list(APPEND patterns ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.inc
       ${ROOT}/${folder}/CMakeLists.txt)
endforeach()
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${patterns})
list(FILTER sources EXCLUDE REGEX "^kernels/cuda_emulation/")  # for tests only
list(SORT sources)
set(all "")
foreach(source ${sources})
  file(SHA256 ${ROOT}/${source} digest)
  string(APPEND all "${source} ${digest}\n")
endforeach()
string(SHA256 digest "${all}")
list(JOIN FOLDERS " " names)
file(WRITE ${OUT} "// Made by kernels/sources_digest.cmake of: ${names}\n#pragma once\n#define ${NAME} \"${digest}\"\n")
