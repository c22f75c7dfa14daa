"""The command ``dre``: its words, exit statuses, what it loads, and the public data."""

import functools
import hashlib
import http.server
import io
import re
import subprocess
import sys
import threading

import pytest
import yaml

from dre import __version__
from dre.commands import main as cli
from dre.datasets import registry as fetch
from dre.errors import DreError

TEXT, BLOB = b"hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"  # as git names this content
GREETINGS = {
    "name": "greetings",
    "owner": "owner",
    "repository": "repo",
    "commit": "c0ffee",
    "licence": "MIT",
    "what": "two files",
    "files": [
        {"path": "a (1).txt", "sha256": hashlib.sha256(TEXT).hexdigest(), "size": len(TEXT)},
        {"path": "b.txt", "git_blob": BLOB},
    ],
}
ON_THE_HUB = {
    "name": "from-the-hub",
    "host": "hub",
    "owner": "owner",
    "repository": "sets",
    "revision": "0abc123",
    "licence": "Apache-2.0",
    "what": "one file, whose hash nobody knows yet",
    "by_name": True,
    "files": [{"path": "train set.json", "size": 60}],
}


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The folder of a local server that has the files of both sources; nothing is here yet."""
    folder = tmp_path / "served"
    on_the_hub = folder / "datasets" / "owner" / "sets" / "resolve" / "0abc123" / "train set.json"
    on_github = folder / "owner" / "repo" / "c0ffee"
    contents = {on_github / "a (1).txt": TEXT, on_github / "b.txt": TEXT, on_the_hub: TEXT * 10}
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    registry = tmp_path / "sources.yaml"
    registry.write_text(yaml.safe_dump([GREETINGS, ON_THE_HUB]))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(fetch, "REGISTRY", registry)
        monkeypatch.setattr(fetch, "RAW", f"{address}/")
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path / "home"))
        fetch.sources.cache_clear()
        yield {path.name: path for path in contents}
        server.shutdown()
    fetch.sources.cache_clear()


def files_here():
    return sorted(path.name for path in fetch.home().rglob("*") if path.is_file())


def test_files_are_fetched_once_and_held_to_their_hash(served, capsys):
    assert cli.main(["data", "fetch"]) == 0
    assert files_here() == ["a (1).txt", "b.txt"]
    out, err = capsys.readouterr()
    assert "not fetched unless named: dre data fetch from-the-hub" in out
    assert f"to be fetched into {fetch.home()}: 2 files, 0.1 MB or more\n" in out
    assert re.search(r"^fetching public data: greetings, 1 file, 0.1 MB: http://127.*a%20%28", err)
    assert re.search(r"greetings +0 of 2 ", out)
    for name in ("a (1).txt", "b.txt"):
        served[name].unlink()  # what is here is not asked for again
    assert cli.main(["data", "fetch", "greetings"]) == 0
    assert re.search(r"greetings +2 of 2 ", capsys.readouterr().out)
    for ending, kind in (("b.txt", "git_blob"), ("a (1).txt", "sha256")):
        path = fetch.fetch(ending)
        path.write_bytes(b"hello!\n")
        message = f"{path} has {kind} [0-9a-f]+, expected [0-9a-f]+: delete the file"
        with pytest.raises(DreError, match=re.sub(r"([()])", r"\\\1", message)):
            fetch.fetch(ending)
        assert cli.main(["data", "fetch"]) == 2
        assert re.search(f"has {kind} .*: delete the file", capsys.readouterr().err)
        path.write_bytes(TEXT)
    assert cli.main(["data", "fetch", "greeting"]) == 2
    error = capsys.readouterr().err
    assert "no data source 'greeting': expected one of from-the-hub, greetings" in error


def test_a_file_on_the_hub_is_held_to_the_hash_that_its_first_fetch_saw(served):
    assert cli.main(["data", "fetch", "from-the-hub"]) == 0
    path = fetch.fetch("train set.json")
    assert path.relative_to(fetch.home()).parts[:4] == ("hub", "owner", "sets", "0abc123")

    # Another content of the same size is refused: changed here, or fetched anew.
    path.write_bytes(b"HELLO\n" * 10)
    assert cli.main(["data", "fetch", "greetings"]) == 0
    assert cli.main(["data", "fetch"]) == 2  # what is here is checked, whoever asked for it
    fetch.fetch("b.txt").unlink()
    served["b.txt"].unlink()
    assert cli.main(["data", "fetch"]) == 2  # before anything is downloaded
    path.unlink()
    served["train set.json"].write_bytes(b"HELLO\n" * 10)
    with pytest.raises(DreError, match="known hash"):
        fetch.fetch("train set.json")
    assert not path.exists()
    served["train set.json"].write_bytes(TEXT * 10)
    assert fetch.fetch("train set.json").read_bytes() == TEXT * 10


def test_a_file_of_another_size_than_the_hub_shows_is_refused_and_its_hash_not_kept(served):
    served["train set.json"].write_bytes(TEXT)
    with pytest.raises(DreError, match=f"has {len(TEXT)} bytes, expected about 60"):
        fetch.fetch("train set.json")
    assert files_here() == ["train set.json"]


def test_what_cannot_be_fetched_is_one_clear_sentence_and_leaves_no_file(served, monkeypatch):
    served["a (1).txt"].write_bytes(b"something else")
    message = r"/home/.*a \(1\).txt from http.*a%20%281%29.txt .*known hash.*DRE_DATA_HOME"
    with pytest.raises(DreError, match=message):
        fetch.fetch("a (1).txt")
    monkeypatch.setattr(fetch, "RAW", "http://127.0.0.1:9/")
    with pytest.raises(DreError, match=r"b.txt from http://127.0.0.1:9/.*ConnectionError"):
        fetch.fetch("b.txt")
    assert files_here() == []


def test_help_names_every_command_and_loads_nothing_heavy():
    for words in (["--version"], ["--help"], []):
        command = [sys.executable, "-X", "importtime", "-m", "dre", *words]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        expected = ["dre " + __version__] if "--version" in words else cli.ROOMS
        assert all(word in result.stdout for word in expected)
    loaded = {line.split("|")[-1].strip() for line in result.stderr.splitlines()}
    assert "dre.commands.main" in loaded
    assert not loaded & {"torch", "pandas", "transformers", "pooch"}


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import dre.audit.measures, dre.judges.judge
import dre.score.metric, dre.score.gate
slow = {"sklearn", "matplotlib", "scipy.stats"} & set(sys.modules)
from dre.commands.main import main
assert not slow, slow
assert main(["data", "show", sys.argv[1]]) == 0
sys.exit(main(["score", sys.argv[1]]))
"""


