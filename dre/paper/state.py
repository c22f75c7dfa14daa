"""The state of a notebook, what it read and wrote with hashes: nothing else decides what is stale or deleted.

Lines such as ``read <hash> <path>`` are added by the kernel as it happens; ``ended <hash> <notebook>`` comes last, so
that a run that was killed is known to be stale. ``before`` is what earlier runs wrote, ``peak`` the kernel's MB.
"""

import atexit
import contextlib
import hashlib
import json
import os
import re
import sys
from importlib.util import source_from_cache
from pathlib import Path

import yaml

KINDS = ("before", "read", "wrote", "peak", "ended")
SCORES = "scores"  # the folder of recorded scores
LISTED = (
    SCORES,
    "curve",
)  # folders of which a notebook takes what there is: who reads one file depends on all names
LOCK = "requirements.lock"  # the versions of packages, which every notebook has read
FOREIGN = re.compile(
    r"\.|build/|.*(site-packages|\.egg-info)/"
)  # in the project's folder, but not of the project
kept = root = (
    None  # the state file, and the project, of the notebook that a runner executes in this process
)


def digest(path):
    """Return the sha256 of a file, of a profile's values, or of a folder's names; "-" if there is none."""
    try:
        content = (
            "\n".join(sorted(os.listdir(path))).encode() if path.is_dir() else path.read_bytes()
        )
        if path.parent.name == "profiles":
            content = json.dumps(yaml.safe_load(content), default=str).encode()
    except (OSError, ValueError, yaml.YAMLError):
        return "-"
    return hashlib.sha256(content).hexdigest()


def load(file):
    """Return what a state file says: for each of KINDS a dict of values by path; a torn line says nothing."""
    made = {kind: {} for kind in KINDS}
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        with contextlib.suppress(ValueError, KeyError):
            kind, value, name = line.split(" ", 2)
            made[kind][name] = value
    return made


def text(made):
    """Return what `load` returned as the text of a state file."""
    return "".join(
        f"{kind} {value} {name}\n" for kind in made for name, value in made[kind].items()
    )


def watch(file, folder):
    """Keep in a state file, from now on, what this process reads of the project in `folder`, and what it `note`s."""
    global kept, root
    kept, root, seen = open(file, "a", encoding="utf-8", buffering=1), Path(folder), set()  # noqa: SIM115

    def read(path):
        with contextlib.suppress(ValueError):  # it lies elsewhere
            path = Path(os.path.abspath(source_from_cache(path) if path.endswith(".pyc") else path))
            name = path.relative_to(root).as_posix()
            if name not in seen and not FOREIGN.match(name) and path.exists():
                seen.add(name)
                note("read", path)
                if path.parent.name in LISTED:
                    read(str(path.parent))

    def hear(event, args):
        if (
            event == "open"
            and isinstance(args[0], str | os.PathLike)
            and not args[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            read(os.fspath(args[0]))

    sys.addaudithook(hear)
    for path in [
        str(root / LOCK),
        *(getattr(module, "__file__", None) for module in [*sys.modules.values()]),
    ]:
        if path:
            read(path)
    with contextlib.suppress(ImportError):  # Windows does not tell
        from resource import RUSAGE_SELF, getrusage

        unit = 2**20 if sys.platform == "darwin" else 2**10
        atexit.register(
            lambda: kept.write(f"peak {getrusage(RUSAGE_SELF).ru_maxrss // unit} kernel\n")
        )


def note(kind, path):
    """Return the hash of a file that this process "read" or "wrote", and keep it, if this process is watched."""
    value = digest(path)
    if kept:
        kept.write(f"{kind} {value} {path.relative_to(root).as_posix()}\n")
    return value
