// The budget of operations.
#include "store/limits.h"

#include "base/bytes.h"
#include "base/error.h"

namespace mlx::store {

void OperationIntake::count(std::uint32_t plain_size, std::size_t stored_size, const char* where) {
  if (plain_size > kMaxOperationSize) {
    fail(ErrorKind::kCorrupt, "{}: an operation of {}, more than the {} that one may have", where,
         format_bytes(plain_size), format_bytes(kMaxOperationSize));
  }
  plain_ += plain_size;
  stored_ += stored_size;
  if (plain_ <= kOperationBudget || plain_ - kOperationBudget <= kOperationRatio * stored_) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: its operations unfold to more than {} from {}", where, format_bytes(kOperationBudget),
                          format_bytes(stored_)),
              "no history does that by itself: look at who can write to the remote");
}

}  // namespace mlx::store
