import contextlib
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


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Two registered files, an empty data directory, and a local server that has both."""
    served = tmp_path / "served" / "owner" / "repo" / "c0ffee"
    served.mkdir(parents=True)
    files = [
        {"path": "a (1).txt", "sha256": hashlib.sha256(TEXT).hexdigest(), "size": len(TEXT)},
        {"path": "b.txt", "git_blob": BLOB},
    ]
    for file in files:
        (served / file["path"]).write_bytes(TEXT)
    source = {
        "name": "greetings",
        "owner": "owner",
        "repository": "repo",
        "commit": "c0ffee",
        "licence": "MIT",
    }
    path = tmp_path / "sources.yaml"
    path.write_text(yaml.safe_dump([source | {"what": "two files", "files": files}]))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(fetch, "REGISTRY", path)
        monkeypatch.setattr(fetch, "RAW", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path / "home"))
        fetch.sources.cache_clear()
        yield served
        server.shutdown()
    fetch.sources.cache_clear()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A file on a local stand-in of the Hub, whose hash nobody knows yet, in an empty data home."""
    repository = tmp_path / "served" / "datasets" / "owner" / "sets" / "resolve" / "0abc123"
    repository.mkdir(parents=True)
    (repository / "train set.json").write_bytes(TEXT * 10)
    source = {
        "name": "from-the-hub",
        "host": "hub",
        "owner": "owner",
        "repository": "sets",
        "revision": "0abc123",
        "licence": "Apache-2.0",
        "what": "one file",
        "by_name": True,
        "files": [{"path": "train set.json", "size": 60}],
    }
    path = tmp_path / "sources.yaml"
    path.write_text(yaml.safe_dump([source]))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(fetch, "REGISTRY", path)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path / "home"))
        fetch.sources.cache_clear()
        yield repository / "train set.json"
        server.shutdown()
    fetch.sources.cache_clear()


def test_a_file_on_the_hub_is_held_to_the_hash_that_its_first_fetch_saw(hub, capsys):
    path = fetch.fetch("train set.json")
    assert path.read_bytes() == TEXT * 10
    assert path.relative_to(fetch.home()).parts[:4] == ("hub", "owner", "sets", "0abc123")

    # Another content of the same size is refused: changed here, or fetched anew.
    path.write_bytes(b"HELLO\n" * 10)
    with pytest.raises(DreError, match="has sha256 .*, expected "):
        fetch.fetch("train set.json")
    assert cli.main(["data", "verify", "from-the-hub"]) == 2
    path.unlink()
    hub.write_bytes(b"HELLO\n" * 10)
    with pytest.raises(DreError, match="known hash"):
        fetch.fetch("train set.json")
    assert not path.exists()

    hub.write_bytes(TEXT * 10)
    assert fetch.fetch("train set.json").read_bytes() == TEXT * 10
    assert cli.main(["data", "verify", "from-the-hub"]) == 0


@pytest.mark.parametrize("content", [TEXT, b"", TEXT * 100])
def test_a_file_of_another_size_than_the_hub_shows_is_refused_and_its_hash_not_kept(hub, content):
    hub.write_bytes(content)
    with pytest.raises(DreError, match=f"has {len(content)} bytes, expected about 60"):
        fetch.fetch("train set.json")
    hub.write_bytes(TEXT * 10)
    for path in (fetch.home() / "hub").rglob("*.json"):
        path.unlink()
    assert fetch.fetch("train set.json").read_bytes() == TEXT * 10


def test_what_only_a_named_fetch_takes_is_said_and_not_downloaded(hub, capsys):
    assert cli.main(["data", "fetch"]) == 0
    out = capsys.readouterr().out
    assert "from-the-hub" in out and "dre data fetch from-the-hub" in out
    assert not list(fetch.home().rglob("*.json"))
    assert cli.main(["data", "verify"]) == 0  # an absent one is no fault
    assert cli.main(["data", "fetch", "from-the-hub"]) == 0
    assert len(list(fetch.home().rglob("*.json"))) == 1
    assert cli.main(["data", "list"]) == 0
    assert "1 of 1" in capsys.readouterr().out


def test_help_names_every_command_and_loads_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "dre", "--help"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert all(f"    {word}" in result.stdout for word in cli.ROOMS)
    loaded = {line.split("|")[-1].strip() for line in result.stderr.splitlines()}
    assert "dre.commands.main" in loaded and not loaded & {
        "torch",
        "pandas",
        "transformers",
        "pooch",
    }


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import dre.audit.measures, dre.judges.judge
import dre.score.metric, dre.score.gate
slow = {"sklearn", "matplotlib", "scipy.stats"} & set(sys.modules)
from dre.commands.main import main
assert not slow, slow
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "score in.jsonl -o o.csv --methd slm",
            "dre score: error: unrecognized argument --methd: did you mean --method?",
        ),
        (
            "score in.jsonl -o o.csv --meth=slm",
            "dre score: error: unrecognized argument --meth=slm: did you mean --method?",
        ),
        (
            "judge run in.jsonl --judge openai:m --xyz 1",
            "dre judge run: error: unrecognized argument --xyz\n",
        ),
        (
            "score in.jsonl -o o.csv --accuracies abc",
            "argument --accuracies: invalid _accuracies value: 'abc'",
        ),
        ("scor in.jsonl", "dre: error: there is no command 'scor': did you mean score?\n"),
        ("judge rum", "dre judge: error: there is no action 'rum': did you mean run?\n"),
        ("xyz", "dre: error: there is no command 'xyz': expected one of data, slm, judge"),
        (
            "score in.jsonl --engine rya",
            "argument --engine: there is no 'rya': did you mean ray?\n",
        ),
        ("--version", f"dre {__version__}\n"),
    ],
)
def test_a_mistyped_option_is_named_by_its_command(line, message, capsys):
    with pytest.raises(SystemExit):
        cli.main(line.split())
    assert message in "".join(capsys.readouterr())


