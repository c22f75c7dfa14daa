"""Training and scoring throughput of the SLM against the plain ways, same data, same run, each in its own process.

Training: contexts with all their triplets, each text encoded once a step, against the stock Sentence-Transformers
trainer with its TripletLoss, which encodes three texts a triplet. Same contexts a step, same loss (Eq. 12), float32.
Scoring: all test pairs in one call, against encoding context and response of one pair after the other.

Run ``python benchmarks/bench_slm.py``; it prints a table and writes results/bench/slm.json. It takes DailyDialog++
where DRE_DATA_HOME has it, else the embedded corpus.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONTEXTS = 8  # a step, in both trainers


def corpus():
    """Training and test contexts and their name."""
    from dre.data import load
    from dre.errors import DreError

    try:
        return load("dailydialog++", "dev"), load("dailydialog++", "test"), "DailyDialog++"
    except DreError:
        return load("mini", "train"), load("mini", "test"), "embedded corpus"


def parts():
    """The untrained SLM that every part starts from, and the recipe cut down to Eq. 12 on whole embeddings."""
    import torch
    from sentence_transformers import SentenceTransformer

    from dre.slm import recipes
    from dre.slm.encoder import load_encoder
    from dre.slm.head import Head

    torch.manual_seed(0)
    base = load_encoder("minilm")
    stage = recipes.Stage("bench", ("L_out",), 1)
    recipe = recipes.Recipe("bench", sep="maps", pairs="all", stages=(stage,), contrast="whole")
    return SentenceTransformer(modules=[*base, Head(base.get_embedding_dimension())]), recipe, stage


def plain_rows(contexts):
    """One row a triplet, as the stock trainer wants it."""
    from dre.slm.encoder import context_text

    return [
        {"anchor": context_text(c.turns), "positive": p, "negative": a}
        for c in contexts
        for p in c.positives
        for a in c.adversarials
    ]


def train(loss, rows, batch_size, collator=None):
    """Run one epoch over ``rows`` with the Sentence-Transformers trainer and return its seconds."""
    import torch
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=batch_size,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        )
        trainer = SentenceTransformerTrainer(
            model=loss.model, args=arguments, train_dataset=rows, loss=loss, data_collator=collator
        )
        start = time.perf_counter()
        trainer.train()
        return time.perf_counter() - start


def stock_loss(model):
    """Sentence-Transformers' own TripletLoss with the paper's distance and margin."""
    from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric, TripletLoss

    return TripletLoss(model, distance_metric=TripletDistanceMetric.COSINE, triplet_margin=0.5)


def train_ours(steps):
    from datasets import Dataset

    from dre.slm.batching import Collator, training_rows
    from dre.slm.encoder import context_text
    from dre.slm.objective import Objective

    model, recipe, stage = parts()
    contexts = corpus()[0][: steps * CONTEXTS]
    rows = Dataset.from_list(training_rows(contexts, context_text))
    collate = Collator(model.preprocess, recipe.pairs)
    seconds = train(Objective(model, recipe, stage), rows, CONTEXTS, collate)
    return {"pairs": 2 * len(plain_rows(contexts)), "seconds": seconds}


def train_plain(steps):
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

    model, _, _ = parts()
    rows = plain_rows(corpus()[0][: steps * CONTEXTS])
    loss = stock_loss(SentenceTransformer(modules=list(model)[:-1]))
    seconds = train(loss, Dataset.from_list(rows), CONTEXTS * 25)
    return {"pairs": 2 * len(rows), "seconds": seconds}


def loss_difference(_):
    """|ours - stock| on the same batch of contexts, float32, no dropout."""
    import torch
    from sentence_transformers import SentenceTransformer

    from dre.slm.batching import Collator, training_rows
    from dre.slm.encoder import context_text
    from dre.slm.objective import Objective

    model, recipe, stage = parts()
    model.eval()
    contexts = corpus()[0][:CONTEXTS]
    batch = Collator(model.preprocess, recipe.pairs)(training_rows(contexts, context_text))
    chunks = {}
    for key, value in batch.items():
        if key.startswith("chunk"):
            name, feature = key.split("_", 1)
            chunks.setdefault(name, {})[feature] = value
    plain = SentenceTransformer(modules=list(model)[:-1])
    rows = plain_rows(contexts)
    columns = [plain.preprocess([row[key] for row in rows]) for key in ("anchor", "positive", "negative")]
    with torch.no_grad():
        ours = Objective(model, recipe, stage)(list(chunks.values()), batch["label"])["L_out"]
        stock = stock_loss(plain)(columns, None)
    return {"ours": ours.item(), "stock": stock.item(), "difference": abs(ours.item() - stock.item())}


def scored(limit):
    """The SLM and the pairs to score."""
    from dre.data import pairs
    from dre.slm.model import SLM

    model, recipe, _ = parts()
    training, test, _ = corpus()
    slm = SLM(model, recipe)
    slm.calibrate(training[:20])
    return slm, pairs(test, "par")[:limit]


def score_ours(limit):
    slm, table = scored(limit)
    start = time.perf_counter()
    scores = slm.score(table)["score_slm"]
    return {"pairs": len(table), "seconds": time.perf_counter() - start, "scores": list(scores)}


def score_plain(limit):
    slm, table = scored(limit)
    start = time.perf_counter()
    scores = [slm.score(table.iloc[[i]])["score_slm"].iloc[0] for i in range(len(table))]
    return {"pairs": len(table), "seconds": time.perf_counter() - start, "scores": scores}


PARTS = {f.__name__: f for f in (train_ours, train_plain, loss_difference, score_ours, score_plain)}


def alone(name, size):
    """Run one part in a process of its own, so that its peak memory is its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--part", name, "--size", str(size)], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--size", type=int)
    parser.add_argument("--steps", type=int, default=6, help="training steps of 8 contexts (200 triplets)")
    parser.add_argument("--pairs", type=int, default=None, help="score only the first so many test pairs")
    args = parser.parse_args()
    if args.part:
        result = PARTS[args.part](args.size if args.size >= 0 else None)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(result | {"peak_mib": round(peak)}))
        return
    from dre.pipeline.preflight import cpu

    limit = -1 if args.pairs is None else args.pairs
    found = {name: alone(name, args.steps if name.startswith("train") else limit) for name in PARTS}
    apart = max(abs(a - b) for a, b in zip(found["score_ours"].pop("scores"), found["score_plain"].pop("scores")))
    report = {
        "data": corpus()[2],
        "hardware": {"cpu": cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "parts": found,
        "training_speedup": speedup(found["train_ours"], found["train_plain"]),
        "scoring_speedup": speedup(found["score_ours"], found["score_plain"]),
        "loss_difference": found["loss_difference"]["difference"],
        "largest_score_difference": apart,
    }
    show(report)
    target = Path(__file__).parents[1] / "results" / "bench" / "slm.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=1) + "\n")


def speedup(fast, slow):
    return (fast["pairs"] / fast["seconds"]) / (slow["pairs"] / slow["seconds"])


def show(report):
    print(f"{report['data']}, {report['hardware']['cpu']}, {report['hardware']['cores']} cores")
    for name in ("train_ours", "train_plain", "score_ours", "score_plain"):
        part = report["parts"][name]
        rate = part["pairs"] / part["seconds"]
        speed = f"{part['pairs']:>7} pairs {part['seconds']:>8.1f} s {rate:>9.1f} pairs/s"
        print(f"{name:<12} {speed}  peak {part['peak_mib']} MiB")
    training, scoring = report["training_speedup"], report["scoring_speedup"]
    print(f"training {training:.1f} times, loss on one batch apart by {report['loss_difference']:.1e}")
    print(f"scoring  {scoring:.1f} times, scores apart by at most {report['largest_score_difference']:.1e}")


if __name__ == "__main__":
    main()
