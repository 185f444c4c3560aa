"""Listens to all packets of an interface, as somebody on the network would: appends their bytes to a file.

usage: listen.py INTERFACE FILE. Prints "ready"; ends with SIGTERM.
"""
import socket
import sys

with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)) as line, open(sys.argv[2], "wb") as out:
    line.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
    line.bind((sys.argv[1], 0))
    print("ready", flush=True)
    while True:
        out.write(line.recv(1 << 16))
        out.flush()
