// Sources: systemd.service(5), systemd.socket(5), systemd.exec(5), systemd.syntax(7); the Compose Specification;
// KServe's InferenceService, v1beta1.
#include "serve/deployment.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/manifest_text.h"
#include "base/path.h"
#include "base/text.h"

namespace mlx::serve {
namespace {

constexpr const char* kListen = "127.0.0.1:8080";  // the default of --listen
constexpr const char* kUnix = "unix:";
constexpr std::int64_t kToEnd = 5;  // seconds that a server takes to end after its last answer

// The value of --listen among the arguments; `otherwise` if they have none.
std::string listen_of(const std::vector<std::string>& arguments, const std::string& otherwise) {
  std::string out = otherwise;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if ((word == "-l" || word == "--listen") && i + 1 < arguments.size()) out = arguments[++i];
    if (constexpr std::string_view kLong = "--listen="; word.starts_with(kLong)) out = word.substr(kLong.size());
  }
  return out;
}

bool has_option(const std::vector<std::string>& arguments, const std::string& name) {
  return std::ranges::any_of(arguments,
                             [&](const std::string& word) { return word == name || word.starts_with(name + "="); });
}

// A setting's value stands to the end of its line, and % begins a specifier.
std::string unit_value(const char* what, const std::string& text) {
  const bool odd = std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
  if (odd || text.empty() || text.front() == ' ' || text.back() == ' ' || text.back() == '\\')
    fail(ErrorKind::kUsage, "{} '{}': a unit of systemd cannot hold it", what, printable(text));
  std::string out;
  for (const char c : text) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

// A word of a list in double quotes, with the escapes of C; $ begins a variable where the list is a command line.
std::string unit_word(const std::string& word, bool command) {
  check_manifest_text(word);
  std::string out = "\"";
  for (const char c : word) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '%' || (c == '$' && command))
      out += std::string(2, c);
    else if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (code < ' ' || code == 127)
      out += fmt::format("\\x{:02x}", code);
    else
      out += c;
  }
  return out + "\"";
}

std::vector<std::string> command_of(const Deployment& deployment) {
  std::vector<std::string> out{deployment.program, "serve", "--grace", std::to_string(deployment.grace)};
  out.insert(out.end(), deployment.arguments.begin(), deployment.arguments.end());
  return out;
}

std::string port_of(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  const std::string port = listen.starts_with(kUnix) || colon == listen.npos ? "" : listen.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos;
  if (!digits || std::stoi(port) < 1 || std::stoi(port) > 65535)
    fail(ErrorKind::kUsage, "--listen {}: a container needs HOST:PORT with a port from 1 to 65535", printable(listen));
  return port;
}

// Of "HOST:PORT" or "[::1]:PORT".
std::string host_of(const std::string& listen) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

void check_secure(const Deployment& deployment, const std::string& listen) {
  if (has_option(deployment.arguments, "--tls-cert") || has_option(deployment.arguments, "--insecure")) return;
  throw Error(ErrorKind::kUsage, fmt::format("--listen {}: others would reach it, and there is no TLS", listen),
              "add --tls-cert and --tls-key to what stands after --, or --insecure if what is before it does that");
}

// What listens at its own loopback only cannot be reached in a container.
std::string port_of_container(const Deployment& deployment) {
  const std::string listen = listen_of(deployment.arguments, "");
  if (listen.empty() || is_loopback(host_of(listen)))
    throw Error(ErrorKind::kUsage, "in a container the server must listen at its address",
                "add --listen 0.0.0.0:8080 to what stands after --");
  check_secure(deployment, listen);
  return port_of(listen);
}

Json words(const std::vector<std::string>& from) {
  Json out = Json::array();
  for (const std::string& word : from) {
    check_manifest_text(word);
    out.push_back(kubernetes_literal(word));
  }
  return out;
}

Json probe(const Deployment& deployment, const char* path, const std::string& port) {
  const bool tls = has_option(deployment.arguments, "--tls-cert");
  return {{"httpGet", {{"path", path}, {"port", std::stoi(port)}, {"scheme", tls ? "HTTPS" : "HTTP"}}}};
}

// Where a unit that may write nowhere else makes the socket of `path`.
std::string folder_of_socket(const std::string& path) {
  constexpr std::string_view kRun = "/run/";
  const std::size_t end = path.find('/', kRun.size());
  if (path.starts_with(kRun) && end != path.npos)
    return fmt::format("RuntimeDirectory={}\n", unit_value("--listen", path.substr(kRun.size(), end - kRun.size())));
  return fmt::format("ReadWritePaths={}\n", unit_word(parent_path(path), false));
}

}  // namespace

bool is_loopback(const std::string& host) {
  in_addr address{};
  constexpr std::uint32_t kLoopback = 127;
  const bool numeric = ::inet_pton(AF_INET, host.c_str(), &address) == 1;  // a name may begin with "127." too
  return host == "localhost" || host == "::1" || (numeric && ntohl(address.s_addr) >> 24 == kLoopback);
}

