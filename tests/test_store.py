"""The judgement store: its keys, its lock, and the replies of an earlier version."""

import contextlib
import json
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest
from judge_servers import pairs

import dre.judges
from dre.errors import DreError
from dre.judges import files, prompts
from dre.judges.store import SCHEMA, Asked, Reply, Store, messages_sha256

ROW = {"pair_id": "x", "context": ("One turn.",), "response": "A response."}
HOLD = """
import sys, time
from dre.judges.store import Store
with Store(sys.argv[1]).held():
    print("held", flush=True)
    time.sleep(600)
"""


def key(spec="openai:model-a", row=ROW, prompt="llm_only", first=0, **options):
    one = dre.judges.open(spec, store=":memory:", **options)
    return one.missing([row], prompt, first=first)[0][0].key


def test_all_that_can_change_a_reply_is_in_its_key_and_nothing_else():
    free = {"max_usd": 1, "price": "1,1", "concurrency": 2, "timeout": 3, "key_env": "SOME_KEY", "temperature": None}
    same = [key(row=ROW | {"pair_id": "other", "examples": "of no concern"}), key(**free), key(max_tokens=1024)]
    assert {*same} == {key()}  # 1024: the default, named
    others = [key("openai:model-b"), key("anthropic:model-a"), key(base_url="http://127.0.0.1:1"), key(max_tokens=7)]
    others += [key(temperature=0), key(temperature=0.5), key(seed=1), key(reasoning_effort="low"), key(plain=True)]
    others += [key(row=ROW | {"response": "Other."}), key(row=ROW | {"context": ("One turn.", "Another.")})]
    others += [key(logprobs=3), key(prompt="classify"), key(first=1)]
    assert len({key(), *others}) == len(others) + 1
    paid = {"llm_only": "23bd6e49bfe4", "classify": "5798b0932fb3"}  # replies to these are in stores
    assert {name: key(prompt=name)[:12] for name in paid} == paid
    asked = ({}, {"temperature": 0}, {"max_tokens": 99}, {"plain": True}, {"repeats": 2}, {"base_url": "http://h"})
    told = {dre.judges.open("openai:m", store=":memory:", **how).signature for how in asked}
    assert len(told) == len(asked)  # what dre score says of its judge, and holds a finished file to


def test_a_store_from_before_log_probabilities_is_read_and_written(tmp_path):
    asked, reply = Asked("k", "openai:m", "", "llm_only", "{}", "x", 0), Reply("4", cost=0.5)
    with contextlib.closing(sqlite3.connect(tmp_path / "s.sqlite")) as old:
        old.execute(SCHEMA.replace(",\n    top TEXT", ""))
        values = [*asked, *reply[:-1], "2026-11-01"]
        old.execute(f"INSERT INTO reply VALUES ({', '.join('?' * len(values))})", values)
        old.commit()
    store, more = Store(tmp_path / "s.sqlite"), Reply("5", top="[]")
    store.put([(asked._replace(key="l"), more)])
    assert Store(tmp_path / "s.sqlite").get(["k", "l"]) == {"k": reply, "l": more}


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "s.sqlite"
    path.write_bytes(broken := b"SQLite format 3\0" + b"x" * 999)
    pytest.raises(DreError, Store, path).match("the store cannot be opened.*--store")
    assert path.read_bytes() == broken


def test_one_process_writes_a_store_until_it_ends_and_the_next_is_told_which(tmp_path):
    path = tmp_path / "s.sqlite"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "held\n"
            assert Store(path).summary() == []  # reading is free
            one = dre.judges.open("openai:m", store=path, base_url="http://127.0.0.1:1")
            told = rf"s.sqlite: process {child.pid} on .*, since 20.* is writing"
            pytest.raises(DreError, one.score, pairs(1)).match(told)
        finally:
            child.kill()
    with Store(path).held(), Store(path).held():  # one process may hold it twice: a writer and a checker
        assert Store(path).summary() == []


# Settings as an earlier version wrote them, and how the same is asked now.
OLD = [
    ("openai:gpt-4o-mini", {"max_tokens": 1024, "structured": "json_schema"}, {}),
    ("openai:m", {"max_tokens": 9, "structured": "plain", "extra": {"a": 1}}, {"max_tokens": 9, "plain": True, "a": 1}),
    ("ollama:l", {"max_tokens": 8192, "structured": "json_schema", "extra": {"num_ctx": 16384}}, {}),
]


@pytest.mark.parametrize("spec, params, options", OLD)
def test_paid_replies_of_an_earlier_version_are_brought_over_once(tmp_path, spec, params, options):
    prompt, url = prompts.load("llm_only"), "http://h/v1"
    setting = dict(zip(("provider", "model"), spec.split(":"))) | {"id": 1, "base_url": url, "prompt": prompt.name}
    setting |= {"prompt_sha256": prompt.sha256, "params": json.dumps(params)}
    reply = {"setting": 1, "pair_id": "x", "outcome": "ok", "served_model": "m", "source": "live"}
    reply |= {"messages_sha256": messages_sha256(prompt.render(ROW)), "cost": 0.25, "seconds": 1.5}
    reply |= {"input_tokens": 60, "output_tokens": 8}
    replies = [reply | {"repeat": n, "reply": f"Score: {n + 3}"} for n in (0, 1)]
    with contextlib.closing(sqlite3.connect(old := tmp_path / "old.sqlite")) as db:
        pd.DataFrame([setting]).to_sql("setting", db, index=False)
        pd.DataFrame(replies).to_sql("judgement", db, index=False)
    pytest.raises(DreError, Store, old).match("earlier version.*dre judge import")
    before, new = old.read_bytes(), Store(tmp_path / "new.sqlite")
    assert files.import_store(old, new) == (2, 0) and files.import_store(old, new) == (0, 2)
    assert old.read_bytes() == before
    one = dre.judges.open(spec, store=new, base_url=url, repeats=2, **options)
    row = one.score([ROW]).iloc[0]  # asks nobody: there is no server
    assert (row["score_llm"], row["cost"], row["n_ok"], one.last.calls) == (3.5, 0.5, 2, 0)
