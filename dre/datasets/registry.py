"""The registry of public files: each is fetched once, at a fixed commit, and held to its hash."""

import fnmatch
import functools
import hashlib
import json
import os
from pathlib import Path
from urllib.parse import quote

from platformdirs import user_cache_dir

from dre.errors import DreError

REPOSITORY = Path(__file__).resolve().parents[2]
#: whose data/ and profiles/ are read
PROJECT = REPOSITORY if (REPOSITORY / "data" / "mini").is_dir() else Path(__file__).parents[1]
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
    return Path(os.environ.get("DRE_DATA_HOME") or user_cache_dir("dre"))


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
