// What other tools write and import reads: pointers of Git LFS, .dvc files, manifests of folders of DVC.
#include "base/path.h"
#include "formats/dvc.h"
#include "formats/lfs_pointer.h"
#include "fuzz.h"

using namespace mlx;
using namespace mlx::formats;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text({data, size});
  fuzz::errors_are_fine([&] {
    const std::optional<LfsPointer> pointer = parse_lfs_pointer(text, "file");
    if (pointer) fuzz::require(encode_lfs_pointer(*pointer) == text, "a pointer is written as it was read");
  });
  fuzz::errors_are_fine([&] {
    for (const DvcOut& out : parse_dvc_file(text, "file").outs)
      fuzz::require(out.md5.size() == 32 && !out.path.empty(), "an out has a path and an MD5");
  });
  fuzz::errors_are_fine([&] {
    for (const DvcDirEntry& entry : parse_dvc_dir(text, "file"))
      fuzz::require(is_safe_relative(entry.path) && entry.md5.size() == 32, "files lie in the folder");
  });
  return 0;
}
