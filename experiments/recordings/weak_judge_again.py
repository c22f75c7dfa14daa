"""Ask the weak judge once more: about our numbers with a wider spread, and word by word.

The judge, its prompts and how it is read are those of ``weak_judge.py``. It reacts to shown sums
below 0.4 and above 1.8 only, and 93 % of the numbers of recipe ``ours`` lie between 0.6 and 1.4. So
its first asking cannot say whether it does not follow *our* numbers, or no numbers of that range.
All of this was fixed before the first call:

``cases``
    The cases of ``data/cases.jsonl`` with the prompts ``llm_only`` and ``dre``. The numbers are
    those of the training behind the recorded scores of recipe ``paper``, DailyDialog, seed 0
    (``experiments/small_model/difference.py``). Prompt, reply and log-probabilities are kept word
    by word in ``cases.jsonl``, since these texts are our own.
``dre_ours``
    A control of machine and version: 40 of the 611 pairs, drawn with seed 1, are shown again what
    they were shown.
``dre_ours_stretched``
    All 611 pairs. Each is shown the ``(s_d, s_p)`` of that pair of its set whose sum has the same
    rank among the numbers shown as *paper*. So the order of *our* sums, and their Spearman
    correlation with anything, stay; ties are broken by the order of asking. ``shown`` names the
    pair whose numbers they are.

The accuracies told are 91.05 % and 88.91 %, as in the first asking. Pairs are asked in the order of
the first asking, the sets in turn. A reply is read twice: as the expected value of the ratings 0 to
5, and (``..._reply``) as the number that it says.

It writes ``data/recorded/qwen2.5-coder-1.5b/again/`` after each call. One to two hours of two idle
cores; it may be killed at any time, and the same command goes on:

    python experiments/recordings/weak_judge_again.py --llama-server FILE --model-file FILE

``--draw FOLDER`` only writes the numbers, with the training in FOLDER for the cases.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import weak_judge
from weak_judge import Condition

from dre import fusion
from dre.datasets import ratings, recordings
from dre.datasets.registry import PROJECT, read_jsonl
from dre.errors import DreError
from dre.files import replace
from dre.judges.store import Stored

FOLDER = weak_judge.FOLDER / "again"
N_AGAIN = 40
SEED = 1
#: How the numbers are called that are shown with a condition, in the manifest.
STRETCHED = Condition(
    "dre_ours_stretched",
    numbers="dre_inputs_stretched.csv",
    says="the numbers of `paper`, dealt out by the ranks of `ours`",
)
AGAIN = Condition("dre_ours", numbers="dre_inputs_ours.csv", says="the numbers of `ours`, again")
PLAIN_CASES = Condition("llm_only", "llm_only")
CASES = Condition(
    "dre",
    numbers="dre_inputs_cases.csv",
    says="the numbers of a training of recipe `paper` (DailyDialog, seed 0)",
)


# What is shown


def cases() -> pd.DataFrame:
    """Return our cases, a row for each reply: ``pair_id, context, response``."""
    rows = []
    for case in read_jsonl(PROJECT / "data" / "cases.jsonl"):
        for number, response in enumerate(case["responses"], 1):
            pair_id = f"cases/{case['id']}/{number}"
            rows.append({"pair_id": pair_id, "context": case["context"], "response": response})
    return pd.DataFrame(rows)


def stretch(ours: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Give each pair the numbers of the pair of its set that has the same rank by their sum.

    Parameters
    ----------
    ours, paper : ``s_d`` and ``s_p`` by ``pair_id``, of the same pairs.

    Returns
    -------
    By ``pair_id``, in the order of ``ours``: ``shown``, whose row of ``paper`` it is, ``s_d, s_p``.
    """
    shown = pd.Series(index=ours.index, dtype=object)
    set_names = ours.index.str.partition("/").get_level_values(0)
    for _, pair_ids in ours.index.to_series().groupby(set_names):
        own_sums = fusion.s_c(ours["s_d"], ours["s_p"])[pair_ids]
        paper_sums = fusion.s_c(paper["s_d"], paper["s_p"])[pair_ids]
        by_own_rank = own_sums.sort_values(kind="stable").index
        by_paper_rank = paper_sums.sort_values(kind="stable").index
        shown[by_own_rank] = list(by_paper_rank)
    stretched = paper.loc[shown].set_axis(ours.index)
    stretched.insert(0, "shown", shown)
    return stretched


