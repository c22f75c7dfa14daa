"""A rehearsal of profile full, from nothing to Tables 3, 4 and 5.

``python tests/rehearsal.py FOLDER`` runs it.

The code is that of a real run: the providers' own packages talk to a local server that speaks
OpenAI's and Ollama's protocols and answers by a fixed rule. The run is killed in the middle and
started again. Then it is checked that every row of the tables is there for every judge, that
nothing was paid for twice, and that the bill is what the estimate said.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import judge_servers
import pandas as pd
import psutil
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tiny import LETTERS, WORDS
from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

from dre.datasets import registry
from dre.judges.store import Store
from dre.paper import estimate, judgements
from dre.paper.profile import Profile, profile

ROOT = Path(__file__).resolve().parents[1]
IN_FLIGHT = 4  # the profile's concurrency
USAGE = (50, 10)  # tokens in and out that the server reports of every reply
PRICE = (1e-6, 2e-6)  # dollars for a token in and out, as in the profile
SLM_VARIANTS = ("Dis", "Prob", "Prob & Dis")


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
    return "1" if number % 2 else "0" if "from 0 to 1" in message.lower() else "2"


def answer(request: judge_servers.Request) -> judge_servers.Answer:
    """Answer as OpenAI or as Ollama, by what the request looks like."""
    body = request.body
    message = body["messages"][-1]["content"]
    if "response_format" in body or "max_tokens" in body or "max_completion_tokens" in body:
        wanted = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
        text = reply_to(message, wanted.get("properties", {}), body["model"])
        return judge_servers.openai(text, tokens=USAGE, model=body["model"])
    schema = body.get("format") or {}
    fields = schema.get("properties", {}) if isinstance(schema, dict) else {}
    return judge_servers.ollama(reply_to(message, fields, body["model"]))


# The run


def prepare(folder: Path, url: str) -> Profile:
    """Make a project in a folder: notebooks, data, and the profile with encoder and server."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("notebooks", "profiles", "data"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "requirements.lock", folder)
    path = folder / "profiles/rehearsal.yaml"
    text = path.read_text(encoding="utf-8")
    text = text.replace("ENCODER", str(make_encoder(folder / "encoder")), 2)
    text = text.replace("SERVER", url)
    if not has_public_data():
        print("no public data (DRE_DATA_HOME): rated sets are skipped, so Tables 4 and 5 are")
        text = re.sub(r"contexts: \S+", "contexts: mini:train", text)
        text = re.sub(r"\nrated: .*", "\nrated: []", text)
    path.write_text(text, encoding="utf-8")
    return profile("rehearsal", folder)


def has_public_data() -> bool:
    """Whether the rated sets are at hand; nothing is downloaded."""
    names = [name for name, file in registry.sources().items() if "sha256" in file]
    return all((registry.home() / name).is_file() for name in names)


def start(folder: Path) -> subprocess.Popen:
    """Start ``make paper PROFILE=rehearsal`` as a process of its own."""
    command = [sys.executable, "-m", "dre.paper", "--profile", "rehearsal", "--jobs", "1"]
    return subprocess.Popen(command, cwd=folder, env=os.environ)


def kill_in_the_middle(process: subprocess.Popen, server: judge_servers.Server, after: int) -> int:
    """Kill a run and its kernels when the server has had so many requests; return how many."""
    while len(server.requests) < after:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)
    whole = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for one_process in whole:
        one_process.send_signal(signal.SIGKILL)
    psutil.wait_procs(whole)
    process.wait()
    return len(server.requests)


# What must hold


def check_calls(settings: Profile, server, expected: pd.DataFrame, store: Store) -> None:
    """Nothing was asked twice but what was in flight when the run was killed, and all is billed."""
    n_expected = int(expected["calls"].sum())
    n_repeated = len(server.requests) - n_expected
    unanswered = [group for group in store.summary() if group.status in ("pending", "unanswered")]
    n_unanswered = sum(group.n_calls for group in unanswered)
    print(f"{n_expected:,} calls estimated, {len(server.requests):,} made")
    assert 0 <= n_repeated <= 2 * IN_FLIGHT, (n_repeated, n_expected)
    assert n_repeated <= n_unanswered <= 2 * IN_FLIGHT, (n_repeated, n_unanswered)
    priced = expected[expected["usd"] > 0]
    bill = store.spent()
    of_replies = priced["calls"].sum() * (USAGE[0] * PRICE[0] + USAGE[1] * PRICE[1])
    of_unanswered = sum(group.cost_usd or 0.0 for group in unanswered)
    print(f"bill ${bill:.4f}, of it ${of_unanswered:.4f} for what the kill left unanswered")
    assert abs(bill - of_unanswered - of_replies) < 1e-9, (bill, of_unanswered, of_replies)
    assert of_replies <= priced["usd"].sum() and bill <= priced["usd_at_most"].sum()


