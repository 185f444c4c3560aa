"""Looks for a secret where it must not be: command lines and environments of all processes, and files.

usage: find_secret.py FOLDER... <SECRET. Prints where it is, in any form; exits with 1 if it is anywhere. Files that cannot be
read any more have ended.
"""
import base64
import glob
import os
import stat
import sys

secret = sys.stdin.buffer.read()
forms = [secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret).rstrip(b"=")]
files = glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ")
for folder in sys.argv[1:]:
    for place, _, names in os.walk(folder):
        files += [os.path.join(place, name) for name in names]
found = read = 0
for name in files:
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            continue
        with open(name, "rb") as file:
            content = file.read()
    except OSError:
        continue
    read += 1
    if any(form in content for form in forms):
        print(name)
        found += 1
if len(secret) < 16 or read < 20:
    print(f"{len(secret)} bytes looked for in {read} files")
    found += 1
sys.exit(1 if found else 0)
