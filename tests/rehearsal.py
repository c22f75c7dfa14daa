"""A rehearsal of profile full: every notebook, from a clone to the book, in some minutes.

``python tests/rehearsal.py FOLDER`` runs the full pass, and then each of `VARIANTS`. Behind the
folder may stand which are run: names of cases, or ``variants``.

A case is a copy of the project in which profile ``full`` is changed as `changes` and the case say,
and nothing else: a small encoder of random weights, few pairs of each set, and judges that a local
server plays. The providers' own packages talk to the server, which speaks OpenAI's and Ollama's
protocols. Public data are the real ones. Files that cannot be fetched have stand-ins of the same
form, which are registered in their place.

One judge answers badly in one case of ten. In the full pass the other one dies after some calls,
and the run is killed in the middle. Then every notebook must have run, with empty rows that say
why. When the judge answers again, the same command goes on. At the end the calls are those of the
estimate, judge by judge and prompt by prompt, and the tables have their rows.
"""

import copy
import fnmatch
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dstc11_archive
import judge_servers
import pandas as pd
import psutil
import pytest
import tiny_metrics
import torch
import yaml
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tiny import LETTERS, WORDS
from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

from dre.datasets import dialogues, dstc11, ratings, registry
from dre.judges.store import Store
from dre.paper import huynh, pcaf, plan, printed_cases, printed_metrics, website
from dre.paper.profile import Profile, profile

ROOT = Path(__file__).resolve().parents[1]
NAME = "full"  # the profile that is rehearsed
IN_FLIGHT = 4  # calls of each judge at a time
USAGE = (50, 10)  # tokens in and out that the server reports of every reply
PRICE = (1e-6, 2e-6)  # dollars for a token in and out
SLM_VARIANTS = ("Dis", "Prob", "Prob & Dis")
METHODS_OF_TABLE_5 = ("Small model", "LLM-only", "SLIDE", "In-DRE", "Ex-DRE", "DRE")

OPENAI = {
    "model": "openai:gpt-3.5-turbo-1106",
    "base_url": "SERVER/v1",
    "price": "1,2",
    "max_usd": 9,
    "temperature": 0,
    "concurrency": IN_FLIGHT,
    "logprobs": True,
}
OLLAMA = {"model": "ollama:llama3.3:70b", "base_url": "SERVER", "concurrency": IN_FLIGHT}
RECORDED = "recorded:claude-2026-11"
#: A set that `dre augment` writes before the run, and one in the form of the papers' own files.
WRITER = "openai:gpt-4-1106-preview"
WRITTEN = "build/written.jsonl"
AUTHORS = {"train": "build/authors/train.json", "test": "build/authors/test.json"}


#: The sets of the profile, in another order than its own.
ORDER = ("topicalchat", "dailydialog", "personachat")


class Case(NamedTuple):
    """One rehearsal: how its profile differs from that of the full pass."""

    name: str
    changes: dict[str, Any] = {}
    is_whole: bool = False


FULL_PASS = Case("full pass", is_whole=True)
_ALONE = {
    "notebooks": ["04_correlation", "07_when_a_fusion_helps"],
    "optional_prompts": [],
    "pcaf": None,
    "metrics": {},
    "cases": "",
}
VARIANTS = [
    Case("one rated set", _ALONE | {"rated": ["personachat-usr"]}),
    Case("five pairs of a set", _ALONE | {"pairs_per_set": 5}),
    Case("a recorded judge first", _ALONE | {"judges": [RECORDED, OLLAMA, OPENAI]}),
]


