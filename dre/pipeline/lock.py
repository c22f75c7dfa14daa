"""Write ``requirements.lock`` and ``environment.yml`` from the packages of this interpreter (``make lock``).

The lock is the transitive closure of what ``pyproject.toml`` asks for, extras included but for `LEFT_OUT`, at the
versions installed here. Local version tags (``2.13.0+cpu``) are dropped and the GPU libraries that torch brings along
are left out, so one lock serves every machine: pip adds the right ones where torch needs them.
"""

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dre.errors import DreError

CHOSEN_BY_TORCH = ("nvidia-", "triton", "cuda-", "intel-")
LEFT_OUT = ("ray",)  # extras without wheels for some Python versions and systems that all the rest runs on
BUILD = ("setuptools",)  # what the editable install of this project needs, without a build environment
PYTHON = "3.11"  # of the conda environment


def roots(pyproject, left_out=LEFT_OUT):
    """Return the requirements `pyproject` (a path) states: dependencies and every extra not `left_out`, in order."""
    project = tomllib.loads(Path(pyproject).read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    asked = (lines for extra, lines in extras.items() if extra not in left_out)
    return [*project["dependencies"], *(line for lines in asked for line in lines)]


def closure(requirements):
    """Return ``{canonical name: version}`` of `requirements` and all they need, as installed here.

    Raises
    ------
    DreError
        If a requirement is not installed, or the installed version does not satisfy it.
    """
    found, todo = {}, [Requirement(line) for line in (*requirements, *BUILD)]
    seen = set()
    while todo:
        need = todo.pop()
        name, extras = canonicalize_name(need.name), frozenset(need.extras)
        if name.startswith(CHOSEN_BY_TORCH) or (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            dist = distribution(need.name)
        except PackageNotFoundError:
            raise DreError(
                f"{need} is not installed here; install it (.venv/bin/pip install '{need}'), then lock again"
            ) from None
        if not need.specifier.contains(dist.version, prereleases=True):
            raise DreError(f"{name} {dist.version} is installed, {need} is asked for; install that, then lock again")
        found[name] = dist.version.split("+")[0]
        for line in dist.requires or []:
            child = Requirement(line)
            if child.marker is None or any(child.marker.evaluate({"extra": e}) for e in extras | {""}):
                todo.append(child)
    return dict(sorted(found.items()))


def read(path):
    """Return ``{canonical name: version}`` of a lock file of ``name==version`` lines."""
    pins = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        name, sep, version = line.partition("==")
        if not sep:
            raise DreError(f"{path}, line {number}: found '{line}', expected 'name==version'")
        pins[canonicalize_name(name)] = version
    return pins


def lock_text(pins):
    """Return the text of ``requirements.lock``."""
    head = "# Written by `make lock` from pyproject.toml; every package the project needs, at one version.\n"
    return head + "".join(f"{name}=={version}\n" for name, version in pins.items())


def environment_text(pins):
    """Return the text of ``environment.yml``: conda brings Python, pip the same pins as the lock."""
    lines = "".join(f"      - {name}=={version}\n" for name, version in pins.items())
    return (
        "# Written by `make lock`: the same versions as requirements.lock.\n"
        "name: dre\nchannels:\n  - conda-forge\ndependencies:\n"
        f"  - python={PYTHON}\n  - pip\n  - pip:\n{lines}      - -e .\n"
    )


def main(root="."):
    """Write both files into `root`."""
    root = Path(root)
    pins = closure(roots(root / "pyproject.toml"))
    (root / "requirements.lock").write_text(lock_text(pins), encoding="utf-8")
    (root / "environment.yml").write_text(environment_text(pins), encoding="utf-8")
    print(f"requirements.lock and environment.yml: {len(pins)} packages")


if __name__ == "__main__":
    main()
