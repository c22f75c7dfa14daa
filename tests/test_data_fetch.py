import errno
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dre.data import fetch, registry
from dre.errors import DreError

ROOT = Path(__file__).resolve().parents[1]
CONTENT = b'{"id": 0}\n' * 5000
SOURCE = registry.Source(
    name="small",
    owner="someone",
    repository="something",
    commit="0" * 40,
    path="models/1.0/A (b + c) #1.json",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    git_blob=None,
    licence="none",
    citation="none",
    what="a file of the tests",
)
ADDRESS = f"/someone/something/{'0' * 40}/models/1.0/A%20%28b%20%2B%20c%29%20%231.json"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        how = self.server.how
        if how == "hang":
            self.server.release.wait(20)
            return
        if how == "missing" or self.path != ADDRESS:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        body = {"truncated": CONTENT[:-7], "stall": CONTENT[:9000], "wrong": CONTENT[:-1] + b"!"}.get(how, CONTENT)
        self.wfile.write(body)
        self.wfile.flush()
        if how == "stall":
            self.server.release.wait(20)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A local stand-in for GitHub's raw file service, and an empty data directory."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.how, server.release = [], "well", threading.Event()
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setattr(fetch, "RAW", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(fetch, "TIMEOUT", (0.5, 0.5))
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()


def files(home):
    return [path for path in home.rglob("*") if path.is_file()]


def test_fetch_then_no_network(server):
    path = fetch.local(SOURCE)
    assert path == fetch.home() / "github/someone/something" / ("0" * 40) / "models/1.0/A (b + c) #1.json"
    assert path.read_bytes() == CONTENT
    assert files(fetch.home()) == [path]
    assert os.stat(path).st_mode & 0o444 == 0o444 & ~fetch._umask()
    assert fetch.local(SOURCE) == fetch.fetch(SOURCE) == path
    assert server.asked == [ADDRESS]
    fetch.fetch(SOURCE, force=True)
    assert server.asked == [ADDRESS, ADDRESS]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "answered 404, expected 200"),
        ("truncated", "cannot download|has sha256"),
        ("stall", "cannot download|did not answer in time"),
        ("wrong", "has sha256 .*, expected " + SOURCE.sha256),
        ("hang", "did not answer in time"),
    ],
)
def test_a_bad_answer_is_one_clear_error_and_no_file(server, how, message):
    server.how = how
    start = time.monotonic()
    with pytest.raises(DreError, match=message) as error:
        fetch.local(SOURCE)
    assert time.monotonic() - start < 5
    assert "\n" not in str(error.value)
    assert files(fetch.home()) == []
    server.how = "well"
    assert fetch.local(SOURCE).read_bytes() == CONTENT  # nothing is left that stands in the way


def test_no_network_is_one_clear_error(server):
    server.shutdown()
    server.server_close()
    start = time.monotonic()
    with pytest.raises(DreError, match="cannot download .* connect to the network, or point DRE_DATA_HOME"):
        fetch.local(SOURCE)
    assert time.monotonic() - start < 5


def test_a_failed_forced_fetch_keeps_the_old_file(server):
    path = fetch.local(SOURCE)
    server.how = "wrong"
    with pytest.raises(DreError):
        fetch.fetch(SOURCE, force=True)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"!", CONTENT[:100], b""])
def test_a_changed_file_is_refused(server, content):
    path = fetch.local(SOURCE)
    path.write_bytes(content)
    os.utime(path, (1, 1))
    for call in (fetch.local, fetch.fetch, fetch.verify):
        with pytest.raises(DreError, match="run `dre data fetch --force small`") as error:
            call(SOURCE)
        assert str(path) in str(error.value)
        assert hashlib.sha256(content).hexdigest() in str(error.value)
        assert SOURCE.sha256 in str(error.value)
    fetch.fetch(SOURCE, force=True)
    assert path.read_bytes() == CONTENT


def test_a_file_is_hashed_once_a_process(server, monkeypatch):
    path = fetch.local(SOURCE)
    monkeypatch.setattr(fetch, "sha256", None)
    assert fetch.local(SOURCE) == path


def test_git_blob_id(server, tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    git = subprocess.run(["git", "hash-object", "--no-filters", "file"], cwd=tmp_path, capture_output=True, text=True)
    assert fetch.git_blob(tmp_path / "file") == git.stdout.strip()
    by_blob = replace(SOURCE, sha256=None, git_blob=git.stdout.strip())
    assert fetch.local(by_blob).read_bytes() == CONTENT
    other = replace(by_blob, git_blob="0" * 40)
    with pytest.raises(DreError, match=f"git blob id {git.stdout.strip()}, expected {'0' * 40}"):
        fetch.fetch(other, force=True)


def test_a_data_directory_that_cannot_be_written(server, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path / "file"))
    with pytest.raises(DreError, match="cannot write .* set DRE_DATA_HOME"):
        fetch.local(SOURCE)


def test_a_full_disk(server):
    """The kernel refuses to let the file grow, as a full disk does."""
    code = (
        "import resource, signal, sys\n"
        "from dre.data import fetch\n"
        "from dre.errors import DreError\n"
        "from tests.test_data_fetch import SOURCE\n"
        f"fetch.RAW = {fetch.RAW!r}\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try:\n    fetch.local(SOURCE)\n"
        "except DreError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert "cannot write" in done.stdout and "free space there" in done.stdout, done.stderr
    assert os.strerror(errno.EFBIG) in done.stdout
    assert files(fetch.home()) == []


def test_a_killed_download_leaves_nothing_under_the_final_name(server):
    server.how = "stall"
    code = (
        "from dre.data import fetch\n"
        "from tests.test_data_fetch import SOURCE\n"
        f"fetch.RAW, fetch.TIMEOUT = {fetch.RAW!r}, (20, 20)\n"
        "fetch.local(SOURCE)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    deadline = time.monotonic() + 30
    while not server.asked and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)  # some of the content has arrived
    child.kill()
    child.wait(10)
    assert server.asked and not (fetch.home() / SOURCE.relative).exists()
    server.how = "well"
    assert fetch.local(SOURCE).read_bytes() == CONTENT


def test_home_is_the_environment_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path))
    assert fetch.home() == tmp_path
    monkeypatch.delenv("DRE_DATA_HOME")
    assert fetch.home().name == "dre"