def test_the_core_needs_no_torch_and_what_does_says_which_extra_has_it(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"context": ["Tea?"], "response": "With milk."}')
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "a.jsonl")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] + "\n" == (
        "error: this needs torch: pip install 'dre-companion[slm] @ "
        "git+https://github.com/dre-companion/dre', in a clone pip install -e '.[slm]'\n"
    )


SCORE = "dre score: error: "
MISTYPED = {
    "score in.jsonl --methd x": f"{SCORE}unrecognized argument --methd: did you mean --method?\n",
    "score in.jsonl --accuracies abc": "argument --accuracies: invalid _accuracies value: 'abc'",
    "score in.jsonl --engine rya": "argument --engine: there is no 'rya': did you mean ray?\n",
    "score in.jsonl --prompt a --criterion b": "--criterion: not allowed with argument --prompt",
    "score in.jsonl -o o.txt": "--output: o.txt: expected a name that ends in .csv or .jsonl or",
    "scor in.jsonl": "dre: error: there is no command 'scor': did you mean score?\n",
    "judge rum": "dre judge: error: there is no action 'rum': did you mean run?\n",
    "xyz": "dre: error: there is no command 'xyz': expected one of score, compare, judge",
    "score": f"{SCORE}the following arguments are required: input\n",
    "compare new.csv old.csv --alpha 0": "argument --alpha: 0: expected 0.001 to 1",
    "compare new.csv old.csv --max-missing 5": "--max-missing: 5: expected a share such as 5%",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_option_is_one_line_and_one_on_where_all_are(line, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(line.split())
    assert ended.value.code == 2
    message, advice = capsys.readouterr().err.splitlines(keepends=True)
    assert MISTYPED[line] in message
    assert advice.endswith("--help lists all options\n")


@pytest.mark.parametrize("name", cli.GONE)
def test_a_command_that_went_says_what_to_do_instead(name, capsys):
    assert cli.main([*name.split(), "in.jsonl", "--any", "option"]) == 2
    assert (
        capsys.readouterr().err == f"error: there is no `dre {name}` any more: {cli.GONE[name]}\n"
    )
    assert {*re.findall(r"`dre (\w+)", cli.GONE[name])} <= {*cli.ROOMS}


def test_every_sign_can_be_printed_into_a_file_of_windows(monkeypatch, tmp_path):
    file = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", file)
    path = tmp_path / "a.jsonl"
    path.write_text('{"context": ["\u2212 \u4e2d"], "response": "x"}', encoding="utf-8")
    assert cli.main(["data", "show", str(path)]) == 0
    assert "\u2212 \u4e2d" in file.buffer.getvalue().decode("utf-8")


def test_an_interrupt_has_its_exit_status(monkeypatch, capsys):
    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr("dre.commands.data.sources", stop)
    assert cli.main(["data", "fetch"]) == 130
    assert capsys.readouterr().err.startswith("interrupted: what was finished")
