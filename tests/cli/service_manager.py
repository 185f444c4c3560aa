"""Starts a server as a service manager does: with sockets that listen already, and one on which it tells its state.

usage: service_manager.py PORT|PATH COMMAND... A request must be answered at the socket before READY=1, after it, and a
SIGTERM must give STOPPING=1 and exit status 0. Prints the states. Of "file" and "two" in the place of the port, a
descriptor that is no socket and two sockets, it prints the exit status of the command.
"""
import os
import signal
import socket
import sys
import tempfile
import time
import urllib.request

FIRST = 3


def listeners(place):
    if place == "file":
        return [open(os.devnull)]
    if place.startswith("/"):
        one = socket.socket(socket.AF_UNIX)
        one.bind(place)
        one.listen()
        return [one]
    return [socket.create_server(("127.0.0.1", 0)) for _ in range(2 if place == "two" else 1)]


def start(command, given, notify):
    child = os.fork()
    if child:
        return child
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)), NOTIFY_SOCKET=notify)
    moved = [os.dup2(one.fileno(), 100 + i) for i, one in enumerate(given)]
    for i, descriptor in enumerate(moved):
        os.dup2(descriptor, FIRST + i, inheritable=True)
    os.execvp(command[0], command)


def ready(place, listener):
    """The status of the health path; the connection waits until the server is there."""
    if not place.startswith("/"):
        with urllib.request.urlopen(f"http://127.0.0.1:{listener.getsockname()[1]}/v2/health/ready", timeout=60) as answer:
            return answer.status
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(60)
        line.connect(place)
        line.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return int(line.recv(100).split()[1])


def main():
    place, command = sys.argv[1], sys.argv[2:]
    given = listeners(place)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as states:
        states.bind(folder + "/notify")
        states.settimeout(60)
        child = start(command, given, folder + "/notify")
        if place in ("file", "two"):
            return print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        status = ready(place, given[0])
        print(status, states.recv(100).decode())
        os.kill(child, signal.SIGTERM)
        begun = time.monotonic()
        print(states.recv(100).decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert time.monotonic() - begun < 30
        with socket.socket(given[0].family) as again:  # it is the manager's still
            again.connect(given[0].getsockname())


main()
