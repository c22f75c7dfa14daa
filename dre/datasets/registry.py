"""The registry of public files: each is fetched once, at a fixed commit, and its hash checked."""

import contextlib
import fnmatch
import functools
import hashlib
import json
import math
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

    Each is a dict with ``name, licence, citation, what`` of its group, with ``size`` in bytes, and
    with ``sha256`` or ``git_blob`` (git's id of the content). A file on the Hub may have none of
    these, and ``about_size`` instead: see `mismatch`. The groups with ``by_name`` are fetched only
    by those who name them.
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
    sizes = [size_of(sources()[name]) for name in names]
    n_bytes = sum(size for size in sizes if size)
    files = "1 file" if len(sizes) == 1 else f"{len(sizes)} files"
    if not n_bytes:
        return f"{files}, size unknown"
    size = f"{n_bytes / 1e6:.0f} MB" if n_bytes >= 1e6 else f"{math.ceil(n_bytes / 1e3)} kB"
    n_unknown = sizes.count(None)
    return f"{files}, {size}" + (f" and {n_unknown} of unknown size" if n_unknown else "")


def size_of(source: dict) -> int | None:
    """Return the bytes of a file, or about as many; None where nobody wrote them down."""
    return source.get("size") or source.get("about_size")


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
            f"{len(names)} registered files end in {ending!r}, expected one: see `dre data list`"
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
    _keep_first_hash(name)
    return path


def mismatch(name: str) -> str | None:
    """Return how a file in the data directory differs from the registered one, if it does.

    Where no hash is registered, the size counts, and the hash that was kept of the first fetch.
    """
    path = home() / name
    source = sources()[name]
    if "git_blob" in source:
        header = b"blob %d\0" % path.stat().st_size  # what git puts before a file
        content_hash = _hash(path, "sha1", header)
        if content_hash == source["git_blob"]:
            return None
        return f"has git_blob {content_hash}, expected {source['git_blob']}"

    if "about_size" in source:
        size = path.stat().st_size
        expected_size = source["about_size"]
        if abs(size - expected_size) > _SIZE_TOLERANCE * expected_size:
            return f"has {size} bytes, expected about {expected_size}"
    expected = _known_hash(name)
    if expected is None:
        return None
    content_hash = _hash(path, "sha256")
    if content_hash == expected:
        return None
    first_time = "" if "sha256" in source else ", as when it was first fetched"
    return f"has sha256 {content_hash}, expected {expected}{first_time}"


def _hash(path, algorithm, header=b""):
    """Return the hash of a file behind a header, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, header)).hexdigest()


def _known_hash(name):
    """Return the sha256 that is registered, or that was kept of the first fetch, or None."""
    registered = sources()[name].get("sha256")
    first_hash = _first_hash_file(name)
    if registered is None and first_hash.is_file():
        return first_hash.read_text(encoding="utf-8").split()[0]
    return registered


def _first_hash_file(name):
    path = home() / name
    return path.with_name(path.name + _FIRST_HASH)


def _keep_first_hash(name):
    """Write the hash of a file of which no hash is known; ``sha256sum --check`` reads it too."""
    source = sources()[name]
    if "git_blob" in source or _known_hash(name) is not None:
        return
    path = home() / name
    replace(_first_hash_file(name), f"{_hash(path, 'sha256')}  {path.name}\n")


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
    registry = {name: _known_hash(name)}
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
            f"cannot fetch {home() / name} from {url}: connect to the network and try again, or "
            f"point DRE_DATA_HOME at a folder that has the file ({type(error).__name__}: {error})"
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
