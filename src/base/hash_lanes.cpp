// The compression function of FIPS 180-4 (6.2.2) with the SHA instructions of x86-64, for one stream and for two in
// turns. State stays in the two registers that sha256rnds2 works on.
#include "base/hash_lanes.h"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace mlx {
namespace {

// Fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::array<std::uint32_t, 4> kFirstAbef = {0x9b05688c, 0x510e527f, 0xbb67ae85, 0x6a09e667};
constexpr std::array<std::uint32_t, 4> kFirstCdgh = {0x5be0cd19, 0x1f83d9ab, 0xa54ff53a, 0x3c6ef372};

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}
const bool kHasSha = has_sha_instructions();

#define MLX_SHA __attribute__((target("sha,sse4.1,ssse3")))

// One stream in registers while it goes through blocks. Words four at a time: w holds the last sixteen.
struct Registers {
  __m128i abef, cdgh, w[4];
};

MLX_SHA inline __attribute__((always_inline)) void load_words(Registers& r, int group, const std::uint8_t* block) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  r.w[group] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block) + group), big_endian);
}

// Rounds 4 group … 4 group + 3.
MLX_SHA inline __attribute__((always_inline)) void four_rounds(Registers& r, int group) {
  __m128i words = _mm_add_epi32(r.w[group % 4], _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds) + group));
  r.cdgh = _mm_sha256rnds2_epu32(r.cdgh, r.abef, words);
  r.abef = _mm_sha256rnds2_epu32(r.abef, r.cdgh, _mm_shuffle_epi32(words, 0x0e));
}

// The next four words of the schedule, in place of the oldest.
MLX_SHA inline __attribute__((always_inline)) void extend(Registers& r, int group) {
  __m128i& oldest = r.w[(group + 1) % 4];
  __m128i seven_back = _mm_alignr_epi8(r.w[group % 4], r.w[(group + 3) % 4], 4);
  oldest = _mm_add_epi32(_mm_sha256msg1_epu32(oldest, r.w[(group + 2) % 4]), seven_back);
  oldest = _mm_sha256msg2_epu32(oldest, r.w[group % 4]);
}

template <std::size_t kStreams>
MLX_SHA void compress(std::array<std::uint32_t*, kStreams> abef, std::array<std::uint32_t*, kStreams> cdgh,
                      std::array<const std::uint8_t*, kStreams> data, std::size_t blocks) {
  Registers r[kStreams];
  for (std::size_t s = 0; s < kStreams; ++s) {
    r[s].abef = _mm_loadu_si128(reinterpret_cast<const __m128i*>(abef[s]));
    r[s].cdgh = _mm_loadu_si128(reinterpret_cast<const __m128i*>(cdgh[s]));
  }
  for (; blocks > 0; --blocks) {
    __m128i before[kStreams][2];
    for (std::size_t s = 0; s < kStreams; ++s) {
      before[s][0] = r[s].abef;
      before[s][1] = r[s].cdgh;
    }
#pragma GCC unroll 16
    for (int group = 0; group < 16; ++group) {
#pragma GCC unroll 2
      for (std::size_t s = 0; s < kStreams; ++s) {
        if (group < 4) load_words(r[s], group, data[s]);
        four_rounds(r[s], group);
        if (group >= 3 && group < 15) extend(r[s], group);
      }
    }
    for (std::size_t s = 0; s < kStreams; ++s) {
      r[s].abef = _mm_add_epi32(r[s].abef, before[s][0]);
      r[s].cdgh = _mm_add_epi32(r[s].cdgh, before[s][1]);
      data[s] += 64;
    }
  }
  for (std::size_t s = 0; s < kStreams; ++s) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(abef[s]), r[s].abef);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(cdgh[s]), r[s].cdgh);
  }
}

}  // namespace

// A stream and the whole blocks of its piece that are not hashed yet.
class Lane {
 public:
  std::size_t blocks() const { return left_.size() / 64; }