def changes(folder: Path, encoder: Path) -> dict[str, Any]:
    """Return what differs from ``profiles/full.yaml`` in every case.

    Parameters
    ----------
    folder : of the project, to which `make_files` has written.
    encoder : what `make_encoder` returned.
    """
    return {
        "encoder": str(encoder),
        "seeds": [0],
        "models": {
            "paper": {"recipe": "paper", "epochs": 1, "text_length": 64},
            "released": {"recipe": "released", "epochs": [1, 1, 1], "text_length": 64},
            "ours": {"recipe": "ours"},
        },
        # Nothing to learn from besides contexts, so recipe ours is the model of the package.
        "extra": {"dialogues": [], "graded": []},
        "pcaf": {
            "encoder": str(encoder),
            "english_encoder": str(encoder),
            "archive": str(folder / "build/dstc11.zip"),
            "ideas": 4,
            "epochs": [1, 1],
            "batch_ideas": 2,
        },
        "metrics": {
            "bartscore": "build/bart",
            "unieval": "build/t5",
            "bertscore": str(encoder.with_name("raw")),
            "word_vectors": "build/vectors.txt",
            "wordnet": "wordnet",
        },
        "cases": "build/cases.jsonl",
        # Not in the order of tables, nor in that of the sets that they belong to.
        "rated": [
            "personachat-usr",
            "empathetic-grade",
            "dailydialog-zhao",
            "fed-turn",
            "dailydialog-grade",
            "topicalchat-usr",
            "dailydialog-gupta",
        ],
        "judges": [OPENAI, OLLAMA, RECORDED],
        "optional_prompts": ["geval", "analyse_rate", "slide_a1", "huynh"],
        "resamples": 10,
        "samples": 2,
        "labels_per_kind": 24,
        "pairs_per_set": 12,
    }


def changed_sets(sets: list[dict]) -> list[dict]:
    """Return the sets of the profile in another order and small.

    One was written by a judge. One has the form of the papers' own files.
    """
    daily = {"train": ["dailydialog++", "train"], "dev": ["mini", "dev"], "test": ["mini", "test"]}
    if not has_public_data():
        daily["train"] = ["mini", "train"]
    splits = {"dailydialog": daily}
    splits["topicalchat"] = {
        "train": [WRITTEN, "train"],
        "dev": ["mini", "dev"],
        "test": ["mini", "test"],
    }
    splits["personachat"] = {
        "train": [AUTHORS["train"], "train"],
        "dev": [AUTHORS["test"], "test"],
        "test": [AUTHORS["test"], "test"],
    }
    by_key = {entry["key"]: entry for entry in sets}
    changed = []
    for key in ORDER:
        kept = {
            name: by_key[key][name] for name in by_key[key] if name not in ("more", "dev_share")
        }
        changed.append(kept | splits[key])
    return changed


def without_public_data() -> dict[str, Any]:
    """Return what differs where the public data are absent: no rated sets, so no Tables 4 and 5."""
    return {
        "rated": [],
        "optional_prompts": ["geval", "analyse_rate", "slide_a1"],  # huynh is about a rated set
    }


# What the project is given