def write_numbers(model_folder: Path) -> None:
    """Write what the judge is shown: stretched numbers, those of the control and of the cases."""
    from dre.slm import SLM

    ours = recordings.numbers_shown(weak_judge.JUDGE, "dre_inputs_ours.csv")
    paper = recordings.numbers_shown(weak_judge.JUDGE, "dre_inputs.csv")
    drawn = np.random.default_rng(SEED).choice(len(ours), N_AGAIN, replace=False)
    of_cases = SLM.load(model_folder).score(cases()).set_index("pair_id")
    tables = {
        STRETCHED: stretch(ours, paper.loc[ours.index]),
        AGAIN: ours.iloc[np.sort(drawn)],
        CASES: of_cases[["s_d", "s_p"]],
    }
    for condition, table in tables.items():
        text = table.to_csv(float_format="%.6f", lineterminator="\n")
        replace(FOLDER / condition.numbers, text)


def calls() -> list[tuple[Condition, dict]]:
    """Return what is asked, in this order: a condition and the row that fills its prompt."""
    rated = pd.concat([ratings.rated(name) for name in weak_judge.SETS])
    texts = pd.concat([cases(), rated[["pair_id", "context", "response"]]])
    texts = texts.set_index("pair_id", drop=False)
    in_turn = weak_judge.in_turn(pd.read_csv(weak_judge.DRAWN), "asked")
    case_ids = list(cases()["pair_id"])
    ids_by_condition = {PLAIN_CASES: case_ids, CASES: case_ids, AGAIN: in_turn, STRETCHED: in_turn}
    asked = []
    for condition, pair_ids in ids_by_condition.items():
        table = texts.loc[pair_ids]
        if condition.numbers:
            numbers = pd.read_csv(FOLDER / condition.numbers, index_col="pair_id")
            table = table.join(numbers[["s_d", "s_p"]], how="inner")
            table = table.assign(**weak_judge.accuracies())
            table["score_slm"] = fusion.s_c(table["s_d"], table["s_p"])
        asked += [(condition, row) for row in table.to_dict("records")]
    return asked


# The recording


def lines_of(condition: Condition, pair_id: str, verdicts: dict, reply: Stored) -> list[dict]:
    """Return what was read in a reply as lines of ``judgements.jsonl``, one for each reading."""
    lines = []
    for ending, verdict in verdicts.items():
        line = {"pair_id": pair_id, "prompt": condition.name + ending}
        if verdict["status"] == "ok":
            line["score"] = round(float(verdict["score_llm"]), 6)
            if condition.prompt.influence:
                line["influence"] = round(float(verdict["s_inf"]), 4)
        else:
            line["status"] = verdict["status"]
        if not ending:  # both readings are of one call
            line["seconds"] = round(reply.seconds, 2)
            line["tokens"] = [reply.reply.input_tokens, reply.reply.output_tokens]
        lines.append(line)
    return lines


def word_by_word(condition: Condition, row: dict, request, reply: Stored) -> dict:
    """Return the line of ``cases.jsonl``: prompt, reply, and its tokens with log-probabilities."""
    top = []
    for token, candidates in reply.reply.top:
        top.append([token, {name: round(logprob, 4) for name, logprob in candidates.items()}])
    numbers = {name: row[name] for name in ("s_d", "s_p") if name in row}
    return {
        "pair_id": row["pair_id"],
        "prompt": condition.name,
        **numbers,
        "messages": request.messages,
        "reply": reply.reply.text,
        "top": top,
    }


def append(file_name: str, records: list[dict]) -> None:
    """Add lines to a file of the recording."""
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    with (FOLDER / file_name).open("a", encoding="utf-8") as file:
        file.write(text)


