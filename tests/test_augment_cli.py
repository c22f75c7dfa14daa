"""``dre augment ...`` as a user runs it."""

import json
import os
import subprocess
import sys

import judge_servers as servers
import pandas as pd
import pytest
from test_augment_generate import WORDS, Script, contexts, texts

from dre import augment
from dre.augment import contexts as inputs
from dre.cli import main
from dre.data import sets
from dre.errors import DreError

pytest.importorskip("openai")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-0123456789")


@pytest.fixture
def work(tmp_path):
    lines = [json.dumps({"id": c.id, "context": list(c.turns), "split": c.split}) for c in contexts(3)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def dre(action, work, url, *more, judge="openai:m"):
    where = ["--base-url", url] if url else []
    base = [str(work / "own.jsonl"), "--judge", judge, "--store", str(work / "s.sqlite"), *where]
    return main(["augment", action, *base, *map(str, more)])


def test_generate_forecasts_writes_and_reports(work, capsys):
    script = Script(wrong=["adversarial two, 1"])
    outputs = ("-o", work / "a.jsonl", "--report", work / "r.csv", "--responses", work / "t.csv")
    with servers.Server(script) as server:
        assert dre("generate", work, server.url, "--price", "1,2", *outputs) == 0
        said = capsys.readouterr()
        assert said.out.startswith("about 33 calls to make, at most 99; 0 replies stored\n")
        assert "generate: about 3, at most 3" in said.out and "refine: about 0, at most 6" in said.out
        assert "3 contexts: 3 accepted" in said.out and "35 calls, 0 of them retries, $0.0025 spent" in said.out
        assert "round 1, classify" in said.err and "round 2, refine" in said.err
        calls = len(server.requests)
        assert dre("generate", work, server.url, "--price", "1,2", "-o", work / "b.jsonl") == 0
        assert len(server.requests) == calls == 35
    assert (work / "a.jsonl").read_bytes() == (work / "b.jsonl").read_bytes()
    loaded = augment.load(work / "a.jsonl", inputs.read(work / "own.jsonl"))
    assert len(loaded.contexts) == 3 and loaded.contexts[1].adversarials[1] == "adversarial two, 1 anew 1"
    assert pd.read_csv(work / "r.csv")["rounds"].tolist() == [1, 2, 1] and len(pd.read_csv(work / "t.csv")) == 31