def make_encoder(folder: Path) -> Path:
    """Write a DistilBERT of random weights, with two small layers, as a folder of its own."""
    letters = [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = list(dict.fromkeys([*special, *WORDS, *letters]))
    raw, path = folder / "raw", folder / "encoder"
    torch.manual_seed(0)
    config = DistilBertConfig(
        vocab_size=len(vocabulary),
        max_position_embeddings=130,
        dim=32,
        hidden_dim=64,
        n_layers=2,
        n_heads=2,
        initializer_range=0.2,
    )
    DistilBertModel(config).save_pretrained(raw)
    (raw / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    AutoTokenizer.from_pretrained(raw, model_max_length=128).save_pretrained(raw)
    modules = [Transformer(str(raw)), Pooling(config.dim)]
    SentenceTransformer(modules=modules).save_pretrained(str(path))
    return path


def has_public_data() -> bool:
    """Whether the rated sets are at hand; nothing is downloaded."""
    names = [name for name, file in registry.sources().items() if "sha256" in file]
    return all((registry.home() / name).is_file() for name in names)


def lend_data(folder: Path, home: Path) -> None:
    """Make a data directory of links to the public files and of stand-ins for absent ones.

    The copy of the project registers the stand-ins: their hash takes the place of the real file's.
    """
    names = [name for name in registry.sources() if (registry.home() / name).is_file()]
    for name in names:
        link = home / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(registry.home() / name)
    stand_ins = {
        "DailyDialog-plusplus/*/dataset/train.json": stand_in_of_dailydialog_train(),
        "UniEval/*/utils.py": tiny_metrics.QUESTIONS.encode(),
    }
    for pattern, content in stand_ins.items():
        (name,) = fnmatch.filter(registry.sources(), f"*{pattern}")
        if name in names:
            continue
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        header = b"blob %d\0" % len(content)  # what git puts before a file
        blob = hashlib.sha1(header + content).hexdigest()
        sources = folder / "dre/datasets/sources.yaml"
        text = sources.read_text(encoding="utf-8")
        text = text.replace(registry.sources()[name]["git_blob"], blob)
        sources.write_text(text, encoding="utf-8")


def stand_in_of_dailydialog_train() -> bytes:
    """Return the embedded corpus in the form of DailyDialog++'s file of training contexts."""
    lines = []
    for number, context in enumerate(dialogues.load("mini", "train")):
        record = {
            "id": number,
            "context": [*context.turns],
            "positive_responses": [*context.positives],
            "adversarial_negative_responses": [*context.adversarials],
            "random_negative_responses": [*context.randoms],
        }
        lines.append(json.dumps(record))
    return "\n".join(lines).encode()


def make_files(folder: Path) -> None:
    """Write what a user fetches or types in, in its own form: texts of the embedded corpus or ours.

    Parameters
    ----------
    folder : of the copy of the project.
    """
    build = folder / "build"
    write_authors_sets(folder)
    write_archive(build / "dstc11.zip")
    write_cases(build / "cases.jsonl")
    for name, make in (("bart", tiny_metrics.bart), ("t5", tiny_metrics.t5)):
        (build / name).mkdir(parents=True)
        make(build / name)
    tiny_metrics.word_vectors(build / "vectors.txt")
    tiny_metrics.wordnet_folder(build / "nltk")
    tiny_metrics.punkt_folder(build / "nltk")


def write_authors_sets(folder: Path) -> None:
    """Write contexts of the embedded corpus as the papers' authors wrote theirs.

    They are objects one behind the other. One list is short, and one object cannot be used.
    """
    contexts = dialogues.load("mini", "dev")
    for split, chosen in (("train", contexts[:6]), ("test", contexts[6:9])):
        objects = []
        for number, context in enumerate(chosen):
            record = {
                "id": number,
                "context": "".join(f"{turn}\n" for turn in context.turns),
                "positive": [list(context.positives)[: 3 if number == 1 else 5]],
                "adversarial": [list(context.adversarials) if number != 2 else []],
            }
            objects.append(json.dumps(record, indent=4) + "\n")
        path = folder / AUTHORS[split]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(objects), encoding="utf-8")


def write_archive(path: Path) -> None:
    """Write an archive of DSTC11's form with rated replies and five corpora."""
    path.parent.mkdir(parents=True, exist_ok=True)
    contexts = dialogues.load("mini", "test")
    records = []
    for i, context in enumerate(contexts[:8]):
        qualities = {"relevance": [i % 4], "fit": [i % 3]}
        response = context.positives[0]
        records.append(dstc11_archive.rated_record(i, context.turns, response, **qualities))
    spoken = [
        [*context.turns, *context.positives[:1]] for context in dialogues.load("mini", "train")
    ]
    corpora = {name: spoken[6 * i : 6 * i + 6] for i, name in enumerate(dstc11.TRAINING)}
    rated = {"dailydialog-zhao": records, "topical-usr": records[2:]}
    dstc11_archive.write(path, rated, corpora)


def write_cases(path: Path) -> None:
    """Write seven replies in the form of those that are printed."""
    lines = []
    for name, n_replies in printed_cases.REPLIES.items():
        case = {
            "id": name,
            "context": ["Did the boat leave?", f"It left before {name}."],
            "reference": "Then we walk.",
            "responses": [f"Then we wait {n} hours." for n in range(n_replies)],
        }
        lines.append(json.dumps(case) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


# The judges


def reply_to(message: str, fields: dict, model: str) -> str:
    """Answer a prompt by a rule that depends on its texts and on the model alone."""
    number = sum(f"{model} {message}".encode()) % 101
    if "positive" in fields:
        drafts = {
            "positive": [f"I see, and I would say so too, for reason {n}." for n in range(5)],
            "adversarial": [f"A wrong turn, number {n} of {number}." for n in range(5)],
        }
        return json.dumps(drafts)
    if "label" in fields:
        response = message.rpartition("<response-")[2]
        is_wrong = "A wrong turn" in response or ("I see, and" not in response and number % 2)
        return json.dumps({"label": "Negative" if is_wrong else "Positive"})
    if "influence" in fields:
        return json.dumps({"influence": number / 100, "score": number / 20})
    if "score" in fields:
        return json.dumps({"score": number / 20})
    if "Yes or No" in message:
        return "Yes" if number % 2 else "No"
    return "1" if number % 2 else "0" if "from 0 to 1" in message.lower() else "2"


def probabilities_of(text: str, message: str) -> dict[str, float]:
    """Return the probabilities of some tokens in the place of a reply of one token."""
    p = 0.5 + sum(message.encode()) % 101 / 250
    if text in ("Yes", "No"):
        return {text: p, "No" if text == "Yes" else "Yes": 0.95 - p, "Well": 0.05}
    others = [token for token in ("0", "1", "2") if token != text]
    return {text: p, others[0]: 0.6 * (1 - p), others[1]: 0.4 * (1 - p)}


#: Replies that nobody can use: empty, a refusal, out of range, another word than asked for, cut.
BAD_REPLIES = (
    "",
    "I'm sorry, I cannot rate this.",
    '{"score": 47, "influence": 7, "label": "Perhaps"}',
    "Well",
    '{"score": 3',
)


class Judges:
    """The judges that the server plays, and the models of them that do not answer now."""

    def __init__(self):
        self.dead = set()
        self.n_refused = 0

    def answer(self, request: judge_servers.Request) -> judge_servers.Answer:
        """Answer as OpenAI or as Ollama, by what the request looks like."""
        body = request.body
        model = body["model"]
        if model in self.dead:
            self.n_refused += 1
            return judge_servers.Answer({"error": "no such model"}, status=503)
        message = body["messages"][-1]["content"]
        if {"response_format", "max_tokens", "max_completion_tokens"}.isdisjoint(body):
            fields = (body.get("format") or {}).get("properties", {})
            return judge_servers.ollama(reply_to(message, fields, model))
        wanted = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        text = reply_to(message, wanted.get("properties", {}), model)
        number = sum(message.encode())
        is_bad = number % 10 == 0 and model != WRITER.partition(":")[2]
        if is_bad:
            text = BAD_REPLIES[number // 10 % len(BAD_REPLIES)]
        completion = judge_servers.openai(text, tokens=USAGE, model=model)
        if is_bad or not body.get("logprobs"):
            return completion
        return judge_servers.with_logprobs(completion, probabilities_of(text, message))


# The run


class Rehearsal:
    """One case in a folder of its own: its project, its server, its store and what it estimates."""

    def __init__(self, case: Case, folder: Path, server: judge_servers.Server, judges: Judges):
        self.case = case
        self.server = server
        self.judges = judges
        self.folder = folder / case.name.replace(" ", "_")
        self.store_path = self.folder / "replies.db"
        self.log_path = self.folder / "build/log.txt"
        shutil.rmtree(self.folder, ignore_errors=True)
        copy_project(self.folder)
        lend_data(self.folder, self.folder / "build/data")
        self.encoder = make_encoder(self.folder / "build/encoder")
        make_files(self.folder)
        self.settings = self._write_profile()
        self.live = [judge for judge in self.settings.judge_settings if judge.is_live]
        self.environment = os.environ | {
            "DRE_DATA_HOME": str(self.folder / "build/data"),
            "DRE_ROOT": str(self.folder),
            "DRE_STORE": str(self.store_path),
            "HF_HUB_OFFLINE": "1",
            "NLTK_DATA": str(self.folder / "build/nltk"),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "OPENAI_API_KEY": "a key that nobody checks",
            "PYTHONPATH": str(self.folder),
        }

    def _write_profile(self) -> Profile:
        """Write the changed profile, and return it."""
        path = self.folder / f"profiles/{NAME}.yaml"
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        values |= changes(self.folder, self.encoder)
        if not has_public_data():
            values |= without_public_data()
        values |= copy.deepcopy(self.case.changes)
        values["sets"] = changed_sets(values["sets"])
        text = yaml.safe_dump(values, sort_keys=False)
        path.write_text(text.replace("SERVER", self.server.url), encoding="utf-8")
        return profile(NAME, self.folder)

    def command(self, *arguments: str) -> None:
        """Run a Python program in the project, which must succeed."""
        command = [sys.executable, *arguments]
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True)

    def start(self) -> subprocess.Popen:
        """Start ``make paper PROFILE=full`` as a process of its own."""
        command = [sys.executable, "-m", "dre.paper", "--profile", NAME]
        with self.log_path.open("w") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    def finish(self, status: int = 0) -> str:
        """Run it to its end, which must have a status; return what it printed."""
        found = self.start().wait()
        log = self.log_path.read_text(encoding="utf-8")
        print(log, flush=True)
        assert found == status, f"the run ended with status {found}, not {status}"
        return log

    def estimate(self) -> pd.DataFrame:
        """Return the calls that the project estimates: a row for each table, judge and prompt."""
        self.command("-m", "dre.paper", "--profile", NAME, "--estimate")
        code = "import sys; from dre.paper import estimate, profile; "
        code += f"estimate.calls(profile.profile({NAME!r})).to_csv(sys.argv[1], index=False)"
        path = self.folder / "build/estimate.csv"
        self.command("-c", code, str(path))
        assert self.server.requests == [], "the estimate asked something"
        return pd.read_csv(path)

    def write_set(self) -> None:
        """Have a judge write a training set, as the docs say."""
        contexts = "topicalchat-valid_freq" if has_public_data() else "mini:train"
        options = ["--judge", WRITER, "--base-url", f"{self.server.url}/v1", "--price", "1,2"]
        options += ["--limit", "6", "-o", WRITTEN]
        code = "import sys; from dre.commands.main import main; sys.exit(main())"
        self.command("-c", code, "augment", contexts, *options)
        self.server.requests.clear()

    def kill_in_the_middle(self, process: subprocess.Popen, after: int) -> None:
        """Kill a run and its kernels when the server has had so many requests."""
        while len(self.server.requests) < after:
            assert process.poll() is None, self.log_path.read_text(encoding="utf-8")
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        whole = [*children, psutil.Process(process.pid)]
        for one_process in whole:
            one_process.send_signal(signal.SIGKILL)
        psutil.wait_procs(whole)
        process.wait()
        print(f"killed after {len(self.server.requests):,} requests", flush=True)

    def run(self) -> None:
        """Rehearse the case, and check what must hold."""
        self.write_set()
        expected = self.estimate()
        if self.case.is_whole:
            self.kill_in_the_middle(self.start(), after=int(expected["calls"].sum()) // 4)
            self.judges.dead = {OLLAMA["model"].partition(":")[2]}
            log = self.finish(status=1)
            self.judges.dead = set()
            check_what_a_dead_judge_leaves(self, log)
        self.finish()
        self.check_calls(expected)
        self.check_bill(expected)
        check_notebooks(self)
        check_tables(self)
        if self.case.is_whole:
            check_what_is_fetched(self)
            check_huynh(self)
            n_requests = len(self.server.requests)
            self.finish()
            assert len(self.server.requests) == n_requests, "the same command asked again"

    # What must hold

    def check_calls(self, expected: pd.DataFrame) -> None:
        """The calls are those of the estimate, by judge and prompt, and the server had as many.

        A call that was in flight at the kill is the only one that may be made twice.
        """
        made = Counter()
        for row in Store(self.store_path).bill("judge", "prompt").to_dict("records"):
            if row["judge"] != WRITER:
                made[row["judge"], family(row["prompt"])] += row["replies"]
        estimated = Counter()
        for row in expected.to_dict("records"):
            estimated[row["judge"], family(row["prompt"])] += int(row["calls"])
        differences = {}
        for key in made | estimated:
            if made[key] != estimated[key]:
                differences[key] = f"{estimated[key]:,} estimated, {made[key]:,} made"
        assert not differences, differences

        n_answered = len(self.server.requests) - self.judges.n_refused
        n_killed = n_answered - sum(made.values())
        print(f"{n_answered:,} answers, {n_killed} of them in flight at the kill")
        assert 0 <= n_killed <= 2 * IN_FLIGHT

    def check_bill(self, expected: pd.DataFrame) -> None:
        """All that was answered is billed once, and the bill is below its bound."""
        bill = Store(self.store_path).bill("judge").set_index("judge").drop(index=WRITER)
        of_openai = bill[bill.index.str.startswith("openai:")]
        of_replies = USAGE[0] * PRICE[0] + USAGE[1] * PRICE[1]
        assert of_openai["usd"].sum() == pytest.approx(of_openai["replies"].sum() * of_replies)
        for judge, bound in expected.groupby("judge")["usd_at_most"].sum().items():
            assert bill["usd"].get(judge, 0.0) <= bound, (judge, bill["usd"], bound)
        written = pd.read_csv(self.folder / f"results/{NAME}/bill_of_run.csv")
        in_all = written[written["judge"] == "all judges"].iloc[0]
        assert in_all["replies"] == bill["replies"].sum()


def family(prompt: str) -> str:
    """Return what the estimate calls a prompt that was sent, and the other way round."""
    for name in ("geval", "analyse_rate", "slide_a1", "quality", "dialogue", "dre"):
        if prompt == name or prompt.startswith(f"{name}_"):
            return name
    return prompt


def copy_project(folder: Path) -> None:
    """Copy the files of the project that git knows, or would: what a clone has."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, path)


def table_of(rehearsal: Rehearsal, name: str, key: str) -> pd.DataFrame:
    """Return a table that the run wrote, by one of its columns."""
    return pd.read_csv(rehearsal.folder / f"results/{NAME}/{name}.csv").set_index(key)


def titles_of(rehearsal: Rehearsal, names: Sequence[str]) -> list[str]:
    """Return how tables call those of some rated sets that the profile has."""
    return [ratings.RATED[name] for name in names if name in rehearsal.settings.rated]


def check_notebooks(rehearsal: Rehearsal) -> None:
    """Every notebook that the profile names ended; models, verdicts and the book are there."""
    executed = {path.stem for path in rehearsal.folder.glob(f"build/{NAME}/notebooks/*.ipynb")}
    names = {path.stem for path in rehearsal.folder.glob("notebooks/*.ipynb")}
    named = set(rehearsal.settings.notebooks) or names
    assert executed == named, named ^ executed
    files = list(rehearsal.folder.glob(f"build/{NAME}/models/*/slm.json"))
    encoders = {json.loads(file.read_text())["provenance"]["encoder"] for file in files}
    assert files and encoders == {str(rehearsal.encoder)}, encoders
    assert len(table_of(rehearsal, "verdicts", "claim")) > 20
    if website.is_installed():
        assert (rehearsal.folder / f"build/{NAME}/book/index.html").is_file()
    print(f"{len(executed)} notebooks ended, {len(files)} small models trained")


def check_what_a_dead_judge_leaves(rehearsal: Rehearsal, log: str) -> None:
    """Its rows are empty and say why; the other judge's have numbers; the last line says how."""
    check_notebooks(rehearsal)
    alive, dead = (judge.label for judge in rehearsal.live)
    last_line = log.strip().splitlines()[-1]
    assert dead in last_line and "same command" in last_line, last_line
    titles = titles_of(rehearsal, list(ratings.RATED)[:3])
    if titles:
        table = table_of(rehearsal, "table4", "method")
        assert table.loc[f"DRE ({alive}), paper", titles].notna().all()
        row = table.loc[f"DRE ({dead}), paper"]
        assert row[titles].isna().any() and "did not come" in row["not_run"]


def check_tables(rehearsal: Rehearsal) -> None:
    """Tables 3 to 6 have every printed row, and a row with numbers for every judge."""
    settings = rehearsal.settings
    papers = ROOT / "data/paper"
    three = list(ratings.RATED)[:3]
    titles = titles_of(rehearsal, three)
    if titles:
        table = table_of(rehearsal, "table4", "method")
        names = [f"SLM ({variant}), paper" for variant in SLM_VARIANTS]
        for judge in settings.judge_settings:
            # A recorded judge was shown numbers of other small models.
            fusions = ("SLIDE", "In-DRE", "Ex-DRE", "DRE") if judge.is_live else ("SLIDE", "Ex-DRE")
            names.append(f"LLM-only ({judge.label})")
            names += [f"{method} ({judge.label}), paper" for method in fusions]
        for prompt, method in (("geval", "G-EVAL"), ("analyse_rate", "LLM-Chiang")):
            if prompt in settings.optional_prompts:
                names += [f"{method} ({judge.label})" for judge in rehearsal.live]
        values = table.reindex(names)[titles]
        assert values.notna().all(axis=None), values[values.isna().any(axis=1)]
        in_print = pd.read_csv(papers / "dre_table4.csv")["metric"]
        assert {*in_print} <= {*table["row_in_print"]}
        slide = table_of(rehearsal, "slide_table2", "judge")
        assert {*pd.read_csv(papers / "slide_table2.csv")["metric"]} <= {*slide["method"]}
        for judge in settings.judge_settings:
            assert len(slide.loc[[judge.label]]) == 4, judge.label
    titles = titles_of(rehearsal, three[1:])
    if titles:
        table = table_of(rehearsal, "table5_main", "method")
        for judge in settings.judge_settings:
            rows = table.loc[[f"{method} ({judge.label})" for method in METHODS_OF_TABLE_5]]
            assert rows[titles].notna().all(axis=None), rows
        for judge in pd.read_csv(papers / "dre_table5.csv")["judge"].unique():
            assert (table["in_print"] == judge).sum() == 4, judge
    if settings.notebooks:
        return
    table = table_of(rehearsal, "table3", "model")
    for variant in SLM_VARIANTS:
        assert table.loc[f"SLM ({variant}), paper", "source"] == "ours"
    rows_of_table_6 = table_of(rehearsal, "table6", "metric").index
    for judge in rehearsal.live:
        assert table.loc[judge.label, "n"] > 0
        is_main = judge.label == settings.main_label
        assert ("DRE" if is_main else f"DRE ({judge.label})") in rows_of_table_6


def check_what_is_fetched(rehearsal: Rehearsal) -> None:
    """The authors' sets, DSTC11, the metrics and the printed cases have rows with numbers."""
    assert list(rehearsal.folder.glob(f"build/{NAME}/models/personachat-*"))
    for name, columns in pcaf.TESTED_ON.items():
        table = table_of(rehearsal, f"{name}_dstc11", "row")
        printed = pd.read_csv(ROOT / f"data/paper/{name}.csv", index_col=0)
        assert [*table.index] == [*printed.index]
        assert table[[*columns]].notna().all(axis=None), table
    live = [judge.label for judge in rehearsal.live]
    of_dre = table_of(rehearsal, "table6_own_replies", "method").index
    rows = [f"{row} ({judge})" for judge in live for row in ("Non-DRE", "In-DRE", "Ex-DRE", "DRE")]
    assert {*rows, "BLEU-1", "SLM (Prob), paper"} <= {*of_dre}
    of_slide = table_of(rehearsal, "slide_tables_own_replies", "method").index
    rows = [f"{row} ({judge})" for judge in live for row in ("G-EVAL", "LLM-Chiang", "SLIDE")]
    assert {*rows} <= {*of_slide}
    if not rehearsal.settings.rated:
        return
    titles = titles_of(rehearsal, rehearsal.settings.table_4)
    table = table_of(rehearsal, "table4", "method")
    missing = table_of(rehearsal, "table4_metrics", "metric")["missing"].dropna()
    for row in [row for rows in printed_metrics.ROWS.values() for row in rows]:
        if row in missing:  # its package is not installed
            assert "pip install" in missing[row] and missing[row] in table.loc[row, "not_run"]
        else:
            assert table.loc[row, titles].notna().all(), row
    print(f"metrics of Table 4 by their models: all but {', '.join(missing.index) or 'none'}")


def check_huynh(rehearsal: Rehearsal) -> None:
    """Both live judges have rows for every choice of examples, one of them by log-probabilities."""
    if not rehearsal.settings.rated:
        return
    with_p, without = rehearsal.live
    table = table_of(rehearsal, "huynh_live", "judge")
    good = table_of(rehearsal, "huynh_yes_no", "model")
    for judge in (with_p.label, without.label):
        assert {*table.loc[judge, "examples"]} == {huynh.CHOICES[choice] for choice in plan.CHOICES}
        assert len(good.loc[judge]) == 5
        assert good.loc[judge, ["TU", "DZ", "PU", "FT", "FD"]].notna().any(axis=None)
    asked = [request.body for request in rehearsal.server.requests if request.body.get("logprobs")]
    assert asked and {body["model"] for body in asked} == {with_p.model.partition(":")[2]}


def main(folder: Path, names: list[str]) -> None:
    """Rehearse cases in a folder: those of some names, or all."""
    if not has_public_data():
        print("no public data (DRE_DATA_HOME): no rated sets, so no Tables 4 and 5, no variants")
    cases = [FULL_PASS, *VARIANTS] if has_public_data() else [FULL_PASS]
    if names == ["variants"]:
        names = [case.name for case in VARIANTS]
    for case in cases:
        if names and case.name not in names:
            continue
        started = time.monotonic()
        print(f"== {case.name}", flush=True)
        judges = Judges()
        with judge_servers.Server(judges.answer) as server:
            Rehearsal(case, folder.resolve(), server, judges).run()
        print(f"== {case.name}: rehearsed in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