def write_manifest(about: dict[str, str]) -> None:
    """Write what was asked so far, of whom, and how it was read."""
    path = FOLDER / "judgements.jsonl"
    if not path.is_file():
        return
    lines = read_jsonl(path)
    asked = [line for line in lines if "seconds" in line]
    n_by_prompt = Counter(f"{line['prompt']}, {line['pair_id'].split('/')[0]}" for line in asked)
    prompts = {}
    for condition in (PLAIN_CASES, CASES, AGAIN, STRETCHED):
        for ending, n_ratings in weak_judge.READINGS.items():
            reading = "the number in the reply"
            if n_ratings:
                reading = "the expected value of the ratings 0 to 5 by log-probabilities"
            shows = f"; {condition.says}; accuracies 91.05 % and 88.91 %" if condition.says else ""
            prompts[condition.name + ending] = {
                "follows": f"{condition.prompt.follows}{shows}; read as {reading}",
                "differs": condition.prompt.differs,
                "sha256": condition.prompt.sha256,
            }
    manifest = {
        "judge": f"{weak_judge.JUDGE}, a model file of unverified origin, asked once more",
        **about,
        "protocol": (
            "one pair a call, at temperature 0, with a JSON schema; pairs, prompts and reading "
            "were fixed before (experiments/recordings/weak_judge_again.py)"
        ),
        "judgements": len(lines),
        "calls": len(asked),
        "seconds": {
            "a call, median": round(float(np.median([line["seconds"] for line in asked])), 2),
            "in all": round(sum(line["seconds"] for line in asked)),
        },
        "asked": dict(n_by_prompt),
        "prompts": prompts,
    }
    replace(FOLDER / "manifest.json", json.dumps(manifest, indent=1) + "\n")


def ask(args: argparse.Namespace) -> None:
    """Ask for what is not recorded; what a call brings is written before the next one."""
    judge_by_ending = {
        ending: weak_judge.open_judge(args, n_ratings)
        for ending, n_ratings in weak_judge.READINGS.items()
    }
    path = FOLDER / "judgements.jsonl"
    lines = read_jsonl(path) if path.is_file() else []
    recorded = {(line["prompt"], line["pair_id"]) for line in lines}
    missing = [
        (condition, row)
        for condition, row in calls()
        if (condition.name, row["pair_id"]) not in recorded
    ]
    for number, (condition, row) in enumerate(missing, 1):
        verdicts = {}
        for ending, judge in judge_by_ending.items():
            verdicts[ending] = judge.score([row], condition.prompt).iloc[0].to_dict()
        if verdicts[""]["status"] in ("error", "missing"):
            raise DreError(f"{condition.name}, {row['pair_id']}: {verdicts['']['reason']}")
        request, reply = weak_judge.stored(judge_by_ending[""], condition, row)
        if condition in (PLAIN_CASES, CASES):
            append("cases.jsonl", [word_by_word(condition, row, request, reply)])
        append(path.name, lines_of(condition, row["pair_id"], verdicts, reply))
        if number % 50 == 0:
            print(f"{time.strftime('%H:%M')} {number} of {len(missing)} calls", flush=True)


def main() -> None:
    """Draw, ask, and write what was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama-server", default="llama-server", help="llama.cpp's server")
    parser.add_argument("--model-file", help="the file of the model")
    parser.add_argument("--base-url", default="http://127.0.0.1:8015/v1")
    parser.add_argument("--store", default="build/weak_judge_again.sqlite")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="only write the numbers")
    args = parser.parse_args()
    if args.draw:
        write_numbers(args.draw)
        return
    Path(args.store).parent.mkdir(parents=True, exist_ok=True)
    args.threads, args.at_once = 2, 1
    args.server = "llama-server of llama.cpp 0c1e57098, without its page"
    args.machine = "an x86_64 processor, two of its cores, beside other work"
    with weak_judge.server(args) as about:
        try:
            ask(args)
        finally:
            write_manifest(about)


if __name__ == "__main__":
    main()
