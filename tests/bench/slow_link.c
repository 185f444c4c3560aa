// slow_link: a line between two network namespaces for kernels without netem. ddp.py compiles and starts it.
//
// usage: slow_link NAME NAME MBIT_PER_SECOND DELAY_MS
//
// Makes two TUN interfaces of these names and carries packets from each to the other: at most so many bits a second in
// each direction, each packet that much later, in order. Packets that would wait more than 200 ms for their turn are
// dropped, as a router would. Prints "ready", and runs until it is killed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { kPackets = 8192, kSize = 2048 };
static const int64_t kLongest = 200000000;  // ns

struct Packet {
  int64_t due;
  int size;
  uint8_t bytes[kSize];
};
struct Direction {
  int from, to;
  int64_t free_at;  // when the line has sent all before
  unsigned first, end;
  struct Packet packets[kPackets];
};

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static int open_tun(const char* name) {
  const int out = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  struct ifreq request;
  memset(&request, 0, sizeof request);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  if (out < 0 || ioctl(out, TUNSETIFF, &request) != 0) {
    perror(name);
    exit(1);
  }
  return out;
}

static void take(struct Direction* line, double ns_per_byte, int64_t delay) {
  for (;;) {
    static uint8_t dropped[kSize];
    const int64_t time = now(), begins = line->free_at > time ? line->free_at : time;
    const int room = line->end - line->first < kPackets && begins - time < kLongest;
    struct Packet* const packet = &line->packets[line->end % kPackets];
    const ssize_t size = read(line->from, room ? packet->bytes : dropped, kSize);
    if (size <= 0) return;
    if (!room) continue;
    line->free_at = begins + (int64_t)((double)size * ns_per_byte);
    packet->due = line->free_at + delay;
    packet->size = (int)size;
    ++line->end;
  }
}

static void give(struct Direction* line) {
  for (; line->first != line->end; ++line->first) {
    const struct Packet* const packet = &line->packets[line->first % kPackets];
    if (packet->due > now()) return;
    if (write(line->to, packet->bytes, (size_t)packet->size) < 0 && errno == EAGAIN) return;
  }
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  static struct Direction lines[2];
  lines[0].from = lines[1].to = open_tun(argv[1]);
  lines[1].from = lines[0].to = open_tun(argv[2]);
  const double ns_per_byte = 8000.0 / atof(argv[3]);
  const int64_t delay = (int64_t)(atof(argv[4]) * 1e6);
  puts("ready");
  fflush(stdout);
  for (;;) {
    int64_t next = now() + 1000000000;
    for (int i = 0; i < 2; ++i) {
      take(&lines[i], ns_per_byte, delay);
      give(&lines[i]);
      if (lines[i].first != lines[i].end && lines[i].packets[lines[i].first % kPackets].due < next)
        next = lines[i].packets[lines[i].first % kPackets].due;
    }
    int64_t wait = next - now();
    if (wait < 20000) wait = 20000;
    const struct timespec time = {wait / 1000000000, wait % 1000000000};
    struct pollfd both[2] = {{lines[0].from, POLLIN, 0}, {lines[1].from, POLLIN, 0}};
    ppoll(both, 2, &time, NULL);
  }
}
