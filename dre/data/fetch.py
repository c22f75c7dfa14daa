"""Fetching registered files into the data directory, and refusing a file that is not the registered one."""

import hashlib
import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from dre.errors import DreError

RAW = "https://raw.githubusercontent.com"
TIMEOUT = (10, 30)  # seconds to connect, and between two packets
_ELSEWHERE = "free space there, or set DRE_DATA_HOME to a directory you can write"
_FILLED = "or point DRE_DATA_HOME at a filled data directory"
_verified = set()  # (path, mtime, size) of files whose hash was right in this process


def home():
    """Return the data directory: ``DRE_DATA_HOME``, or the platform's cache directory for ``dre``."""
    if os.environ.get("DRE_DATA_HOME"):
        return Path(os.environ["DRE_DATA_HOME"]).expanduser()
    import pooch

    return Path(pooch.os_cache("dre"))


def url(source):
    """Return the address of a registered file at GitHub's raw file service."""
    return f"{RAW}/{source.owner}/{source.repository}/{source.commit}/{quote(source.path)}"


def present(source):
    """Whether the file lies in the data directory (its hash is not looked at)."""
    return (home() / source.relative).is_file()


def local(source):
    """Return the path of a registered file, fetched if it is absent, its hash checked once a process."""
    path = home() / source.relative
    if not path.is_file():
        return fetch(source)
    key = _key(path)
    if key not in _verified:
        verify(source)
        _verified.add(key)
    return path


def fetch(source, force=False):
    """Download a registered file, unless it is there already, and return its path.

    The content goes to a temporary file beside the final one and is renamed only after its hash was found
    right, so an interrupted download leaves nothing under the final name.

    Raises
    ------
    DreError
        No network, no such file, a time-out, a wrong hash, or a directory that cannot be written.
    """
    path = home() / source.relative
    if path.is_file() and not force:
        return local(source)
    part = _part_beside(path)
    try:
        _download(url(source), part)
        wrong = mismatch(source, part)
        if wrong:
            raise DreError(f"what {url(source)} sent {wrong}: try again; if it stays so, the source has changed")
        os.chmod(part, 0o666 & ~_umask())  # mkstemp made it private; a data directory may be shared
        os.replace(part, path)
    except OSError as error:
        raise DreError(f"cannot write {path} ({error.strerror}): {_ELSEWHERE}") from None
    finally:
        part.unlink(missing_ok=True)
    _verified.add(_key(path))
    return path


def verify(source):
    """Raise DreError unless the file in the data directory has the registered hash."""
    path = home() / source.relative
    wrong = mismatch(source, path)
    if wrong:
        raise DreError(f"{path} {wrong}: delete the file, or run `dre data fetch --force {source.name}`")


def mismatch(source, path):
    """Return how the file at `path` differs from the registered one; None if its hash is right."""
    kind, hasher, expected = (
        ("sha256", sha256, source.sha256) if source.sha256 else ("git blob id", git_blob, source.git_blob)
    )
    try:
        found, size = hasher(path), path.stat().st_size
    except OSError as error:
        raise DreError(f"cannot read {path} ({error.strerror}): run `dre data fetch {source.name}`") from None
    if found == expected:
        return None
    length = f" ({size} bytes, expected {source.size})" if source.size and size != source.size else ""
    return f"has {kind} {found}, expected {expected}{length}"


def sha256(path):
    """Return the sha256 of a file's content in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_blob(path):
    r"""Return the id git gives a file's content: sha1 of ``blob <size>\0`` and the content."""
    content = Path(path).read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _part_beside(path):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(prefix=".part-", dir=path.parent)
    except OSError as error:
        raise DreError(f"cannot write {path.parent} ({error.strerror}): {_ELSEWHERE}") from None
    os.close(handle)
    return Path(part)


def _download(address, part):
    import pooch
    import requests

    try:
        pooch.HTTPDownloader(timeout=TIMEOUT)(address, str(part), None)
    except requests.HTTPError as error:
        status = error.response.status_code
        raise DreError(f"{address} answered {status}, expected 200: try later, {_FILLED}") from None
    except requests.Timeout:
        raise DreError(f"{address} did not answer in time: try again, {_FILLED}") from None
    except requests.RequestException as error:
        reason = type(error).__name__
        raise DreError(f"cannot download {address} ({reason}): connect to the network, {_FILLED}") from None


def _key(path):
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
