"""The registry of public files: each is fetched once, at a fixed commit, and its hash checked."""

import contextlib
import fnmatch
import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from urllib.parse import quote

from platformdirs import user_cache_dir

from dre.errors import DreError, TryLater
from dre.files import replace

REPOSITORY = Path(__file__).resolve().parents[2]
#: Where data/ and profiles/ are: in the clone, or else in the package that was built from it.
PROJECT = REPOSITORY if (REPOSITORY / "data" / "mini").is_dir() else Path(__file__).parents[1]
REGISTRY = Path(__file__).with_name("sources.yaml")
RAW = "https://raw.githubusercontent.com/"
#: The Hugging Face Hub, unless the variable of its own packages names another address.
HUB = "https://huggingface.co"
#: The Hub shows sizes with three digits. A file that differs by more is another one, or torn.
_SIZE_TOLERANCE = 0.05
#: What is added to the name of a file for the file that keeps the hash of its first fetch.
_FIRST_HASH = ".sha256"
_MAY_FETCH = ContextVar("may_fetch", default=True)


@functools.cache
def sources() -> dict[str, dict]:
    """Return the registered files by their path below the data directory.

    Each is a dict with ``name, licence, citation, what`` of its group, and perhaps ``size`` (bytes,
    or about as many), ``sha256`` or ``git_blob`` (git's id of the content). The groups with
    ``by_name`` are fetched only by those who name them.
    """
    import yaml

    files = {}
    for group in yaml.safe_load(REGISTRY.read_bytes()):
        host = group.get("host", "github")
        version = group["revision"] if host == "hub" else group["commit"]
        folder = f"{host}/{group['owner']}/{group['repository']}/{version}"
        for file in group["files"]:
            files[f"{folder}/{file['path']}"] = group | file
    return files


def home() -> Path:
    """Return the data directory: ``DRE_DATA_HOME``, or a folder in the user's cache."""
    return Path(os.environ.get("DRE_DATA_HOME") or user_cache_dir("dre"))


def absent(names: Iterable[str] | None = None) -> list[str]:
    """Return those of some registered files that are not in the data directory.

    Without names, they are of the files that profile ``public`` reads: those with a sha256.
    """
    if names is None:
        names = [name for name, source in sources().items() if "sha256" in source]
    return [name for name in names if not (home() / name).is_file()]


def amount(names: Iterable[str]) -> str:
    """Return how many and how large some registered files are, as ``50 files, 64 MB``."""
    sizes = [sources()[name].get("size", 0) for name in names]
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    more = " or more" if 0 in sizes else ""
    return f"{files}, {max(0.1, sum(sizes) / 1e6):.{int(sum(sizes) < 1e6)}f} MB{more}"


@contextlib.contextmanager
def nothing_fetched() -> Iterator[None]:
    """Let `fetch` raise a DreError for every absent file, and download none, within this."""
    token = _MAY_FETCH.set(False)
    try:
        yield
    finally:
        _MAY_FETCH.reset(token)


def fetch(ending: str) -> Path:
    """Return the path of a registered file, downloaded if it is absent, its hash checked.

    Before a download, a line on standard error says what is fetched, and how much.

    Parameters
    ----------
    ending : str
        The end of its path, enough to name one file, with ``*`` and ``?`` as in a shell.

    Raises
    ------
    DreError
        If not exactly one file ends so, if it cannot be fetched, or if it has another hash.
    """
    pattern = "*" + ending.replace("[", "[[]")
    names = [name for name in sources() if fnmatch.fnmatchcase(name, pattern)]
    if len(names) != 1:
        raise DreError(
            f"{len(names)} registered files end in {ending!r}, expected one: see sources.yaml"
        )
    [name] = names
    path = home() / name
    if not path.is_file():
        if not _MAY_FETCH.get():
            group = sources()[name]
            group_name = f" {group['name']}" if group.get("by_name") else ""
            missing = [name] if group_name else absent()
            raise DreError(
                f"public data are missing ({amount(missing)}), such as {path}, and nothing is "
                f"fetched for this: run `dre data fetch{group_name}`, or point DRE_DATA_HOME at a "
                "folder that has them"
            )
        _download(name)
    difference = mismatch(name)
    if difference:
        raise DreError(f"{path} {difference}: delete the file, and it is fetched again")
    return path


def mismatch(name: str) -> str | None:
    """Return how a file in the data directory differs from the registered one, if it does.

    Where no hash is registered, the hash counts that was kept beside the file of its first fetch.
    """
    path = home() / name
    source = sources()[name]
    if "git_blob" in source:
        header = b"blob %d\0" % path.stat().st_size  # what git puts before a file
        kind, expected = "git_blob", source["git_blob"]
        content_hash = hashlib.sha1(header + path.read_bytes()).hexdigest()
    else:
        size = path.stat().st_size
        kind, expected = "sha256", _sha256(name)
        if expected is None and abs(size - source["size"]) > _SIZE_TOLERANCE * source["size"]:
            return f"has {size} bytes, expected about {source['size']}"
        content_hash = hashlib.sha256(path.read_bytes()).hexdigest()
        if expected is None:
            expected = content_hash
            replace(_first_hash(name), f"{content_hash}  {path.name}\n")
    if content_hash == expected:
        return None
    return f"has {kind} {content_hash}, expected {expected}"


def _sha256(name):
    """Return the sha256 that is registered, or that was kept of the first fetch, or None."""
    kept = _first_hash(name)
    expected = sources()[name].get("sha256")
    return kept.read_text("utf-8").split()[0] if expected is None and kept.is_file() else expected


def _first_hash(name):
    return home() / f"{name}{_FIRST_HASH}"


def address(name: str) -> str:
    """Return the address from which a registered file is downloaded."""
    source = sources()[name]
    if source.get("host") != "hub":
        return RAW + quote(name.removeprefix("github/"))
    hub = os.environ.get("HF_ENDPOINT") or HUB
    repository = f"{source['owner']}/{source['repository']}"
    return f"{hub}/datasets/{repository}/resolve/{source['revision']}/{quote(source['path'])}"


def _download(name):
    """Fetch a file, which gets its name only when it is complete and right (if sha256 is known)."""
    import pooch

    url = address(name)
    registry = {name: _sha256(name)}
    # Pooch would say it without the size.
    pooch.get_logger().setLevel("WARNING")
    print(
        f"fetching public data: {sources()[name]['name']}, {amount([name])}: {url}",
        file=sys.stderr,
        flush=True,
    )
    try:
        files = pooch.create(home(), base_url="", registry=registry, urls={name: url})
        downloader = pooch.HTTPDownloader(timeout=30)
        files.fetch(name, downloader=downloader)  # pyright: ignore[reportArgumentType]
    except (OSError, ValueError) as error:  # no network, no such file, a full disk; another hash
        raise TryLater(
            f"cannot fetch {home() / name} from {url} ({type(error).__name__}: {error}): try again "
            "with a network and a folder that can be written, or point DRE_DATA_HOME at a folder "
            "that has the file"
        ) from None


def read_jsonl(path: Path) -> list[Any]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in read_lines(path)]


def read_lines(path: Path) -> list[str]:
    r"""Return the lines of a UTF-8 file.

    Only ``\n`` ends a line: texts contain other characters that `str.splitlines` takes for an end.
    """
    return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def repository_file(*names: str) -> Path:
    """Return the path of a data file in this repository, or in the package built from it."""
    path = PROJECT.joinpath("data", *names)
    if not path.is_file():
        raise DreError(f"{path} is not there: install the package again")
    return path
