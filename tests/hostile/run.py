"""Carries out the attacks of attacks.py, content.py, trees.py and shapes.py with an mlx, over every kind of remote, and says which
got through.

usage: run.py MLX FOLDER [WORDS]      FOLDER: an empty one to work in; WORDS: only attacks whose names contain them, "all"
Most attacks take turns in the kinds of remotes; with WORDS each is tried in all of them. MLX_TEST_STRIDE=N,
without WORDS: every N-th attack. An mlx with the address sanitizer takes memory of its own, which is not asked for then.

Of each it is asked that `mlx clone`, `mlx fetch --all` and `mlx pull` end within TIME with an exit status of REFUSALS, an
error of at most three lines without control characters, and within MEMORY; that the clone and its history are then as
before, whole, and no byte that is not the honest one can be read; and that nothing was written elsewhere.
"""
import hashlib
import os
import pickle
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import attacks
import content  # noqa: F401
import remotes
import shapes  # noqa: F401
import trees   # noqa: F401

TIME = 10            # seconds of a processor
PATIENCE = 100       # seconds until it is ended: the machine may have other work
MEMORY = 250 << 10   # KiB
ADDRESSES = 8 << 30  # bytes; ends what would take the machine down
REFUSALS = (3, 4, 5, 6, 7, 8)  # mlx(1): not there, conflict, refused, corrupt, failed, versions that do not fit
WORKERS = 2
VICTIMS = ("plain", "people", "until", "lazy")
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Ran:
    command: str
    code: int
    out: bytes
    err: bytes
    memory: int
    seconds: float


class Place:
    """A folder with a remote of each shape and victims that cloned it; worked in by one thread at a time."""

    def __init__(self, mlx, folder, number, world, s3):
        self.mlx, self.folder, self.world, self.s3 = mlx, os.path.join(folder, str(number)), world, s3
        self.instrumented = is_instrumented(mlx)
        self.prefix = f"place{number}"
        self.before = {}  # (shape, victim) → state
        os.makedirs(self.at("home"))
        os.makedirs(self.at("out"))
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.at("home"), "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "AWS_REGION": "eu-test-1",
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{s3.port}", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_MAX_ATTEMPTS": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        self.urls = {"folder": self.at("remote"), "ssh": f"ssh://{self.prefix}/x", "s3": f"s3://bucket/{self.prefix}"}

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, *words, cwd=None):
        with open(self.at("out", "out"), "wb") as out, open(self.at("out", "err"), "wb") as err:
            child = subprocess.Popen([self.mlx, *words], cwd=cwd or self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=err)
            if not self.instrumented:
                resource.prlimit(child.pid, resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
            timer = threading.Timer(PATIENCE, child.kill)
            timer.start()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)  # so that nobody waits for it again
            timer.cancel()
        with open(self.at("out", "out"), "rb") as out, open(self.at("out", "err"), "rb") as err:
            return Ran("mlx " + " ".join(words), child.returncode, out.read(), err.read(65536),
                       0 if self.instrumented else usage.ru_maxrss, usage.ru_utime + usage.ru_stime)

    def serve(self, remote, shape):
        if shape == "folder":
            shutil.rmtree(self.at("remote"), ignore_errors=True)
            remotes.write_folder(remote, self.at("remote"))
        elif shape == "s3":
            self.s3.serve(self.prefix, remote)
        else:
            with open(self.at("served"), "wb") as f:
                pickle.dump(remotes.Remote(remote.objects, remote.heads, file=remote.file), f)
            words = [sys.executable, "-S", "-B", os.path.join(HERE, "wire.py"), self.at("served"), remote.wire or "honest"]
            self.environment["MLX_SSH_COMMAND"] = shlex.join(words)

    def make_victims(self, shape):
        """Clones of the honest remote, kept to be copied; what their history says is in self.before."""
        self.serve(self.world.honest, shape)
        for victim in VICTIMS:
            clone = self.at("victim")
            words = ["clone", "--filter", "blobs:none"] if victim == "lazy" else ["clone"]
            ran = self.run(*words, self.urls[shape], clone)
            if ran.code != 0:
                raise SystemExit(f"the honest remote ({shape}) is refused: {ran.err.decode()}")
            with open(os.path.join(clone, "mlx.toml"), "a") as f:
                f.write(self.settings(victim))
            if victim != "lazy":
                self.expect_content(clone)
            self.before[shape, victim] = self.state(clone)
            os.rename(clone, self.at(f"{shape}-{victim}"))

    def settings(self, victim):
        w = self.world
        until = f"until = [\"{attacks.text_id(w.second.id)}\"]\n" if victim == "until" else ""
        people = (f"[people.ada]\nkey = \"{w.ada.public}\"\nmay = [\"commit\", \"promote\", \"erase\", \"keys\"]\n"
                  f"[people.bob]\nkey = \"{w.bob.public}\"\n{until}")
        return {"people": people, "until": people}.get(victim, "")

    def expect_content(self, clone):
        for name, honest in (("large.txt", attacks.LARGE), ("small.txt", attacks.SMALL)):
            if self.run("cat", f"data/x@v1:{name}", cwd=clone).out != honest:
                raise SystemExit(f"the honest remote is read wrongly: {name}")

    def state(self, clone):
        """The status of a clone, and its journal, which `mlx fsck` then compares with the database."""
        ran = self.run("status", "--json", cwd=clone)
        with open(os.path.join(clone, ".mlx", "journal"), "rb") as f:
            return (ran.code, ran.out), hashlib.sha256(f.read()).hexdigest()


