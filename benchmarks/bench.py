"""What the package costs in time, beside the obvious other ways; all ratios are of one run on one machine.

- score: test pairs scored in one call, pair by pair with the same model, and by Sentence-Transformers' own ``encode``
  of every text of every pair (no second head, nothing else: the least that a metric of embeddings has to do).
- judges: calls to a local server that answers after a fixed time, by a judge (stored, counted, parsed) and by a bare
  asyncio loop over the same SDK, in turns of which the fastest counts; and a hundred thousand replies replayed.

Results: results/bench/{score,judges}.json, .csv and .md.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "bench"
SERVERS = ROOT / "tests" / "judge_servers.py"
BATCH = 64  # texts per batch, for both ways that have batches
PROMPT = "llm_only"


def fastest(ways, turns):
    """Run each of some functions in turn, `turns` times; returns seconds of each in its fastest turn, and results.

    The processor's seconds stand beside those of the clock: they tell the work from the waiting, and are less hurt by
    whatever else the machine does.
    """
    took, results = {}, {}
    for _ in range(turns):
        for name, way in ways.items():
            start, busy = time.perf_counter(), time.process_time()
            results[name] = way()
            seconds = {"seconds": time.perf_counter() - start, "processor_seconds": time.process_time() - busy}
            took[name] = min(took.get(name, seconds), seconds, key=lambda one: one["seconds"])
    return took, results


def test_pairs(limit):
    """The test pairs of DailyDialog++, all three kinds of response, or where it is absent of the embedded corpus."""
    from dre import dialogues
    from dre.errors import DreError

    try:
        name, contexts = "DailyDialog++ test", dialogues.load("dailydialog++", "test")
    except DreError as error:
        print(f"DailyDialog++ is not here ({error}): the embedded corpus is scored", file=sys.stderr)
        name, contexts = "embedded corpus, test", dialogues.load("mini", "test")
    return name, dialogues.pairs(contexts, "par").iloc[:limit]


def bench_score(limit):
    """Rows and settings of the comparison of scoring; the model is not trained, which changes no time."""
    import torch
    from sentence_transformers.util import pairwise_cos_sim

    from dre import dialogues
    from dre.slm.model import SLM, context_text

    data, table = test_pairs(limit)
    slm = SLM.untrained("minilm")
    slm.calibrate(dialogues.load("mini", "train")[:20])

    def ours():
        slm.known.clear()  # what it has embedded
        return slm.score(table, batch_size=BATCH)["score_slm"]

    def pair_by_pair():
        def one(pair):
            slm.known.clear()
            return slm.score(pair)["score_slm"].iloc[0]

        return [one(table.iloc[[i]]) for i in range(len(table))]

    def encode_all():
        texts = [context_text(turns) for turns in table["context"]], list(table["response"])
        return pairwise_cos_sim(*(slm.encoder.encode(one, batch_size=BATCH, convert_to_tensor=True) for one in texts))

    slm.score(table.iloc[-BATCH:])  # what is loaded lazily
    ways = {
        "one call": ours,
        "pair by pair, the same model, remembering nothing": pair_by_pair,
        "Sentence-Transformers, every text of every pair": encode_all,
    }
    took, results = fastest(ways, turns=1)
    whole, single, _ = results.values()
    apart = max(abs(a - b) for a, b in zip(whole, single))
    first, encoder = took["one call"]["seconds"], slm.encoder
    rows = []
    for way, one in took.items():
        row = {"way": way, "pairs": len(table), **one, "pairs_per_second": len(table) / one["seconds"]}
        rows.append(row | {"times": one["seconds"] / first})
    texts = {*table["response"], *map(context_text, table["context"])}
    settings = {
        "data": f"{data}, {len(table):,} pairs, {2 * len(table):,} texts, {len(texts):,} of them different",
        "encoder": f"MiniLM, {encoder.max_seq_length} tokens, {next(encoder.parameters()).dtype}, {encoder.device}",
        "batch_size": BATCH,
        "threads": torch.get_num_threads(),
        "one call and pair by pair apart by at most": apart,
    }
    return rows, settings


def judge_rows(n):
    """Pairs of our own, each with another text."""
    turns = ("Did you water the plants this morning?", "Which ones do you mean, the ferns or number {}?")
    return [
        {"pair_id": f"bench/{i}", "context": (turns[0], turns[1].format(i)), "response": f"Number {i}, by the door."}
        for i in range(n)
    ]


def bare_loop(url, flying, rows):
    """What one writes without a judge: the same messages through the same SDK, nothing stored, counted or read."""
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
            ways = {"judge, every reply committed": judged, "bare asyncio loop": lambda: bare_loop(url, flying, rows)}
            return fastest(ways, turns)[0]
        finally:
            server.kill()


def bench_replay(folder, stored, turns):
    """Seconds to score pairs whose replies are all stored, opening the store included."""
    from dre import judges
    from dre.judges.store import Reply, Store

    rows, path = judge_rows(stored), Path(folder) / "replay.sqlite"
    judge = judges.open("openai:bench", store=path)
    reply = Reply('{"score": 3.5}', model="bench", input_tokens=300, output_tokens=8, cost=1e-4, seconds=0.2)
    judge.store.put([(asked, reply) for asked, _ in judge.missing(rows, PROMPT)])
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
        took = bench_calls(folder, args.calls, args.flying, args.latency, args.turns)
        replayed, size = bench_replay(folder, args.stored, args.turns)
    bare = took["bare asyncio loop"]["seconds"]
    rows = [{"way": way, "replies": args.calls, **one, "times": one["seconds"] / bare} for way, one in took.items()]
    rows.append({"way": "replay from the store", "replies": args.stored, **replayed, "times": float("nan")})
    settings = {
        "calls": f"{args.calls:,}, {args.flying} in flight, the server answers after {args.latency:g} s",
        "least seconds possible": args.calls / args.flying * args.latency,
        "bare loop": f"openai {version('openai')}, AsyncOpenAI(max_retries=0), a semaphore, the same messages",
        "bytes on disk for each stored reply": round(size),
    }
    return rows, settings


def write(name, caption, rows, settings):
    """Print one comparison and write it as JSON, CSV and Markdown."""
    import pandas as pd

    from dre.report import Table

    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    packages = ("torch", "sentence-transformers", "transformers") if name == "score" else ("openai",)
    settings = {"machine": machine} | settings | {one: version(one) for one in packages}
    settings["load"] = round(os.getloadavg()[0], 2)
    df = pd.DataFrame(rows)
    note = "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in settings.items())
    text = Table(df, name, caption, note).markdown()
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)
    df.to_csv(RESULTS / f"{name}.csv", index=False, float_format="%.6g")
    print(text)


def main():
    """Run what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["score", "judges", []], help="default: both")
    parser.add_argument("--pairs", type=int, metavar="N", help="score only the first N test pairs (default: all)")
    parser.add_argument(
        "--turns", type=int, default=2, metavar="N", help="of each way; the fastest counts (default: 2)"
    )
    parser.add_argument("--calls", type=int, default=500, metavar="N", help="calls to the server (default: 500)")
    parser.add_argument("--flying", type=int, default=50, metavar="N", help="calls in flight (default: 50)")
    parser.add_argument("--latency", type=float, default=0.2, metavar="S", help="seconds of an answer (default: 0.2)")
    parser.add_argument("--stored", type=int, default=100_000, metavar="N", help="replies to replay (default: 100,000)")
    args = parser.parse_args()
    parts = args.parts or ["score", "judges"]
    if "score" in parts:
        write("score", "Scoring pairs of context and response", *bench_score(args.pairs))
    if "judges" in parts:
        write("judges", "Asking a judge, and replaying what it said", *bench_judges(args))


if __name__ == "__main__":
    main()