std::string systemd_service(const Deployment& deployment) {
  const std::string listen = listen_of(deployment.arguments, kListen);
  const bool unix_socket = listen.starts_with(kUnix);
  if (!unix_socket && !is_loopback(host_of(listen))) check_secure(deployment, listen);
  std::string command;
  for (const std::string& word : command_of(deployment))
    command += (command.empty() ? "" : " ") + unit_word(word, true);
  std::string out = fmt::format(
      "# Written by mlx export systemd.\n[Unit]\nDescription=mlx serve {}\nWants=network-online.target\n"
      "After=network-online.target\n\n[Service]\nType=notify\nWorkingDirectory={}\nExecStart={}\n",
      unit_value("--name", deployment.name), unit_value("the folder", deployment.folder), command);
  if (!deployment.user.empty()) out += fmt::format("User={}\n", unit_value("--user", deployment.user));
  if (deployment.cpus > 0) out += fmt::format("CPUQuota={}%\n", 100 * deployment.cpus);
  if (deployment.memory > 0) out += fmt::format("MemoryMax={}\n", deployment.memory);
  if (unix_socket) out += folder_of_socket(listen.substr(std::string_view(kUnix).size()));
  // Kernels are made while it runs (oneDNN), so memory may become executable.
  out += fmt::format(
      "Restart=on-failure\nRestartSec=1\nTimeoutStopSec={}\nLimitNOFILE=65536\nNoNewPrivileges=yes\nPrivateTmp=yes\n"
      "PrivateDevices=yes\nProtectSystem=strict\nProtectHome=read-only\nReadWritePaths={}\n"
      "ProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectControlGroups=yes\n"
      "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\nRestrictSUIDSGID=yes\nLockPersonality=yes\n\n"
      "[Install]\nWantedBy=multi-user.target\n",
      deployment.grace + kToEnd, unit_word("-" + deployment.folder + "/.mlx", false));
  return out;
}

std::string systemd_socket(const Deployment& deployment) {
  std::string listen = listen_of(deployment.arguments, kListen);
  if (listen.starts_with(kUnix)) listen.erase(0, std::string_view(kUnix).size());
  return fmt::format(
      "# Written by mlx export systemd --socket.\n[Unit]\nDescription=mlx serve {0}\n\n[Socket]\nListenStream={1}\n"
      "SocketMode=0600\n\n[Install]\nWantedBy=sockets.target\n",
      unit_value("--name", deployment.name), unit_value("--listen", listen));
}

std::string compose_file(const Deployment& deployment) {
  check_kubernetes_name("--name", deployment.name);  // which Compose takes too
  const std::string port = port_of_container(deployment);
  Json service = {
      {"image", deployment.image},
      {"entrypoint", words(command_of(deployment))},
      {"working_dir", deployment.mount},
      {"ports", Json::array({port + ":" + port})},
      {"volumes", Json::array({{{"type", "bind"}, {"source", deployment.folder}, {"target", deployment.mount}}})},
      {"read_only", true},
      {"tmpfs", Json::array({"/tmp"})},
      {"cap_drop", Json::array({"ALL"})},
      {"security_opt", Json::array({"no-new-privileges:true"})},
      {"stop_grace_period", fmt::format("{}s", deployment.grace + kToEnd)},
      {"restart", "unless-stopped"}};
  for (const std::string* text : {&deployment.image, &deployment.folder, &deployment.mount}) check_manifest_text(*text);
  for (const char* key : {"image", "working_dir"}) service[key] = kubernetes_literal(service[key].get<std::string>());
  for (const char* key : {"source", "target"})
    service["volumes"][0][key] = kubernetes_literal(service["volumes"][0][key].get<std::string>());
  if (deployment.cpus > 0) service["cpus"] = deployment.cpus;
  if (deployment.memory > 0) service["mem_limit"] = std::to_string(deployment.memory);
  return yaml_text({{"services", {{deployment.name, std::move(service)}}}});
}

std::string kserve_manifest(const Deployment& deployment) {
  check_kubernetes_name("--name", deployment.name);
  if (!deployment.name_space.empty()) check_kubernetes_name("--namespace", deployment.name_space);
  for (const std::string* text : {&deployment.image, &deployment.claim, &deployment.mount}) check_manifest_text(*text);
  const std::string port = port_of_container(deployment);
  std::vector<std::string> arguments = command_of(deployment);
  arguments.erase(arguments.begin());
  Json container = {{"name", "kserve-container"},
                    {"image", deployment.image},
                    {"command", Json::array({kubernetes_literal(deployment.program)})},
                    {"args", words(arguments)},
                    {"workingDir", deployment.mount},
                    {"ports", Json::array({{{"containerPort", std::stoi(port)}, {"protocol", "TCP"}}})},
                    {"readinessProbe", probe(deployment, "/v2/health/ready", port)},
                    {"livenessProbe", probe(deployment, "/v2/health/live", port)},
                    {"securityContext", {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}};
  Json limits = Json::object();
  if (deployment.cpus > 0) limits["cpu"] = std::to_string(deployment.cpus);
  if (deployment.memory > 0) limits["memory"] = std::to_string(deployment.memory);
  if (!limits.empty()) container["resources"] = {{"limits", limits}, {"requests", limits}};
  Json predictor = {{"terminationGracePeriodSeconds", deployment.grace + kToEnd}};
  if (!deployment.claim.empty()) {
    container["volumeMounts"] = Json::array({{{"name", "repository"}, {"mountPath", deployment.mount}}});
    predictor["volumes"] =
        Json::array({{{"name", "repository"}, {"persistentVolumeClaim", {{"claimName", deployment.claim}}}}});
  }
  predictor["containers"] = Json::array({std::move(container)});
  Json metadata = {{"name", deployment.name}};
  if (!deployment.name_space.empty()) metadata["namespace"] = deployment.name_space;
  return yaml_text({{"apiVersion", "serving.kserve.io/v1beta1"},
                    {"kind", "InferenceService"},
                    {"metadata", std::move(metadata)},
                    {"spec", {{"predictor", std::move(predictor)}}}});
}

}  // namespace mlx::serve