def is_instrumented(mlx):
    with open(mlx, "rb") as f:
        return b"__asan_init" in f.read()


def objections(attack, place, shape):
    """What is wrong with how this attack ended, a text each."""
    wrong = []
    remote = attack.make(place.world)
    victim, fresh = place.at("victim"), place.at("fresh")
    for path in (victim, fresh):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(place.at(f"{shape}-{attack.victim}"), victim, symlinks=True)
    shutil.rmtree(os.path.join(victim, ".mlx", "cache"), ignore_errors=True)  # tables of packs that it has seen
    place.serve(remote, shape)
    # A lazy clone's pull asks for no content; its checkout does.
    commands = [(("fetch", "--all"), victim), (("checkout",) if attack.victim == "lazy" else ("pull",), victim)]
    if attack.clone:
        commands.append((("clone", place.urls[shape], fresh), None))
    for words, cwd in commands:
        if words[0] == "clone" and attack.victim in ("people", "until"):
            continue  # without mlx.toml nobody has said who counts
        ran = place.run(*words, cwd=cwd)
        goes_on = attack.harmless or attack.told or (attack.insider and words[0] == "pull")
        wrong += objections_to(ran, (0,) if goes_on else REFUSALS + (0,) * (words[0] in attack.overcome))
        if attack.told.encode() not in ran.err:
            wrong.append(f"mlx {words[0]} does not say '{attack.told}'")
    if attack.harmless:
        wrong += objections_to(place.run("log", cwd=victim), (0,)) + objections_to(place.run("ls", "data/x", cwd=victim), (0,))
    elif os.path.lexists(fresh) and "clone" not in attack.overcome:
        wrong.append("a clone that is refused is there")
    if attack.insider:
        wrong += objections_to(place.run("checkout", "data/x@v2", cwd=victim), REFUSALS)
    elif not (attack.harmless or attack.told or attack.overcome):
        for what, was, now in zip(("status", "journal"), place.before[shape, attack.victim], place.state(victim)):
            if was != now:
                wrong.append(f"{what} changed")
    wrong += objections_to(place.run("fsck", cwd=victim), (0,))
    for name, honest in (("large.txt", attacks.LARGE), ("small.txt", attacks.SMALL)) if attack.victim == "lazy" else ():
        ran = place.run("cat", f"data/x@v1:{name}", cwd=victim)
        if ran.out != honest and (ran.code == 0 or not honest.startswith(ran.out)):
            wrong.append(f"cat {name} gave other bytes (exit {ran.code})")
        if ran.code != 0:
            wrong += objections_to(ran, REFUSALS)
    return wrong + objections_to_outside(place)


def objections_to(ran, codes):
    wrong = []
    if ran.code == -signal.SIGKILL:
        return [f"{ran.command.split('/')[0].strip()}: does not end"]
    if ran.code not in codes:
        wrong.append(f"exit {ran.code}: {ran.err[-300:].decode(errors='replace').strip()}")
    if ran.seconds > TIME:
        wrong.append(f"took {ran.seconds:.1f} s")
    if ran.memory > MEMORY:
        wrong.append(f"took {ran.memory >> 10} MiB")
    error = ran.err[ran.err.find(b"mlx: error: "):] if b"mlx: error: " in ran.err else b""  # warnings go before it
    if ran.code != 0 and not 1 <= error.count(b"\n") <= 3:
        wrong.append(f"an error of {error.count(10)} lines")
    if re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", ran.out + ran.err) and not ran.command.startswith("mlx cat"):
        wrong.append("control characters are shown")
    return [f"{ran.command.split('/')[0].strip()}: {text}" for text in wrong]


def objections_to_outside(place):
    known = {"home", "out", "remote", "served", "victim", "fresh"} | {f"{s}-{v}" for s in attacks.SHAPES for v in VICTIMS}
    found = [name for name in os.listdir(place.folder) if name not in known] + [p for p in ("/tmp/owned",) if os.path.lexists(p)]
    return [f"written outside: {', '.join(found)}"] if found else []


def main(mlx, folder, words=""):
    keys = os.path.join(folder, "keys")
    os.makedirs(keys)
    world, s3 = attacks.World(keys), remotes.S3()
    places = [Place(os.path.abspath(mlx), folder, number, world, s3) for number in range(WORKERS)]

    chosen = [(attack, shape) for number, attack in enumerate(attacks.ATTACKS)
              for shape in (attack.shapes if words else attack.turn(number))
              if words in ("all", "") or words in f"{attack.name} ({shape})"]
    if not words:
        chosen = chosen[::int(os.environ.get("MLX_TEST_STRIDE", "1"))]

    def prepare(place):
        for shape in {s for _, s in chosen}:
            place.make_victims(shape)

    def carry_out(attack, shape):
        place = places.pop()
        try:
            return objections(attack, place, shape)
        finally:
            places.append(place)

    bad, count = 0, 0
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(prepare, places))
        for (attack, shape), wrong in zip(chosen, pool.map(lambda c: carry_out(*c), chosen)):
            count += 1
            bad += bool(wrong)
            for text in wrong:
                print(f"{attack.name} ({shape}): {text}", flush=True)
    print(f"{count} attacks, {bad} got through")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
