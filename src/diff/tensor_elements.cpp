// Over the table of types (formats/array_types.h).
#include "diff/tensor_elements.h"

#include "formats/array_types.h"

namespace mlx::diff {

std::size_t element_size(std::string_view dtype) {
  const formats::ArrayType* const type = formats::array_type_of_dtype(dtype);
  return type ? type->size : 0;
}

void decode_elements(std::string_view dtype, ByteView bytes, double* out) {
  const formats::ArrayType* const type = formats::array_type_of_dtype(dtype);
  if (!type) return;
  formats::with_element(type->element, [&]<typename T>() {
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i)
      out[i] = static_cast<double>(formats::load_element<T>(bytes.data() + i * sizeof(T)));
  });
}

std::string dtype_of_npy(std::string_view descr) {
  const formats::ArrayType* const type = formats::array_type_of_descr(descr);
  return std::string(type ? type->dtype : descr);
}

}  // namespace mlx::diff
