"""How long does the package take, compared with the obvious other ways of doing the same?

- score: test pairs, of which ten share a context, are scored in one call by the small model of the
  package. Beside it, their distinct texts are embedded by Sentence-Transformers' ``encode``, which
  is the least that any such model must do, and the same call with encoders that return at once,
  which leaves the Python code of the package. ``--against FOLDER`` also scores the same pairs by
  the package of another checkout, in turns with this one, each in a process of its own.
- judges: calls to a local server that answers after a fixed time, by a judge (stored, counted,
  parsed) and by a bare asyncio loop over the same SDK; and a hundred thousand replies replayed.

All ratios are of one run on one machine. It takes some minutes, and makes
results/bench/{score,judges}.csv and .md.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "bench"
SERVERS = ROOT / "tests" / "judge_servers.py"
PROMPT = "llm_only"

# What a process of its own runs, with the package of any version: it reads pairs from standard
# input, scores them, and prints how long that took and the scores.
SCORE_IN_PROCESS = """
import json, sys, time
import pandas as pd
from dre.slm.model import DEFAULT, SLM

pairs = pd.DataFrame(json.load(sys.stdin))
pairs["context"] = [tuple(turns) for turns in pairs["context"]]
slm = SLM.load(DEFAULT)
slm.score(pairs.iloc[-8:])  # loads what is loaded lazily
getattr(slm, "forget", lambda: None)()
start = time.perf_counter()
processor_start = time.process_time()
scores = slm.score(pairs)["score_slm"]
seconds = time.perf_counter() - start
processor_seconds = time.process_time() - processor_start
print(json.dumps([seconds, processor_seconds, list(scores)]))
"""


def fastest(functions, turns, by="seconds"):
    """Run each of some functions in turn, `turns` times.

    Returns seconds of each in its fastest turn, and what each returned. Beside the seconds of the
    clock are those of the processor: they tell work from waiting, and suffer less from what else
    the machine does. A function may return (seconds, processor seconds, result) itself.
    """
    timings, results = {}, {}
    for _ in range(turns):
        for name, function in functions.items():
            start = time.perf_counter()
            processor_start = time.process_time()
            result = function()
            timing = {
                "seconds": time.perf_counter() - start,
                "processor_seconds": time.process_time() - processor_start,
            }
            if isinstance(result, tuple):
                timing["seconds"], timing["processor_seconds"], result = result
            results[name] = result
            if name not in timings or timing[by] < timings[name][by]:
                timings[name] = timing
    return timings, results


def test_pairs(limit):
    """Return test pairs of DailyDialog++, or of the embedded corpus where it is absent.

    Ten share a context: its five positive and its five adversarial responses.
    """
    from dre.datasets import dialogues
    from dre.errors import DreError

    try:
        name = "DailyDialog++ test"
        contexts = dialogues.load("dailydialog++", "test")
    except DreError as error:
        print(
            f"DailyDialog++ is not here ({error}): the embedded corpus is scored", file=sys.stderr
        )
        name = "embedded corpus, test"
        contexts = dialogues.load("mini", "test")
    return name, dialogues.pairs(contexts, "pa").iloc[:limit]


def rated_pairs():
    """Return the pairs of all rated sets, of which about three share a context; None without them.

    These contexts are longer than those of the test pairs.
    """
    import pandas as pd

    from dre.datasets import ratings
    from dre.errors import DreError

    try:
        return pd.concat([ratings.rated(name) for name in ratings.RATED], ignore_index=True)
    except DreError:
        return None


def score_in_process(folder, pairs):
    """Score pairs with the package of a checkout; return seconds, processor seconds and scores."""
    columns = pairs[["pair_id", "context", "response"]].to_dict("list")
    process = subprocess.run(
        [sys.executable, "-c", SCORE_IN_PROCESS],
        env=os.environ | {"PYTHONPATH": str(folder)},
        input=json.dumps(columns),
        cwd=folder,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise SystemExit(f"the package in {folder} did not score: {process.stderr}")
    return tuple(json.loads(process.stdout))


@contextlib.contextmanager
def instant_encoders(slm):
    """Let both encoders of a model return the same vector for each text, at once."""
    import torch

    vector = torch.randn(slm.encoder.get_embedding_dimension(), device=slm.encoder.device)

    def forward(features):
        return {"sentence_embedding": vector.expand(len(features["input_ids"]), -1)}

    with (
        mock.patch.object(slm.encoder, "forward", forward),
        mock.patch.object(slm.base.encoder, "forward", forward),
    ):
        yield


def measures_of(timing, n_pairs):
    """Return what a table shows of the time that some pairs took."""
    return {
        "seconds": timing["seconds"],
        "processor_seconds": timing["processor_seconds"],
        "processor_ms_per_pair": 1000 * timing["processor_seconds"] / n_pairs,
    }


def bench_score(sizes, turns, against=None):
    """Return rows and settings of the comparison of scoring, for several numbers of pairs."""
    import torch

    from dre.slm.model import DEFAULT, SLM

    slm = SLM.load(DEFAULT)

    def one_call(table):
        slm.forget()  # texts that it has read
        return slm.score(table)["score_slm"]

    rows = []
    for limit in sizes:
        data, table = test_pairs(limit)
        contexts = [slm.context(dialogue) for dialogue in table["context"]]
        texts = list(dict.fromkeys([*contexts, *table["response"]]))

        def without_encoder(table=table):
            with instant_encoders(slm):
                return one_call(table)

        def encode(texts=texts):
            return slm.encoder.encode(texts, convert_to_tensor=True)

        slm.score(table.iloc[-8:])  # loads what is loaded lazily
        functions = {
            "one call": partial(one_call, table),
            "one call, encoders that return at once": without_encoder,
            "Sentence-Transformers, distinct texts": encode,
        }
        if against:
            functions["one call in a process of its own"] = partial(score_in_process, ROOT, table)
            functions["the same, earlier version"] = partial(score_in_process, against, table)
        timings, _ = fastest(functions, turns, by="processor_seconds")

        compared_with = timings["one call"]["processor_seconds"]
        for name, timing in timings.items():
            processor_seconds = timing["processor_seconds"]
            if name == "the same, earlier version":
                compared_with = timings["one call in a process of its own"]["processor_seconds"]
            rows.append(
                {
                    "way": name,
                    "pairs": len(table),
                    "texts": len(texts),
                    **measures_of(timing, len(table)),
                    "times": processor_seconds / compared_with,
                }
            )

    rated = rated_pairs()
    if rated is not None:
        with instant_encoders(slm):
            timings, _ = fastest({"rated": partial(one_call, rated)}, turns, "processor_seconds")
        texts = {*rated["response"], *slm.contexts(rated["context"])}
        row = {"way": "encoders that return at once, rated sets", "pairs": len(rated)}
        rows.append(row | {"texts": len(texts)} | measures_of(timings["rated"], len(rated)))

    precision = next(slm.encoder.parameters()).dtype
    settings = {
        "data": f"{data}; texts are distinct ones: contexts and responses",
        "model": f"{slm.provenance['name']}, {precision}, {slm.encoder.device}",
        "threads": torch.get_num_threads(),
        "turns, of which the fastest counts": turns,
    }
    if against:
        command = ["git", "-C", against, "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        settings["earlier version"] = f"{commit}, compared with the row above it"
    return rows, settings


def judge_rows(n):
    """Pairs of our own, each with another text."""
    turns = (
        "Did you water the plants this morning?",
        "Which ones do you mean, the ferns or number {}?",
    )
    return [
        {
            "pair_id": f"bench/{i}",
            "context": (turns[0], turns[1].format(i)),
            "response": f"Number {i}, by the door.",
        }
        for i in range(n)
    ]


def bare_loop(url, flying, rows):
    """Ask without a judge: the same messages through the same SDK, nothing stored or counted."""
    import openai

    from dre.judges import prompts

    prompt = prompts.load(PROMPT)

    async def ask_all():
        async with openai.AsyncOpenAI(base_url=url, max_retries=0) as client:
            free = asyncio.Semaphore(flying)

            async def one(row):
                async with free:
                    reply = await client.chat.completions.create(
                        model="bench", messages=prompt.render(row), max_tokens=1024
                    )
                    return reply.choices[0].message.content

            return await asyncio.gather(*map(one, rows))

    return asyncio.run(ask_all())


def bench_calls(folder, calls, flying, latency, turns):
    """Seconds of a judge, on a new store each time, and of the bare loop."""
    from dre import judges

    rows = judge_rows(calls)
    command = [sys.executable, str(SERVERS), "openai", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"

            def judged(rows=rows):
                store = Path(tempfile.mkdtemp(dir=folder)) / "replies.sqlite"
                judge = judges.open("openai:bench", store=store, base_url=url, concurrency=flying)
                table = judge.score(rows, PROMPT)
                assert set(table["status"]) == {"ok"} and judge.last.calls == len(rows)

            judged(rows[:1])  # imports
            functions = {
                "judge, every reply committed": judged,
                "bare asyncio loop": lambda: bare_loop(url, flying, rows),
            }
            return fastest(functions, turns)[0]
        finally:
            server.kill()


def bench_replay(folder, stored, turns):
    """Seconds to score pairs whose replies are all stored, opening the store included."""
    from dre import judges
    from dre.judges import prompts
    from dre.judges.providers import Reply
    from dre.judges.store import Store

    rows, path = judge_rows(stored), Path(folder) / "replay.sqlite"
    judge = judges.open("openai:bench", store=path)
    reply = Reply('{"score": 3.5}', model="bench", input_tokens=300, output_tokens=8)
    for request in judge.requests(rows, prompts.load(PROMPT)):
        judge.store.put(request, reply, cost=1e-4, seconds=0.2)
    judge.store.close()

    def replay():
        store = Store(path)
        table = judges.open("openai:bench", store=store).score(rows, PROMPT)
        store.close()
        assert len(table) == stored and set(table["status"]) == {"ok"}

    return fastest({"replay": replay}, turns)[0]["replay"], path.stat().st_size / stored


def bench_judges(args):
    """Rows and settings of the comparison of judges."""
    os.environ["OPENAI_API_KEY"] = "bench"
    with tempfile.TemporaryDirectory() as folder:
        timings = bench_calls(folder, args.calls, args.flying, args.latency, args.turns)
        replay, bytes_per_reply = bench_replay(folder, args.stored, args.turns)
    bare_seconds = timings["bare asyncio loop"]["seconds"]
    rows = []
    for name, timing in timings.items():
        times = timing["seconds"] / bare_seconds
        rows.append({"way": name, "replies": args.calls, **timing, "times": times})
    rows.append(
        {"way": "replay from the store", "replies": args.stored, **replay, "times": float("nan")}
    )
    settings = {
        "calls": f"{args.calls:,}, {args.flying} in flight, "
        f"the server answers after {args.latency:g} s",
        "least seconds possible": args.calls / args.flying * args.latency,
        "bare loop": f"openai {version('openai')}, AsyncOpenAI(max_retries=0), "
        "a semaphore, the same messages",
        "bytes on disk for each stored reply": round(bytes_per_reply),
    }
    return rows, settings


def write(name, caption, rows, settings):
    """Print one comparison and write it as CSV and Markdown."""
    import pandas as pd

    from dre.tables import Table

    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    packages = (
        ("torch", "sentence-transformers", "transformers") if name == "score" else ("openai",)
    )
    versions = {package: version(package) for package in packages}
    settings = {"machine": machine} | settings | versions
    settings |= {"load": round(os.getloadavg()[0], 2)}
    df = pd.DataFrame(rows)
    note = "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in settings.items())
    text = Table(df, name, caption, note).markdown()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    df.to_csv(RESULTS / f"{name}.csv", index=False, float_format="%.6g")
    print(text)


def main():
    """Run what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    option = parser.add_argument
    option("part", nargs="?", choices=["score", "judges"], help="default: score and judges")
    option(
        "--pairs",
        type=int,
        nargs="+",
        default=[450],
        metavar="N",
        help="the first N test pairs (default: 450)",
    )
    option(
        "--against", metavar="FOLDER", help="score: a checkout of another version to compare with"
    )
    option(
        "--turns",
        type=int,
        default=2,
        metavar="N",
        help="of each way; the fastest counts (default: 2)",
    )
    option("--calls", type=int, default=500, metavar="N", help="calls to the server (default: 500)")
    option("--flying", type=int, default=50, metavar="N", help="calls in flight (default: 50)")
    option(
        "--latency",
        type=float,
        default=0.2,
        metavar="S",
        help="seconds of an answer (default: 0.2)",
    )
    option(
        "--stored",
        type=int,
        default=100_000,
        metavar="N",
        help="replies to replay (default: 100,000)",
    )
    args = parser.parse_args()
    if args.part in (None, "score"):
        rows, settings = bench_score(args.pairs, args.turns, args.against)
        caption = "Scoring pairs of context and response, times in processor seconds"
        write("score", caption, rows, settings)
    if args.part in (None, "judges"):
        write("judges", "Asking a judge, and replaying what it said", *bench_judges(args))


if __name__ == "__main__":
    main()
