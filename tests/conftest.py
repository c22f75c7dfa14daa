"""What tests share: they never look on the Hub, and skip where public data are absent."""

# ruff: noqa: E402  (what libraries look at must be set before they are imported)

import gc
import importlib.util
import itertools
import multiprocessing
import os
import shutil
import signal
import stat
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
# Tests run in several processes at a time: each computes with one thread, and so do its children.
os.environ["OMP_NUM_THREADS"] = "1"
# Imports and the collection of tests make a million objects that stay. Python would look for
# garbage among them again and again, which takes a quarter of the time.
gc.disable()

import pytest
from judge_servers import KEYS

from dre.datasets import registry
from dre.judges.providers import PROVIDERS, base

#: The folder of the project.
HERE = Path(__file__).parents[1]
#: Marks tests of the public data: ``pytest -m needs_data`` runs these alone.
needs_data = pytest.mark.needs_data


def pytest_collection_modifyitems(items):
    """Skip what needs the public data where it is absent."""
    missing = registry.absent()
    if not missing:
        return
    reason = (
        f"{len(missing)} public files are not in {registry.home()}: "
        "set DRE_DATA_HOME or run `dre data fetch`"
    )
    for item in items:
        if item.get_closest_marker("needs_data"):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish():
    """Look for garbage again, but only among what the tests make."""
    gc.freeze()
    gc.enable()


def experiment(name):
    """Return a script of experiments/ as a module; `name` is its path without the ending."""
    path = Path(__file__).parents[1] / "experiments" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # Scripts of one folder take from one another.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def writable_copy(source, target):
    """Copy a folder of the project, which may be read-only; return the target."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return target


def heed_interrupts():
    """Let an interrupt end a child process, also where a shell lets this one ignore interrupts.

    It is for ``preexec_fn``: what is ignored here would be ignored in the child.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start_copy(function, *arguments):
    """Call a function in a copy of this process, and return that process.

    It has imported everything already, and can be killed as a process that a user starts.
    """
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    return process


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """The folder of a tiny encoder."""
    import tiny  # with torch, which the process that hands out the tests does not need

    return tiny.encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def still(tmp_path_factory):
    """The folder of a tiny encoder without dropout, whose training is the same on every machine."""
    import tiny

    return tiny.still(tiny.encoder(tmp_path_factory.mktemp("still")))


@pytest.fixture
def on_cpu(monkeypatch):
    """A model that is loaded in this test is on the CPU: digits of a GPU are others."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def quick(monkeypatch):
    """No key is set, and a call that fails is repeated once."""
    monkeypatch.setattr(base, "TRIES", 1)
    for provider in PROVIDERS.values():
        for name in provider.key_variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("DRE_STORE", raising=False)


@pytest.fixture
def with_openai_key(monkeypatch, tmp_path, quick):
    """A key of OpenAI's is set, and replies are stored in a folder of this test."""
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "replies.db"))
    monkeypatch.setenv(KEYS["openai"], "a-key")


@pytest.fixture(scope="session")
def caches(tmp_path_factory):
    """A folder for the caches of all tests, and numbers to name them."""
    return tmp_path_factory.mktemp("caches"), itertools.count()


@pytest.fixture(autouse=True)
def own_cache(caches, monkeypatch):
    """Scores of small models are kept in a folder of this test, which is made on first use."""
    parent, numbers = caches
    folder = parent / str(next(numbers))
    monkeypatch.setenv("DRE_CACHE", str(folder))
    return folder