  // Takes up a piece. Bytes that fill no block go to the stream's rest: those at its begin now, those at its end in
  // finish().
  void begin(LaneHash& stream, ByteView piece) {
    stream_ = &stream;
    left_ = piece;
    stream.total_ += piece.size();
    if (stream.rest_size_ == 0) return;
    fill_rest();
    if (stream.rest_size_ < 64) return;
    compress<1>({stream.abef_.data()}, {stream.cdgh_.data()}, {stream.rest_.data()}, 1);
    stream.rest_size_ = 0;
  }
  void finish() { fill_rest(); }

  void run(std::size_t blocks) {
    compress<1>({stream_->abef_.data()}, {stream_->cdgh_.data()}, {left_.data()}, blocks);
    left_ = left_.subspan(64 * blocks);
  }
  static void run_both(Lane& a, Lane& b, std::size_t blocks) {
    compress<2>({a.stream_->abef_.data(), b.stream_->abef_.data()}, {a.stream_->cdgh_.data(), b.stream_->cdgh_.data()},
                {a.left_.data(), b.left_.data()}, blocks);
    a.left_ = a.left_.subspan(64 * blocks);
    b.left_ = b.left_.subspan(64 * blocks);
  }

 private:
  void fill_rest() {
    std::size_t count = std::min(left_.size(), 64 - stream_->rest_size_);
    std::copy_n(left_.data(), count, stream_->rest_.data() + stream_->rest_size_);
    stream_->rest_size_ += count;
    left_ = left_.subspan(count);
  }
  LaneHash* stream_ = nullptr;
  ByteView left_;
};

LaneHash::LaneHash() : abef_(kFirstAbef), cdgh_(kFirstCdgh), rest_{} {
  if (!kHasSha) fallback_.emplace();
}

Digest LaneHash::finish() {
  if (fallback_) return fallback_->finish();
  // A 1 bit, zeros, and the length in bits at the end of a block.
  std::array<std::uint8_t, 128> end{};
  std::copy_n(rest_.begin(), rest_size_, end.begin());
  end[rest_size_] = 0x80;
  std::size_t blocks = rest_size_ < 56 ? 1 : 2;
  for (std::size_t i = 0; i < 8; ++i) end[64 * blocks - 1 - i] = static_cast<std::uint8_t>((total_ * 8) >> (8 * i));
  compress<1>({abef_.data()}, {cdgh_.data()}, {end.data()}, blocks);
  const std::uint32_t words[8] = {abef_[3], abef_[2], cdgh_[3], cdgh_[2], abef_[1], abef_[0], cdgh_[1], cdgh_[0]};
  Digest digest;
  for (std::size_t i = 0; i < 32; ++i) digest.bytes[i] = static_cast<std::uint8_t>(words[i / 4] >> (24 - 8 * (i % 4)));
  *this = LaneHash();
  return digest;
}

void update_lanes(std::span<LaneHash* const> streams, std::span<const ByteView> pieces) {
  CHECK(streams.size() == pieces.size());
  if (!kHasSha) {
    for (std::size_t i = 0; i < streams.size(); ++i) streams[i]->fallback_->update(pieces[i]);
    return;
  }
  std::size_t next = 0;
  // True while the lane has blocks to do.
  auto supply = [&](Lane& lane, bool& busy) {
    while (lane.blocks() == 0) {
      if (busy) lane.finish();
      busy = next < streams.size();
      if (!busy) return false;
      lane.begin(*streams[next], pieces[next]);
      ++next;
    }
    return true;
  };
  Lane a, b;
  bool busy_a = false, busy_b = false;
  for (;;) {
    const bool more_a = supply(a, busy_a), more_b = supply(b, busy_b);
    if (more_a && more_b)
      Lane::run_both(a, b, std::min(a.blocks(), b.blocks()));
    else if (more_a)
      a.run(a.blocks());
    else if (more_b)
      b.run(b.blocks());
    else
      return;
  }
}

}  // namespace mlx
