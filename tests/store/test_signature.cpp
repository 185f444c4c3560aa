// Ed25519 in OpenSSH's formats: exchanging keys and signatures with ssh-keygen.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/subprocess.h"
#include "store/crypto/signature.h"

using namespace mlx;
using namespace mlx::store;

TEST_CASE("a signature holds for its message, purpose and key alone") {
  const SigningKey key = generate_signing_key(), other = generate_signing_key();
  const Signature signature = sign(key, "mlx-operation", as_bytes("message"));
  CHECK(verify(key.public_key, "mlx-operation", as_bytes("message"), signature));
  CHECK_FALSE(verify(key.public_key, "mlx-operation", as_bytes("messagf"), signature));
  CHECK_FALSE(verify(key.public_key, "mlx-keys", as_bytes("message"), signature));
  CHECK_FALSE(verify(other.public_key, "mlx-operation", as_bytes("message"), signature));
  Signature flipped = signature;
  flipped.bytes[5] ^= 1;
  CHECK_FALSE(verify(key.public_key, "mlx-operation", as_bytes("message"), flipped));
  CHECK(sign(key, "mlx-operation", as_bytes("message")) == signature);  // RFC 8032: no randomness
}

TEST_CASE("keys and signatures are read back from their texts") {
  const SigningKey key = generate_signing_key();
  CHECK(parse_ssh_public_key(ssh_public_key(key.public_key) + " ada@host\n", "key") == key.public_key);
  const SigningKey again = parse_ssh_private_key(ssh_private_key(key), "key");
  CHECK(again.seed == key.seed);
  CHECK(again.public_key == key.public_key);
  const Signature signature = sign(key, "file", as_bytes("x"));
  const Signed read = parse_armored_signature(armored_signature(key.public_key, "file", signature), "file", "sig");
  CHECK(read.public_key == key.public_key);
  CHECK(read.signature == signature);
  CHECK_THROWS_AS(parse_armored_signature(armored_signature(key.public_key, "file", signature), "git", "sig"), Error);
}

TEST_CASE("texts that are no keys are refused") {
  const std::string good = ssh_public_key(generate_signing_key().public_key);
  for (const std::string& text : {std::string(), std::string("ssh-ed25519"), std::string("ssh-rsa AAAAB3NzaC1yc2E="),
                                  good.substr(0, good.size() - 4), good + "AAAA", std::string("ssh-ed25519 ===")}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_ssh_public_key(text, "key"), Error);
    CHECK_THROWS_AS(parse_ssh_private_key(text, "key"), Error);
  }
  const std::string whole = ssh_private_key(generate_signing_key());
  for (std::size_t cut = 0; cut < whole.size(); cut += 7)
    CHECK_THROWS_AS(parse_ssh_private_key(whole.substr(0, cut), "key"), Error);
}

TEST_CASE("ssh-keygen reads our keys and checks our signatures, and we read and check its own") {
  const TempFolder folder;
  const auto path = [&](const char* name) { return join_path(folder.path(), name); };
  const auto keygen = [&](std::vector<std::string> args, const std::string& input = {}) {
    args.insert(args.begin(), "ssh-keygen");
    return run_process(args, input);
  };
  const SigningKey ours = generate_signing_key();
  write_file_atomically(path("ours"), ssh_private_key(ours));
  REQUIRE(::chmod(path("ours").c_str(), 0600) == 0);
  const ProcessResult shown = keygen({"-y", "-f", path("ours")});
  REQUIRE(shown.exit_code == 0);
  CHECK(parse_ssh_public_key(shown.out, "ours") == ours.public_key);
  const ProcessResult print = keygen({"-l", "-f", path("ours")});
  CHECK(print.out.find(ssh_fingerprint(ours.public_key)) != std::string::npos);

  write_file_atomically(
      path("sig"), armored_signature(ours.public_key, "mlx-operation", sign(ours, "mlx-operation", as_bytes("m"))));
  CHECK(keygen({"-Y", "check-novalidate", "-n", "mlx-operation", "-s", path("sig")}, "m").exit_code == 0);
  CHECK(keygen({"-Y", "check-novalidate", "-n", "mlx-operation", "-s", path("sig")}, "n").exit_code != 0);

  REQUIRE(keygen({"-q", "-t", "ed25519", "-N", "", "-f", path("theirs")}).exit_code == 0);
  const SigningKey theirs = parse_ssh_private_key(read_text(path("theirs")), "theirs");
  CHECK(parse_ssh_public_key(read_text(path("theirs.pub")), "pub") == theirs.public_key);
  write_file_atomically(path("message"), "by ssh");
  REQUIRE(keygen({"-Y", "sign", "-n", "mlx-operation", "-f", path("theirs"), path("message")}).exit_code == 0);
  const Signed made = parse_armored_signature(read_text(path("message.sig")), "mlx-operation", "sig");
  CHECK(made.public_key == theirs.public_key);
  CHECK(verify(made.public_key, "mlx-operation", as_bytes("by ssh"), made.signature));

  REQUIRE(keygen({"-q", "-t", "ed25519", "-N", "secret", "-f", path("locked")}).exit_code == 0);
  CHECK_THROWS_WITH_AS(parse_ssh_private_key(read_text(path("locked")), "locked"),
                       "locked: the key is behind a passphrase", Error);
}
