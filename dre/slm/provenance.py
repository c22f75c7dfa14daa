"""Which software made a number."""

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("dre", "torch", "transformers", "sentence-transformers", "numpy")


def versions():
    """Return the versions of Python and of the packages that can change a score."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # dre itself, when run from a checkout that is not installed
            found[package] = "not installed"
    return found
