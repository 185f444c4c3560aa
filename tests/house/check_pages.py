"""Every man page is whole: mandoc finds no error in it. (bug: a request in the middle of a text line ended mlx-security(7)
for its readers after a third.) Skipped where mandoc is not installed.

usage: check_pages.py SOURCE_FOLDER BUILD_FOLDER
"""
import glob
import os
import shutil
import subprocess
import sys

if not shutil.which("mandoc"):
    print("skipped: mandoc is not installed")
    sys.exit(77)
pages = sorted(glob.glob(os.path.join(sys.argv[1], "man", "*.[157]")))
found = subprocess.run(["mandoc", "-T", "lint", "-W", "error", *pages], stdout=subprocess.PIPE, text=True).stdout
print(found or f"{len(pages)} pages are whole")
sys.exit(1 if found or not pages else 0)
