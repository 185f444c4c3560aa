// See tls.h.
#include "serve/http/tls.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

namespace mlx::serve {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr std::size_t kLargestPem = std::size_t{1} << 20;

boost::asio::const_buffer view_of(const Bytes& bytes) {
  return {bytes.data(), bytes.size()};
}

[[noreturn]] void refuse_pem(const std::string& path, const char* what, const error_code& error) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: no {}: {}", path, what, error.message()),
              "a PEM file is expected; the key belongs to the first certificate");
}

TlsContext make_context(const TlsFiles& files) {
  const Bytes chain = read_regular_file(files.certificate, kLargestPem);
  const Bytes key = read_regular_file(files.key, kLargestPem);
  auto out = std::make_shared<ssl::context>(ssl::context::tlsv13_server);
  ::SSL_CTX_set_num_tickets(out->native_handle(), 0);  // each connection shows its certificate
  error_code error;
  out->use_certificate_chain(view_of(chain), error);
  if (error) refuse_pem(files.certificate, "chain of certificates", error);
  out->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); });
  out->use_private_key(view_of(key), ssl::context::pem, error);
  if (error) refuse_pem(files.key, "key of this certificate", error);
  if (files.client_authority.empty()) return out;
  const Bytes authority = read_regular_file(files.client_authority, kLargestPem);
  out->add_certificate_authority(view_of(authority), error);
  if (error) refuse_pem(files.client_authority, "certificate", error);
  out->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  return out;
}

}  // namespace

Tls::Tls(const TlsFiles& files) : files_(files), read_(stamps()), context_(make_context(files_)) {}

Tls::Stamps Tls::stamps() const {
  Stamps out{};
  const std::string* const paths[] = {&files_.certificate, &files_.key, &files_.client_authority};
  for (std::size_t i = 0; i < out.size(); ++i) {
    struct stat status {};
    if (paths[i]->empty() || ::stat(paths[i]->c_str(), &status) != 0) continue;
    out[i] = {static_cast<std::int64_t>(status.st_ino), status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  }
  return out;
}

TlsContext Tls::context(const std::function<void(const std::string&)>& warn) {
  if (seconds_now() - looked_ < 1) return context_;
  looked_ = seconds_now();
  const Stamps now = stamps();
  if (now == read_) return context_;
  read_ = now;
  try {
    context_ = make_context(files_);
  } catch (const Error& error) {
    if (warn) warn(error.message + "; the certificate that was read before is still used");
  }
  return context_;
}

}  // namespace mlx::serve
