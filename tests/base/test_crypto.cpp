// The primitives of encryption against published vectors, and a key for many messages against one for a single one.
#include <doctest/doctest.h>

#include "base/crypto.h"

using namespace mlx;

namespace {

std::string hex(ByteView bytes) {
  return to_hex(bytes);
}

}  // namespace

TEST_CASE("HMAC, HKDF, scrypt, AES-256-GCM and X25519 agree with published vectors") {
  // RFC 4231, test cases 2 and 6 (a key longer than a block).
  CHECK(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?")).hex() ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(Bytes(131, 0xaa), as_bytes("Test Using Larger Than Block-Size Key - Hash Key First")).hex() ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want "), as_bytes("for nothing?")) ==
        hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?")));
  // RFC 5869, A.1 and A.3.
  CHECK(hex(hkdf_sha256(Bytes(22, 0x0b), from_hex("000102030405060708090a0b0c"),
                        as_text(from_hex("f0f1f2f3f4f5f6f7f8f9")), 42)) ==
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  CHECK(hex(hkdf_sha256(Bytes(22, 0x0b), {}, "", 42)) ==
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
  // RFC 7914, section 12: N = 1024, r = 8, p = 16.
  CHECK(
      hex(scrypt(as_bytes("password"), as_bytes("NaCl"), {10, 8, 16}, 64)) ==
      "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b3731622eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d"
      "8360cbdfa2cc0640");
  // The GCM specification's test case 16.
  const Bytes key = from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
  const Bytes nonce = from_hex("cafebabefacedbaddecaf888"),
              additional = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
  const Bytes plain = from_hex(
      "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
      "ba"
      "637b39");
  const Bytes sealed = aes_gcm_seal(key, nonce, additional, plain);
  CHECK(
      hex(ByteView(sealed).subspan(12)) ==
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0a"
      "bcc9f66276fc6ece0f4e1768cddf8853bb2d551b");
  Bytes opened;
  CHECK(aes_gcm_open(key, additional, sealed, opened));
  CHECK(opened == plain);
  CHECK_FALSE(aes_gcm_open(key, {}, sealed, opened));
  CHECK(opened.empty());
  for (std::size_t size = 0; size < 28; ++size) CHECK_FALSE(aes_gcm_open(key, {}, Bytes(size), opened));
  // RFC 7748, 5.2.
  const KeyPair a =
      x25519_pair(Secret(ByteView(from_hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"))));
  const Digest u = Digest::parse("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
  CHECK(hex(*x25519_agree(a.private_key, u)) == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
  CHECK(x25519_agree(a.private_key, Digest{}) == std::nullopt);  // a point of small order
  const KeyPair b = x25519_generate();
  CHECK(*x25519_agree(a.private_key, b.public_key) == *x25519_agree(b.private_key, a.public_key));
}

TEST_CASE("AES-256-GCM: a key that is set up once seals and opens as one that is not") {
  const Bytes key(32, 7), additional(20, 3);
  AesGcm cipher(key);
  for (std::size_t size : {0, 1, 16, 1000, 100'000}) {
    Bytes nonce(12, 0), plain(size);
    nonce[3] = static_cast<std::uint8_t>(size % 251);
    for (std::size_t i = 0; i < size; ++i) plain[i] = static_cast<std::uint8_t>(i * 31);
    Bytes sealed(size + kTagSize), opened(size + 1, 9);
    cipher.seal(nonce, additional, plain, sealed.data());
    const Bytes expected = aes_gcm_seal(key, nonce, additional, plain);
    CHECK(sealed == Bytes(expected.begin() + kNonceSize, expected.end()));
    CHECK(cipher.open(nonce, additional, sealed, opened.data()));
    CHECK(Bytes(opened.begin(), opened.end() - 1) == plain);
    CHECK(opened.back() == 9);  // what is behind stays
    CHECK_FALSE(cipher.open(nonce, {}, sealed, opened.data()));
    CHECK(Bytes(opened.begin(), opened.end() - 1) == Bytes(size, 0));
    sealed[size / 2] ^= 1;
    CHECK_FALSE(cipher.open(nonce, additional, sealed, opened.data()));
    sealed[size / 2] ^= 1;
    CHECK(cipher.open(nonce, additional, sealed, opened.data()));
    nonce[0] = 1;
    CHECK_FALSE(cipher.open(nonce, additional, sealed, opened.data()));
  }
}