def check_table_3(settings: Profile, folder: Path) -> None:
    """Table 3 has the rehearsal's own small models, and a row of labels for every judge."""
    table = pd.read_csv(folder / "results/rehearsal/table3.csv").set_index("model")
    for variant in SLM_VARIANTS:
        assert table.loc[f"SLM ({variant}), paper", "source"] == "ours"
    for judge in judgements.panel(settings):
        row = table.loc[judge.name]
        assert row["n"] > 0 and 0 < row["overall"] < 100, judge.name


def check_table_4(settings: Profile, folder: Path) -> None:
    """Table 4 has every row of DRE and of its baselines for every judge, on every set."""
    table = pd.read_csv(folder / "results/rehearsal/table4.csv").set_index("method")
    sets = ["DailyDialog", "PersonaChat", "TopicalChat"]
    names = [f"SLM ({variant}), paper" for variant in SLM_VARIANTS]
    for judge in judgements.panel(settings):
        of_judge = f"({judge.name})"
        names += [f"LLM-only {of_judge}", f"G-EVAL {of_judge}", f"LLM-Chiang {of_judge}"]
        for method in ("SLIDE", "In-DRE", "Ex-DRE", "DRE"):
            names.append(f"{method} {of_judge}, paper")
    missing = [name for name in names if name not in table.index]
    assert not missing, missing
    values = table.loc[names, sets]
    assert values.notna().all(axis=None), values[values.isna().any(axis=1)]
    # Rows of small models are those of the rehearsal: no other encoder was recorded for it.
    foreign = [
        name for name in table.index if "2026-11" in name and pd.notna(table.loc[name, sets]).any()
    ]
    assert not foreign, foreign


def check_table_5(settings: Profile, folder: Path) -> None:
    """Table 5 has In-DRE and DRE, unseen, for every judge on both sets."""
    table = pd.read_csv(folder / "results/rehearsal/table5_main.csv").set_index("method")
    methods = ("Small model", "LLM-only", "SLIDE", "In-DRE", "Ex-DRE", "DRE")
    for judge in judgements.panel(settings):
        rows = table.loc[[f"{method} ({judge.name})" for method in methods]]
        assert rows[["PersonaChat", "TopicalChat"]].notna().all(axis=None), rows


def check_models(folder: Path) -> None:
    """Every model that was trained is of the rehearsal's encoder."""
    files = list((folder / "build/rehearsal/models").glob("*/slm.json"))
    encoders = {json.loads(file.read_text())["provenance"]["encoder"] for file in files}
    assert files and encoders == {str(folder / "encoder/encoder")}, encoders
    print(f"{len(files)} small models trained")


def main(folder: Path) -> None:
    """Rehearse in a folder, which is made anew."""
    folder = folder.resolve()
    with judge_servers.Server(answer) as server:
        settings = prepare(folder, server.url)
        os.environ["DRE_ROOT"] = str(folder)
        os.environ["DRE_STORE"] = str(folder / "replies.db")
        os.environ["OPENAI_API_KEY"] = "a key that nobody checks"
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["PYTHONPATH"] = str(ROOT)
        os.environ.setdefault("OMP_NUM_THREADS", "1")

        expected = estimate.calls(settings)
        print(estimate.report(settings, expected), flush=True)
        assert server.requests == [], "the estimate asked something"

        n_at_kill = kill_in_the_middle(
            start(folder), server, after=int(expected["calls"].sum()) // 3
        )
        print(f"killed after {n_at_kill:,} requests", flush=True)
        process = start(folder)
        assert process.wait() == 0, "the second run failed"

        check_calls(settings, server, expected, Store(folder / "replies.db"))
        check_models(folder)
        check_table_3(settings, folder)
        if settings.rated:
            check_table_4(settings, folder)
            check_table_5(settings, folder)
        n_requests = len(server.requests)
        assert start(folder).wait() == 0 and len(server.requests) == n_requests
    print("rehearsed: every row is there, and nothing was asked again")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
