"""The lock, the conda environment, pyproject, the Makefile and the badges agree with each other."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dre import __version__
from dre.errors import DreError
from dre.pipeline import badges, lock

HERE = Path(__file__).parents[1]
NOTEBOOKS = sorted((HERE / "notebooks").glob("*.ipynb"))


def test_the_lock_covers_all_of_pyproject_at_allowed_versions():
    pins = lock.read(HERE / "requirements.lock")
    for line in lock.roots(HERE / "pyproject.toml"):
        need = Requirement(line)
        assert need.specifier.contains(pins[canonicalize_name(need.name)]), line


def test_what_the_package_imports_is_declared():
    stated = lock.roots(HERE / "pyproject.toml", left_out=())
    declared = {canonicalize_name(Requirement(line).name) for line in stated}
    owners = packages_distributions()
    for path in (HERE / "dre").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"dre"}:
                assert {canonicalize_name(name) for name in owners.get(top, [top])} & declared, f"{path}: {top}"


def test_what_few_need_and_not_every_system_has_stays_out_of_the_lock():
    every, locked = (set(lock.roots(HERE / "pyproject.toml", left_out=out)) for out in ((), lock.LEFT_OUT))
    assert {canonicalize_name(Requirement(line).name) for line in every - locked} == {"ray"}
    assert "ray" not in lock.read(HERE / "requirements.lock")


def test_the_lock_is_closed_under_requirements():
    """Every package that a locked one needs here is locked as well, at a version it accepts."""
    pins = lock.read(HERE / "requirements.lock")
    installed = lock.closure(lock.roots(HERE / "pyproject.toml"))
    assert set(installed) <= set(pins), "run `make lock`"


def test_the_lock_names_neither_hosts_nor_gpu_libraries_nor_local_builds():
    text = (HERE / "requirements.lock").read_text()
    assert "://" not in text and "+" not in text and "--" not in text and "@" not in text
    assert not [name for name in lock.read(HERE / "requirements.lock") if name.startswith(lock.CHOSEN_BY_TORCH)]


def test_conda_installs_the_same_versions():
    environment = yaml.safe_load((HERE / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    pins = dict(line.split("==") for line in pip["pip"] if line != "-e .")
    assert {canonicalize_name(k): v for k, v in pins.items()} == lock.read(HERE / "requirements.lock")
    assert "-e ." in pip["pip"] and f"python={lock.PYTHON}" in conda


def test_a_malformed_lock_line_is_named(tmp_path):
    (tmp_path / "lock").write_text("# head\na==1\nb>=2\n")
    with pytest.raises(DreError, match=r"line 3: found 'b>=2', expected 'name==version'"):
        lock.read(tmp_path / "lock")


def test_what_cannot_be_locked_is_an_error():
    with pytest.raises(DreError, match="not installed here"):
        lock.closure(["no-such-package-of-ours"])
    with pytest.raises(DreError, match="is installed, numpy<1"):
        lock.closure(["numpy<1"])


def test_version_and_licence_are_the_same_everywhere():
    citation = yaml.safe_load((HERE / "CITATION.cff").read_text())
    project = lock.tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"] == __version__
    assert citation["license"] == project["license"] == "MIT"
    assert (HERE / "LICENSE").read_text().startswith("MIT License")


def test_every_badge_and_every_setup_cell_has_the_address_of_pyproject():
    slug = badges.repository(HERE)
    for path in NOTEBOOKS:
        text = path.read_text()
        assert badges.COLAB.format(slug=slug, name=path.stem) in text, path.name
        assert f"--depth 1 https://github.com/{slug} dre-companion" in text, path.name
    for path in (HERE / "README.md", *NOTEBOOKS):
        found = set(re.findall(r"colab\.research\.google\.com/github/([^/]+/[^/]+)/", path.read_text()))
        assert found <= {slug}, path.name
    assert yaml.safe_load((HERE / "CITATION.cff").read_text())["repository-code"] == f"https://github.com/{slug}"


def test_the_address_is_changed_everywhere_by_one_command(tmp_path, capsys):
    for name in ("pyproject.toml", "CITATION.cff", "notebooks"):
        copy = shutil.copytree if (HERE / name).is_dir() else shutil.copy
        copy(HERE / name, tmp_path / name)
    old = badges.repository(HERE)
    assert badges.main(["--repo", "some-one/else.where"], tmp_path) == 0
    assert badges.repository(tmp_path) == "some-one/else.where"
    for path in (*tmp_path.glob("*.*"), *tmp_path.glob("notebooks/*.ipynb")):
        assert f"github.com/{old}" not in path.read_text() and f"/github/{old}" not in path.read_text()
    assert (
        badges.COLAB.format(slug="some-one/else.where", name="00_start_here")
        in (tmp_path / "notebooks/00_start_here.ipynb").read_text()
    )
    assert badges.main(["--repo", "nonsense"], tmp_path) == 2
    assert "not owner/name" in capsys.readouterr().err


def make(*arguments, cwd=HERE):
    command = ["make", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


def test_make_installs_the_lock_once_and_passes_profile_and_arguments_on(tmp_path):
    shutil.copy(HERE / "Makefile", tmp_path)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text("")
    planned = make("-n", "paper", "PROFILE=public", "ARGS=-p n 1", cwd=tmp_path).stdout
    assert "pip install" in planned and "-r requirements.lock" in planned and "--no-deps" in planned
    assert ".venv/bin/python -m dre.paper --profile public -p n 1" in planned
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.installed").touch()
    assert "pip install" not in make("-n", "paper", cwd=tmp_path).stdout, "a second run installs nothing"
    os.utime(tmp_path / "requirements.lock", (2e9, 2e9))
    assert "pip install" in make("-n", "paper", cwd=tmp_path).stdout, "a new lock is installed"


def test_make_stops_at_a_failure(tmp_path):
    shutil.copy(HERE / "Makefile", tmp_path)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text("")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho ran "$@"\ncase "$*" in *a_bad*|*dre.paper*) exit 3;; esac\n')
    python.chmod(0o755)
    (tmp_path / ".venv/.installed").touch()
    (tmp_path / "benchmarks").mkdir()
    for name in ("a_bad.py", "b_good.py"):
        (tmp_path / "benchmarks" / name).touch()
    ended = make("bench", cwd=tmp_path)
    assert ended.returncode != 0 and "b_good" not in ended.stdout
    assert make("paper", cwd=tmp_path).returncode != 0


def test_make_without_a_python_says_so(tmp_path):
    shutil.copy(HERE / "Makefile", tmp_path)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text("")
    ended = make("paper", "PYTHON=", cwd=tmp_path)
    assert ended.returncode != 0 and "no Python >= 3.11 found" in ended.stderr


def test_the_interpreter_is_one_the_project_supports():
    assert sys.version_info >= (3, 11)
    found = make("-n", "install", "VENV=/nowhere/venv").stdout
    interpreter = re.search(r"\|\| (\S+) -m venv", found)[1]
    answer = subprocess.run([interpreter, "-c", "import sys; print(sys.version_info >= (3, 11))"], capture_output=True)
    assert answer.stdout.strip() == b"True"


def test_the_script_for_continuous_integration_runs_what_the_readme_says():
    script = HERE / ".ci/run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert [line.split("<")[0].strip() for line in text.splitlines() if line.startswith("make ")] == [
        "make test",
        "make paper",
    ]
    readme = (HERE / "README.md").read_text()
    assert "make test" in readme and "make paper" in readme


def test_notebook_files_are_in_one_normal_form():
    """One way to write them, so that a run changes outputs and nothing else."""
    for path in NOTEBOOKS:
        raw = json.loads(path.read_text())
        assert path.read_text() == json.dumps(raw, ensure_ascii=False, indent=1, sort_keys=True) + "\n", path.name