@pytest.mark.parametrize("command", ["score", "judge run x.jsonl", "compare new.csv"])
def test_a_forgotten_option_is_one_line_and_one_on_where_all_are(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(command.split())
    assert ended.value.code == 2
    message, advice = capsys.readouterr().err.splitlines()
    assert "error: the following arguments are required" in message
    assert advice.endswith("--help lists all options")


def test_every_sign_can_be_printed_into_a_file_of_windows(monkeypatch):
    file = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", file)
    monkeypatch.setattr(
        "dre.commands.data._paths", lambda args: print("\u2212 \u4e2d \ud83d") or []
    )
    assert cli.main(["data", "list"]) == 0
    assert "\u2212 \u4e2d ?" in file.buffer.getvalue().decode("utf-8")


def test_an_interrupt_has_its_exit_code(monkeypatch, capsys):
    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr("dre.commands.data.sources", stop)
    assert cli.main(["data", "list"]) == 130 and capsys.readouterr().err.startswith(
        "interrupted: what was finished"
    )


def test_files_are_fetched_once_and_held_to_their_hash(registry, capsys):
    assert cli.main(["data", "verify", "greetings"]) == 2
    assert cli.main(["data", "fetch"]) == 0
    for file in registry.iterdir():
        file.unlink()  # what is here is not asked for again
    assert cli.main(["data", "fetch", "greetings"]) == 0
    assert fetch.fetch("a (1).txt").read_bytes() == fetch.fetch("/b.*").read_bytes() == TEXT
    assert cli.main(["data", "verify"]) == 0
    for ending in ("b.txt", "a (1).txt"):
        fetch.fetch(ending).write_bytes(b"hello!\n")
        with pytest.raises(
            DreError, match="has (sha256|git_blob) .*, expected .*: delete the file"
        ):
            fetch.fetch(ending)
    capsys.readouterr()
    assert cli.main(["data", "verify"]) == 2
    assert capsys.readouterr().out.endswith("0 right, 0 absent, 2 wrong\n")


def test_before_the_first_byte_is_fetched_a_line_says_what_and_how_much(registry, monkeypatch):
    said_at_request = []
    stderr, stdout = io.StringIO(), io.StringIO()
    send_head = http.server.SimpleHTTPRequestHandler.send_head

    def send_and_note(handler):
        said_at_request.append((stdout.getvalue(), stderr.getvalue()))
        return send_head(handler)

    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "send_head", send_and_note)
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        assert cli.main(["data", "fetch"]) == 0
    (first_out, first_err), (_, second_err) = said_at_request
    assert first_out == (f"to be fetched into {fetch.home()}: 2 files, 0.1 MB or more\n")
    assert re.fullmatch(
        r"fetching public data: greetings, 1 file, 0.1 MB: http://127.*a%20%281%29.txt\n", first_err
    )
    assert re.search(r"greetings, 1 file, 0.1 MB or more: http://127.*b.txt\n$", second_err)


def test_within_nothing_fetched_an_absent_file_is_an_error_and_no_request_is_made(registry):
    with (
        fetch.nothing_fetched(),
        pytest.raises(DreError, match=r"public data are missing \(1 file, 0.1 MB\), such as /"),
    ):
        fetch.fetch("b.txt")
    assert not fetch.home().exists()
    fetch.fetch("b.txt")
    with fetch.nothing_fetched():
        assert fetch.fetch("b.txt").read_bytes() == TEXT


def test_what_cannot_be_fetched_is_one_clear_sentence_and_leaves_no_file(
    registry, monkeypatch, tmp_path
):
    (registry / "a (1).txt").write_bytes(b"something else")
    with pytest.raises(
        DreError,
        match=r"/home/.*a \(1\).txt from http.*a%20%281%29.txt: .*DRE_DATA_HOME.*known hash",
    ):
        fetch.fetch("a (1).txt")
    monkeypatch.setattr(fetch, "RAW", "http://127.0.0.1:9/")
    with pytest.raises(
        DreError, match=r"b.txt from http://127.0.0.1:9/.*DRE_DATA_HOME.*ConnectionError"
    ):
        fetch.fetch("b.txt")
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file()]


def test_alone_it_shows_its_commands(capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([])
    assert end.value.code == 0 and "compare" in capsys.readouterr().out
