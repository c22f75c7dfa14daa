"""The registry of public files: each is fetched once, at a fixed commit, and held to its hash; ``dre data``."""

import fnmatch
import functools
import hashlib
import json
import os
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from platformdirs import user_cache_dir

from dre.errors import DreError

REPOSITORY = Path(__file__).resolve().parents[1]
#: whose data/ and profiles/ are read
PROJECT = REPOSITORY if (REPOSITORY / "data" / "mini").is_dir() else Path(__file__).parent
REGISTRY = Path(__file__).with_name("sources.yaml")
RAW = "https://raw.githubusercontent.com/"


@functools.cache
def sources():
    """Return the registered files by their path below the data directory, each a dict.

    ``name, licence, citation, what`` of its group, ``size`` in bytes, and ``sha256`` or ``git_blob`` (git's id).
    """
    import yaml

    groups = yaml.safe_load(REGISTRY.read_text(encoding="utf-8"))
    return {
        f"github/{group['owner']}/{group['repository']}/{group['commit']}/{file['path']}": group
        | file
        for group in groups
        for file in group["files"]
    }


def home():
    """Return the data directory: ``DRE_DATA_HOME``, or the platform's cache directory for ``dre``."""
    return Path(os.environ.get("DRE_DATA_HOME") or user_cache_dir("dre")).expanduser().absolute()


def fetch(ending):
    """Return the path of a registered file, downloaded if it is absent, its hash checked.

    `ending` is the end of its path, enough to name one file, with ``*`` and ``?`` as in a shell.
    """
    found = [
        name for name in sources() if fnmatch.fnmatchcase(name, "*" + ending.replace("[", "[[]"))
    ]
    if len(found) != 1:
        raise DreError(
            f"{len(found)} registered files end in {ending!r}, expected one: see `dre data list`"
        )
    path = home() / found[0]
    if not path.is_file():
        _download(found[0])
    if wrong := mismatch(found[0]):
        raise DreError(f"{path} {wrong}: delete the file, and it is fetched again")
    return path


def mismatch(name):
    """Return how the file at `name` below the data directory differs from the registered one; None if it does not."""
    content, source = (home() / name).read_bytes(), sources()[name]
    kind = "sha256" if "sha256" in source else "git_blob"
    blob = b"blob %d\0" % len(content)  # what git puts before a file
    found = (
        hashlib.sha256(content) if kind == "sha256" else hashlib.sha1(blob + content)
    ).hexdigest()
    return None if found == source[kind] else f"has {kind} {found}, expected {source[kind]}"


def _download(name):
    """Fetch a file; it gets its name only when it is complete and, where its sha256 is known, right."""
    import pooch

    url, hashes = RAW + quote(name.removeprefix("github/")), {name: sources()[name].get("sha256")}
    try:
        registry = pooch.create(home(), base_url="", registry=hashes, urls={name: url})
        registry.fetch(name, downloader=pooch.HTTPDownloader(timeout=30))
    except (OSError, ValueError) as error:  # no network, no such file, a full disk; another hash
        raise DreError(
            f"cannot fetch {home() / name} from {url}: connect to the network and try again, or point DRE_DATA_HOME at "
            f"a folder that has the file ({type(error).__name__}: {error})"
        ) from None


def read_jsonl(path):
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in read_lines(path)]


def read_lines(path):
    r"""Return the lines of a UTF-8 file; only ``\n`` ends one (texts hold what str.splitlines takes for an end)."""
    return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def repository_file(*parts):
    """Return the path of a data file of this repository, or of the package that was built from it."""
    path = PROJECT.joinpath("data", *parts)
    if not path.is_file():
        raise DreError(f"{path} is not there: install the package again")
    return path


def add(subparsers):
    """Add the command ``dre data``."""
    data = subparsers.add_parser("data", help="list, fetch and verify the public data")
    actions = data.add_subparsers(dest="action", required=True, metavar="action")
    for action, run, text in (
        ("list", _list, "what is registered, and what is here"),
        ("fetch", _fetch, "download what is missing"),
        ("verify", _verify, "check every hash"),
    ):
        parser = actions.add_parser(action, help=text)
        parser.add_argument(
            "names", nargs="*", help="sources as `dre data list` names them (default: all)"
        )
        parser.set_defaults(run=run)


def _paths(args):
    """Return the paths of the files of the sources that are named, of all by default."""
    known = {source["name"] for source in sources().values()}
    if unknown := sorted(set(args.names) - known):
        raise DreError(f"unknown data source {unknown[0]!r}: use one of {', '.join(sorted(known))}")
    return [path for path, source in sources().items() if source["name"] in (args.names or known)]


def _list(args):
    print(f"{'name':24}{'present':11}{'size':>8}  {'licence':20}what")
    for name, group in groupby(_paths(args), key=lambda path: sources()[path]["name"]):
        files = {path: sources()[path] for path in group}
        here, first = sum((home() / path).is_file() for path in files), next(iter(files.values()))
        size = sum(file.get("size", 0) for file in files.values()) / 1e6
        present, size = f"{here} of {len(files)}", f"{size:.1f} MB" if size else "?"
        print(f"{name:24}{present:11}{size:>8}  {first['licence']:20}{first['what']}")
    print(f"\ndata directory: {home()}")


def _fetch(args):
    for path in _paths(args):
        fetch(path)  # says what it downloads
    print(f"all files are in {home()}")


def _verify(args):
    """Return 1 if a file has another hash, or one of a source asked for by name is absent."""
    found = {
        path: mismatch(path) if (home() / path).is_file() else "is absent" for path in _paths(args)
    }
    for path in filter(found.get, found):
        print(home() / path, found[path])
    right, absent = (list(found.values()).count(state) for state in (None, "is absent"))
    print(f"{right} right, {absent} absent, {(wrong := len(found) - right - absent)} wrong")
    return 1 if wrong or (args.names and absent) else 0
