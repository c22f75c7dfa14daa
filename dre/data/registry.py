"""The registry of public sources: what each file is, where it comes from, and the hash it must have."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from dre.errors import DreError

REGISTRY = Path(__file__).with_name("sources.yaml")


@dataclass(frozen=True)
class Source:
    """One file of a public repository at a fixed commit.

    ``name`` is the group it belongs to (what ``dre data fetch NAME`` takes); ``size`` in bytes, None where
    unknown; either ``sha256`` or ``git_blob`` (the id git gives the content) is set.
    """

    name: str
    owner: str
    repository: str
    commit: str
    path: str
    size: int | None
    sha256: str | None
    git_blob: str | None
    licence: str
    citation: str
    what: str

    @property
    def relative(self):
        """Path below the data directory: ``github/<owner>/<repository>/<commit>/<path>``."""
        return PurePosixPath("github", self.owner, self.repository, self.commit, self.path)


@cache
def sources():
    """Return every registered file, in the order of the registry."""
    import yaml

    groups = yaml.safe_load(REGISTRY.read_text(encoding="utf-8"))
    shared = ("name", "owner", "repository", "commit", "licence", "citation", "what")
    return tuple(
        Source(
            **{key: group[key] for key in shared},
            path=file["path"],
            size=file.get("size"),
            sha256=file.get("sha256"),
            git_blob=file.get("git_blob"),
        )
        for group in groups
        for file in group["files"]
    )


def names():
    """Return the names of the groups."""
    return tuple(dict.fromkeys(source.name for source in sources()))


def group(name):
    """Return the files of group `name`."""
    found = tuple(source for source in sources() if source.name == name)
    if not found:
        raise DreError(f"unknown data source {name!r}: use one of {', '.join(names())}")
    return found


def find(name, ending):
    """Return the one file of group `name` whose path ends in `ending`."""
    found = [source for source in group(name) if source.path.endswith(ending)]
    if len(found) != 1:
        raise DreError(f"{len(found)} files of source {name!r} end in {ending!r}, expected one: see sources.yaml")
    return found[0]
