"""Scoring a file of pairs: memory over its length, pairs a second against other ways, and number formats.

Memory: files of 10,000, 100,000 and 1,000,000 lines, put together from the embedded corpus, go through ``dre score``.
Rates: the same pairs scored by DRE, one pair at a time, by encoding all their texts with Sentence-Transformers, and by
BERTScore with the same encoder. Formats: float32 against bfloat16 and 8-bit integers, and how far scores move.
Every measurement runs in a process of its own. It prints a table and writes results/bench/score.json.
"""

import argparse
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINES = (10_000, 100_000, 1_000_000)
RATES = ("ours", "pair_by_pair", "encode_all", "bertscore")
FORMATS = ("float32", "bfloat16", "int8")


def pairs(limit):
    """Test pairs, a positive of the same context as reference, and where they come from."""
    from dre.data import load
    from dre.data import pairs as table_of
    from dre.errors import DreError

    try:
        contexts, name = load("dailydialog++", "test"), "DailyDialog++"
    except DreError:
        contexts, name = load("mini", "test"), "embedded corpus"
    table = table_of(contexts, "par")
    references = {context.context_id: context.positives[-1] for context in contexts}
    return table.assign(reference=table["context_id"].map(references)).iloc[:limit], name


def write_lines(path, lines, seed=0):
    """Write so many pairs: contexts and responses of the embedded corpus, about 5,000 of each different."""
    from dre.data import load

    contexts = load("mini", "train")
    draw = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(lines):
            context = contexts[draw.randrange(len(contexts))]
            turn = f"{context.turns[0][:60]} {draw.randrange(5_000 // len(contexts))}"
            response = f"{draw.choice(context.positives)[:60]} {draw.randrange(5_000 // len(contexts) // 5 + 1)}"
            record = {"id": i, "system": draw.choice("ab"), "context": [turn], "response": response}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def stream(slm, lines):
    """Score a file of so many lines from end to end."""
    from dre.scoring.run import score_file
    from dre.scoring.scorer import Settings

    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "in.jsonl", Path(folder) / "out.csv"
        write_lines(source, lines)
        start = time.perf_counter()
        summary = score_file(source, output, Settings(slm), progress=False)
        seconds = time.perf_counter() - start
        with open(output, "rb") as file:
            written = sum(1 for _ in file) - 1
    assert written == summary["rows"] == lines
    return {"pairs": lines, "seconds": seconds}


def rate(score, table):
    """Seconds to score a table, after a first few pairs have loaded what is loaded lazily."""
    score(table.iloc[-32:])
    start = time.perf_counter()
    scores = score(table)
    return {"pairs": len(table), "seconds": time.perf_counter() - start, "scores": [float(score) for score in scores]}


def ours(slm, limit):
    from dre import DRE
    from dre.scoring.cache import Embeddings

    metric = DRE.load(slm)

    def score(table):
        metric.scorer.cache = Embeddings()
        return metric.score(table["context"], table["response"])["score"]

    return rate(score, pairs(limit)[0])


def pair_by_pair(slm, limit):
    from dre.slm.model import SLM

    model = SLM.load(slm)
    return rate(lambda table: [model.score(table.iloc[[i]])["score_slm"].iloc[0] for i in range(len(table))],
                pairs(limit)[0])  # fmt: skip


def encode_all(slm, limit):
    """Sentence-Transformers alone: every text of every pair, and the cosine of context and response."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import pairwise_cos_sim

    from dre.slm.encoder import context_text

    model = SentenceTransformer(slm)

    def score(table):
        contexts = model.encode([context_text(turns) for turns in table["context"]], convert_to_tensor=True)
        return pairwise_cos_sim(contexts, model.encode(list(table["response"]), convert_to_tensor=True))

    return rate(score, pairs(limit)[0])


def bertscore(slm, limit):
    """BERTScore of response and reference with the same encoder; the time to load it, with one pair, is taken off."""
    from dre import baselines

    table = pairs(limit)[0]
    result = rate(lambda table: baselines.bertscore(table, slm)["BERTScore"], table)
    start = time.perf_counter()
    baselines.bertscore(table.iloc[:1], slm)
    result["seconds"] -= time.perf_counter() - start
    return result


def in_format(name, slm, limit):
    """Score with the encoder in another number format."""
    import torch

    from dre.slm.model import SLM

    model = SLM.load(slm)
    if name == "bfloat16":
        model.bf16 = True
    elif name == "int8":
        linear, encoder = {torch.nn.Linear}, model.model[0].auto_model
        torch.ao.quantization.quantize_dynamic(encoder, linear, dtype=torch.qint8, inplace=True)
    return rate(lambda table: model.score(table)["score_slm"], pairs(limit)[0])


def part_of(name, slm, size):
    if name == "stream":
        return stream(slm, size)
    return in_format(name, slm, size) if name in FORMATS else globals()[name](slm, size)


def alone(name, slm, size):
    """Run one part in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--part", name, "--slm", str(slm), "--size", str(size)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def train(folder):
    """An SLM trained for an epoch on the embedded corpus: its head has to be trained, its accuracy does not matter."""
    from dre.data import load
    from dre.slm import fit

    fit(load("mini", "train"), [], folder, epochs=1, progress=False)
    return folder


