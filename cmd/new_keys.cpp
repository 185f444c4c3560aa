// A new ring has one member: a passphrase, or the recipient that is named.
#include "cmd/new_keys.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "cmd/unlock.h"
#include "registry/keys/keys.h"

namespace mlx::cmd {

std::vector<Option> new_keys_options(NewKeysOptions& options) {
  return {
      option("--passphrase-file", "FILE", options.passphrase_file,
             "With --encrypt: a file with the passphrase that only you can read; - is stdin", Complete::kFile),
      option("--recipient", "KEY", options.recipient,
             "With --encrypt: a public key, or a file with one, instead of a passphrase", Complete::kFile),
  };
}

std::string read_public_key(const std::string& text_or_file) {
  if (text_or_file.starts_with("mlx-key-") || !path_exists(text_or_file)) return text_or_file;
  return read_text(text_or_file);
}

bool make_keys_where_missing(registry::Keys& keys, const NewKeysOptions& options, Context& context) {
  keys.set_unlocker(make_unlocker(context, options.passphrase_file));
  if (keys.exist()) return false;
  const std::int64_t now = unix_micros();
  store::Member member;
  if (!options.recipient.empty()) {
    member = store::recipient_member(store::parse_public_key(read_public_key(options.recipient)), "first", now);
  } else {
    const Secret passphrase = first_passphrase(context.environment(), options.passphrase_file, "the repository's keys");
    member = store::passphrase_member(passphrase, "passphrase", {}, now);
  }
  keys.create(store::make_keys(member, now));
  return true;
}

}  // namespace mlx::cmd
