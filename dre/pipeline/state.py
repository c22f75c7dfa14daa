"""What has been done: one small file a notebook, with its fingerprint and the hashes of what it wrote."""

import json
import os
from pathlib import Path

from dre.errors import DreError
from dre.pipeline.fingerprint import sha256


class State:
    """The record of finished notebooks of one profile, in ``build/<profile>/state/``."""

    def __init__(self, profile):
        self.profile = profile
        self.folder = profile.build / "state"

    def reason(self, book, fingerprint):
        """Return why `book` has to run, or None if what it would write is already here."""
        try:
            record = json.loads(self._path(book).read_text(encoding="utf-8"))
            known, files = record["fingerprint"], record["files"]
            if known != fingerprint:
                return "changed"
            return next(filter(None, (self._differs(name, value) for name, value in files.items())), None)
        except FileNotFoundError:
            return "not run yet"
        except (ValueError, KeyError, TypeError, AttributeError):
            # A torn or foreign file says nothing reliable; running again is always right.
            return "state unreadable"

    def forget(self, book):
        """Drop the record of `book` before it runs: half-written outputs never pass for finished ones."""
        self._path(book).unlink(missing_ok=True)

    def finish(self, book, fingerprint):
        """Record that `book` is done.

        Raises
        ------
        DreError
            If a file it declares in its metadata was not written.
        """
        declared = [name.format(profile=self.profile.name) for name in book.outputs]
        for name in declared:
            if not (self.profile.root / name).exists():
                raise DreError(f"{book.path.name} ended without writing {name}, which its metadata declares")
        files = {name: self._hash(name) for name in dict.fromkeys([*declared, *self.registered(book)])}
        write_json(self._path(book), {"fingerprint": fingerprint, "files": files})

    def registered(self, book):
        """Return the files `book` registered for the report page, its manifest, and the executed notebook."""
        manifest = self.profile.results / "manifest" / f"{book.name}.json"
        executed = self.profile.build / "notebooks" / book.path.name
        files = [executed]
        if manifest.exists():
            files.append(manifest)
            items = json.loads(manifest.read_text(encoding="utf-8"))["items"]
            files += [self.profile.root / name for item in items for name in item["files"]]
        return [str(path.relative_to(self.profile.root)) for path in files]

    def _path(self, book):
        return self.folder / f"{book.name}.json"

    def _hash(self, name):
        # What lies in build/ (models, executed notebooks) is only looked for: it is large, never committed.
        path = self.profile.root / name
        return None if name.startswith("build/") or path.is_dir() else sha256(path)

    def _differs(self, name, expected):
        if not (self.profile.root / name).exists():
            return f"{name} is missing"
        return None if self._hash(name) == expected else f"{name} was changed"


def write_json(path, value):
    """Write JSON so that a reader sees the old file or the whole new one, never a part."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(part, "w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1, ensure_ascii=False, sort_keys=True)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