def measure(slm, lines, limit):
    """Return the report."""
    from scipy.stats import spearmanr

    report = {"stream": [alone("stream", slm, size) for size in lines]}
    report["rates"] = {name: alone(name, slm, limit) for name in RATES}
    report["formats"] = {name: alone(name, slm, limit) for name in FORMATS}
    exact = report["formats"]["float32"]["scores"]
    for part in report["formats"].values():
        part["largest_difference"] = max(abs(a - b) for a, b in zip(exact, part["scores"]))
        part["spearman"] = float(spearmanr(exact, part["scores"]).statistic)
    theirs = zip(report["rates"]["ours"]["scores"], report["rates"]["pair_by_pair"]["scores"])
    report["largest_difference_from_pair_by_pair"] = max(abs(a - b) for a, b in theirs)
    for part in (*report["rates"].values(), *report["formats"].values()):
        del part["scores"]
    for part in (*report["stream"], *report["rates"].values(), *report["formats"].values()):
        part["pairs_per_second"] = round(part["pairs"] / part["seconds"], 1)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part")
    parser.add_argument("--size", type=int)
    parser.add_argument(
        "--slm", help="score with this model (default: one trained for an epoch on the embedded corpus)"
    )
    parser.add_argument("--lines", type=int, nargs="+", default=LINES, help="lengths of the streamed files")
    parser.add_argument("--pairs", type=int, default=2000, help="pairs for the rates")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "bench" / "score.json")
    args = parser.parse_args()
    if args.part:
        result = part_of(args.part, args.slm, args.size)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kB on Linux
        print(json.dumps(result | {"peak_mib": round(peak)}))
        return
    from dre.pipeline.preflight import cpu

    with tempfile.TemporaryDirectory() as folder:
        report = measure(args.slm or train(Path(folder) / "slm"), args.lines, args.pairs)
    hardware = {"cpu": cpu(), "cores": os.cpu_count(), "python": platform.python_version()}
    hardware |= {"threads": os.environ.get("OMP_NUM_THREADS", "default"), "load_at_the_end": os.getloadavg()[0]}
    report = {"data": pairs(1)[1], "hardware": hardware} | report
    show(report)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    args.out.with_suffix(".md").write_text(markdown(report))


WORDS = {
    "ours": "`dre score`, all pairs in one call",
    "pair_by_pair": "the same model, one pair after the other",
    "encode_all": "Sentence-Transformers alone, every text of every pair",
    "bertscore": "BERTScore with the same encoder, response and reference",
    "float32": "the model in float32",
    "bfloat16": "in bfloat16 (`--bf16`)",
    "int8": "in 8-bit integers (PyTorch, dynamic)",
}


def markdown(report):
    """Return the report as Markdown tables."""
    import pandas as pd

    from dre.report import Table

    streamed = pd.DataFrame(report["stream"])[["pairs", "seconds", "pairs_per_second", "peak_mib"]].round().astype(int)
    headers = {"times": "Times the first", "peak_mib": "Peak MiB", "largest_difference": "Scores move by at most"}
    hardware = f"{report['hardware']['cpu']}, {report['hardware']['cores']} cores"
    tables = [
        Table(
            "stream", streamed, f"A file of so many lines, about 5,000 of them different ({hardware})", headers=headers
        )
    ]
    first = {"rates": "ours", "formats": "float32"}
    for group, caption in (
        ("rates", f"{report['data']}, pairs of context and response"),
        ("formats", "Number formats"),
    ):
        parts = report[group]
        rows = pd.DataFrame(parts).T.assign(way=[WORDS[name] for name in parts])
        rows["times"] = rows["pairs_per_second"] / rows.loc[first[group], "pairs_per_second"]
        names = ["way", "pairs", "pairs_per_second", "times", "peak_mib", "largest_difference", "spearman"]
        rows = rows[[name for name in names if name in rows]].astype({"pairs": int, "peak_mib": int})
        digits = {"pairs_per_second": 1, "largest_difference": 4, "spearman": 4}
        tables.append(Table(group, rows, caption, digits=digits, headers=headers))
    return "\n".join(table.markdown() for table in tables)


def show(report):
    print(f"{report['data']}, {report['hardware']['cpu']}, {report['hardware']['cores']} cores")
    rows = [("stream", part) for part in report["stream"]] + [*report["rates"].items(), *report["formats"].items()]
    for name, part in rows:
        speed = f"{part['pairs']:>9,} pairs {part['seconds']:>8.1f} s {part['pairs_per_second']:>9,.1f} pairs/s"
        moved = f"  scores move by up to {part['largest_difference']:.1e}" if "largest_difference" in part else ""
        print(f"{name:<13} {speed}  peak {part['peak_mib']:,} MiB{moved}")
    apart = report["largest_difference_from_pair_by_pair"]
    print(f"scores of one call and of pairs one by one are apart by at most {apart:.1e}")


if __name__ == "__main__":
    main()
