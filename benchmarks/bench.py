"""How long does the package take, compared with the obvious other ways of doing the same?

- score: pairs are scored in one call by the small model of the package. Beside it, their distinct
  texts are embedded by Sentence-Transformers' ``encode``, which is the least that any such model
  must do, in batches of 256 and in its usual ones of 32. The pairs are those of all rated sets
  (``dre data fetch``).
- judges: calls to a local server that answers after a fixed time, by a judge (stored, counted,
  parsed) and by a bare asyncio loop over the same SDK.

All ratios are of one run on one machine: ``python benchmarks/bench.py [score] [judges]`` prints
them, in some minutes.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import openai
import pandas as pd

from dre import judges
from dre.datasets import ratings
from dre.judges import prompts
from dre.slm import SLM
from dre.slm.provenance import DEFAULT

SERVERS = Path(__file__).resolve().parents[1] / "tests" / "judge_servers.py"
TURNS = 2
CALLS, AT_ONCE, SECONDS_OF_AN_ANSWER = 500, 50, 0.2


def compare(what: str, functions: dict) -> None:
    """Run each of some functions in turn, and print the seconds of its fastest run.

    ``times`` is how many times the seconds of the first one these are.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(TURNS):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    table = pd.Series({name: min(of_runs) for name, of_runs in seconds.items()}).to_frame("seconds")
    table["times"] = table["seconds"] / table["seconds"].iloc[0]
    print(f"{what}\n{table.round(3).to_string()}\n", flush=True)


def bench_score() -> None:
    """Compare the scoring of pairs with embedding their texts."""
    pairs = pd.concat([ratings.rated(name) for name in ratings.RATED], ignore_index=True)
    slm = SLM.load(DEFAULT)
    texts = list({*slm.contexts(pairs["context"]), *pairs["response"]})

    def one_call():
        slm.forget()  # texts that it has read
        slm.score(pairs)

    def encode(batch_size):
        slm.encoder.encode(texts, batch_size=batch_size)

    encode(32)  # loads what is loaded lazily
    what = f"score: {len(pairs)} pairs, {len(texts)} distinct texts, on {slm.encoder.device}"
    functions = {
        "one call": one_call,
        "Sentence-Transformers, batches of 256": lambda: encode(256),
        "Sentence-Transformers, batches of 32": lambda: encode(32),
    }
    compare(what, functions)


def bench_judges() -> None:
    """Compare a judge, on a new store each time, with a loop that stores and counts nothing."""
    rows = [
        {"pair_id": f"{i}", "context": ["Which plant?"], "response": f"Number {i}, by the door."}
        for i in range(CALLS)
    ]

    async def ask_all(url):
        free = asyncio.Semaphore(AT_ONCE)
        async with openai.AsyncOpenAI(base_url=url, max_retries=0) as client:

            async def one(row):
                messages = prompts.load("llm_only").render(row)
                async with free:
                    await client.chat.completions.create(
                        model="bench", messages=messages, max_tokens=1024
                    )

            await asyncio.gather(*map(one, rows))

    os.environ["OPENAI_API_KEY"] = "bench"  # the server is local
    command = [sys.executable, str(SERVERS), "openai", str(SECONDS_OF_AN_ANSWER)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"

        def judged():
            store = Path(tempfile.mkdtemp(dir=folder)) / "replies.sqlite"
            judge = judges.open("openai:bench", store=store, base_url=url, concurrency=AT_ONCE)
            assert set(judge.score(rows)["status"]) == {"ok"}

        least = CALLS / AT_ONCE * SECONDS_OF_AN_ANSWER
        what = f"judges: {CALLS} calls, {AT_ONCE} at once, {least:g} s at the least"
        functions = {
            "bare asyncio loop": lambda: asyncio.run(ask_all(url)),
            "judge, every reply committed": judged,
        }
        try:
            compare(what, functions)
        finally:
            server.kill()


if __name__ == "__main__":
    parts = {"score": bench_score, "judges": bench_judges}
    for name in sys.argv[1:] or parts:
        parts[name]()
