// bench_serve: a load generator. Keeps a number of connections busy with one request for some seconds, then prints
// latencies and rate as JSON. usage: bench_serve --url http://HOST:PORT (--model NAME --request FILE | --get PATH)
// [--seconds S] [--connections N] [--rate R]
//
// With --rate requests come at R a second, at times of a Poisson process that no answer delays, and a latency begins
// when its request was due; without, each connection asks again when it has its answer.
//
// One thread with poll(2), so that it takes little CPU time from a server on the same machine. Any answer but 200 is an
// error.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

namespace {

using mlx::ErrorKind;
using mlx::seconds_now;

struct Client {
  mlx::Fd fd;
  std::string received;
  double sent_at = 0;
  bool waits = false;  // for its answer
};

std::map<std::string, std::string> parse_args(int argc, char** argv) {
  std::map<std::string, std::string> args = {{"--seconds", "3"}, {"--connections", "1"}};
  for (int i = 1; i + 1 < argc; i += 2) args[argv[i]] = argv[i + 1];
  const std::vector<const char*> needed = args.contains("--get")
                                              ? std::vector<const char*>{"--url"}
                                              : std::vector<const char*>{"--url", "--model", "--request"};
  for (const char* name : needed)
    if (!args.contains(name)) mlx::fail(ErrorKind::kUsage, "bench_serve: {} is missing", name);
  return args;
}

std::string request_of(std::map<std::string, std::string>& args) {
  if (args.contains("--get")) return fmt::format("GET {} HTTP/1.1\r\nHost: bench\r\n\r\n", args["--get"]);
  const std::string body = mlx::read_text(args["--request"]);
  return fmt::format(
      "POST /v2/models/{}/infer HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n{}",
      args["--model"], body.size(), body);
}

sockaddr_in parse_url(const std::string& url) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const std::size_t colon = url.rfind(':');
  const std::string host = url.starts_with("http://") && colon > 7 ? url.substr(7, colon - 7) : "";
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    mlx::fail(ErrorKind::kUsage, "bench_serve: --url {}: expected http://ADDRESS:PORT", url);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(url.c_str() + colon + 1)));
  return address;
}

mlx::Fd connect_to(const sockaddr_in& address) {
  mlx::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    mlx::fail_errno(errno, "server", "connect to it");
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void send_request(Client& client, const std::string& request) {
  client.received.clear();
  client.sent_at = seconds_now();
  client.waits = true;
  mlx::write_all(client.fd.get(), mlx::as_bytes(request), "server");
}

// Reads what has arrived; true once the answer is complete.
bool receive(Client& client) {
  char buffer[16384];
  const ssize_t count = ::read(client.fd.get(), buffer, sizeof buffer);
  if (count <= 0) mlx::fail(ErrorKind::kIo, "bench_serve: the server closed the connection");
  client.received.append(buffer, static_cast<std::size_t>(count));
  const std::size_t head = client.received.find("\r\n\r\n");
  if (head == std::string::npos) return false;
  const std::size_t length = client.received.find("Content-Length: ");
  if (length == std::string::npos || length > head)
    mlx::fail(ErrorKind::kIo, "bench_serve: an answer without Content-Length");
  return client.received.size() >=
         head + 4 + static_cast<std::size_t>(std::atol(client.received.c_str() + length + 16));
}

struct Outcome {
  std::vector<double> latencies;
  std::size_t errors = 0;
  double seconds = 0;
};

Outcome load(const sockaddr_in& address, const std::string& request, int connections, double seconds) {
  std::vector<Client> clients(static_cast<std::size_t>(connections));
  std::vector<pollfd> polled;
  for (Client& client : clients) {
    client.fd = connect_to(address);
    polled.push_back({client.fd.get(), POLLIN, 0});
    send_request(client, request);
  }
  Outcome out;
  const double started = seconds_now(), warm = started + 0.2, end = warm + seconds;
  for (double now = started; now < end;) {
    if (::poll(polled.data(), polled.size(), 10000) <= 0)
      mlx::fail(ErrorKind::kIo, "bench_serve: no answer for 10 seconds");
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (polled[i].revents == 0 || !receive(clients[i])) continue;
      now = seconds_now();
      if (!clients[i].received.starts_with("HTTP/1.1 200 ")) ++out.errors;
      if (clients[i].sent_at >= warm) out.latencies.push_back(now - clients[i].sent_at);
      send_request(clients[i], request);
    }
  }
  out.seconds = seconds_now() - warm;
  std::ranges::sort(out.latencies);
  return out;
}

// Requests that are due wait for a free connection.
Outcome load_at_rate(const sockaddr_in& address, const std::string& request, int connections, double seconds,
                     double rate) {
  std::vector<Client> clients(static_cast<std::size_t>(connections));
  std::vector<pollfd> polled;
  for (Client& client : clients) {
    client.fd = connect_to(address);
    polled.push_back({client.fd.get(), POLLIN, 0});
  }
  Outcome out;
  std::mt19937_64 random(7);
  std::exponential_distribution<double> gap(rate);
  const double started = seconds_now(), warm = started + 0.2, end = warm + seconds;
  double due = started;
  for (double now = started; now < end; now = seconds_now()) {
    for (Client& client : clients) {
      if (client.waits || due > now) continue;
      send_request(client, request);
      client.sent_at = due;
      due += gap(random);
    }
    const double wait = std::max(0.0, due - seconds_now());
    const timespec time{0, static_cast<long>(1e9 * std::min(wait, 0.5))};
    const bool busy = std::ranges::all_of(clients, [](const Client& client) { return client.waits; });
    if (::ppoll(polled.data(), polled.size(), busy ? nullptr : &time, nullptr) <= 0) continue;
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (polled[i].revents == 0 || !receive(clients[i])) continue;
      clients[i].waits = false;
      if (!clients[i].received.starts_with("HTTP/1.1 200 ")) ++out.errors;
      if (clients[i].sent_at >= warm) out.latencies.push_back(seconds_now() - clients[i].sent_at);
    }
  }
  out.seconds = seconds_now() - warm;
  std::ranges::sort(out.latencies);
  return out;
}

double quantile_ms(const Outcome& outcome, double q) {
  if (outcome.latencies.empty()) return 0;
  const double last = static_cast<double>(outcome.latencies.size() - 1);
  return 1e3 * outcome.latencies[static_cast<std::size_t>(q * last + 0.5)];
}

}  // namespace

int main(int argc, char** argv) {
  try {
    auto args = parse_args(argc, argv);
    const std::string request = request_of(args);
    const int connections = std::clamp(std::atoi(args["--connections"].c_str()), 1, 1000);
    const double seconds = std::atof(args["--seconds"].c_str()), rate = std::atof(args["--rate"].c_str());
    const sockaddr_in address = parse_url(args["--url"]);
    const Outcome outcome = rate > 0 ? load_at_rate(address, request, connections, seconds, rate)
                                     : load(address, request, connections, seconds);
    fmt::print(
        "{{\"connections\":{},\"requests\":{},\"errors\":{},\"requests_per_second\":{:.1f},\"p50_ms\":{:.4f},\"p99_"
        "ms\":{:.4f}}}\n",
        connections, outcome.latencies.size(), outcome.errors,
        static_cast<double>(outcome.latencies.size()) / outcome.seconds, quantile_ms(outcome, 0.5),
        quantile_ms(outcome, 0.99));
    return outcome.errors == 0 ? 0 : 1;
  } catch (const mlx::Error& error) {
    fmt::print(stderr, "{}\n", error.message);
    return static_cast<int>(error.kind);
  }
}
