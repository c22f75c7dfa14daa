"""The judgement store: its keys, its lock, and the replies of an earlier version."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

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
    same = [key(row=ROW | {"pair_id": "other"}), key(**free), key(max_tokens=1024)]  # the default, named
    assert set(same) == {key()}
    others = [key("openai:model-b"), key("anthropic:model-a"), key(base_url="http://127.0.0.1:1"), key(max_tokens=7)]
    others += [key(temperature=0), key(temperature=0.5), key(seed=1), key(reasoning_effort="low"), key(plain=True)]
    others += [key(logprobs=3)]
    others += [key(row=ROW | {"response": "Other."}), key(row=ROW | {"context": ("One turn.", "Another.")})]
    others += [key(prompt="classify"), key(first=1)]
    assert len({key(), *others}) == len(others) + 1
    asked = ({}, {"temperature": 0}, {"max_tokens": 99}, {"plain": True}, {"repeats": 2}, {"base_url": "http://h"})
    told = {dre.judges.open("openai:m", store=":memory:", **how).signature for how in asked}
    assert len(told) == len(asked)  # what dre score says of its judge, and holds a finished file to


def test_a_reply_replaces_the_one_before_and_a_put_is_all_or_nothing(tmp_path):
    asked = Asked("k", "openai:m", "", "llm_only", "{}", "x", 0)
    Store(tmp_path / "s.sqlite").put([(asked, Reply("first", cost=0.5))])
    store, second = Store(tmp_path / "s.sqlite"), Reply("second", "truncated", input_tokens=3)
    store.put([(asked, second)])
    with pytest.raises(DreError, match="NOT NULL"):
        store.put([(asked, Reply("third")), (asked._replace(key="l"), Reply(None))])
    assert Store(tmp_path / "s.sqlite").get(["k", "l"]) == {"k": second} and store.summary()[0][6] == 1


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


@pytest.mark.parametrize("content", [b"no database at all, but a long text" * 9, b"SQLite format 3\0" + b"x" * 999])
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    for no_store in (path, tmp_path):
        pytest.raises(DreError, Store, no_store).match("the store cannot be opened.*--store")
    assert path.read_bytes() == content


def test_one_process_writes_a_store_and_the_next_is_told_which(tmp_path):
    path = tmp_path / "s.sqlite"
    child = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "held\n"
        told = rf"s.sqlite: process {child.pid} on .*, since 20.* is writing"
        assert Store(path).summary() == []  # reading is free
        one = dre.judges.open("openai:m", store=path, base_url="http://127.0.0.1:1")
        pytest.raises(DreError, one.score, pairs(1)).match(told)
        child.kill()  # not waited for: a zombie holds nothing
        deadline = time.monotonic() + 10
        while Path(f"/proc/{child.pid}/stat").read_text().split()[2] != "Z" and time.monotonic() < deadline:
            time.sleep(0.01)
        with Store(path).held():
            assert child.returncode is None and os.path.exists(f"/proc/{child.pid}")
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_living_process_of_the_same_number_does_not_block(tmp_path):
    path = tmp_path / "s.sqlite"
    Path(f"{path}.holder").write_text(f"process {os.getppid()} on this machine, since long ago,")
    Path(f"{path}.lock").touch()
    with Store(path).held(), Store(path).held():  # and one process may hold it twice: a writer and a checker
        assert str(os.getpid()) in Path(f"{path}.holder").read_text()


M = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9}
SETTINGS = [  # how an earlier version wrote it, and how the same is asked now
    (("openai", "", "gpt-4o-mini"), {"max_tokens": 1024, "structured": "json_schema"}, {}),
    (("openai", "http://h/v1", "m"), {**M, "structured": "plain", "extra": {"a": "b"}}, {**M, "plain": True, "a": "b"}),
    (("ollama", "", "l"), {"max_tokens": 8192, "structured": "json_schema", "extra": {"num_ctx": 16384}}, {}),
]


def old_store(path, prompt):
    """A store as an earlier version wrote it: two replies for each setting."""
    digest = messages_sha256(prompt.render({**pairs(1)[0], "context": tuple(pairs(1)[0]["context"])}))
    rest = {"pair_id": "own/0", "outcome": "ok", "served_model": "served", "input_tokens": 60, "output_tokens": 8}
    rest |= {"cost": 0.25, "seconds": 1.5, "source": "live", "messages_sha256": digest}
    names = ["id", "provider", "base_url", "model", "prompt", "prompt_sha256", "params"]
    about = [(n, *one[0], prompt.name, prompt.sha256, json.dumps(one[1])) for n, one in enumerate(SETTINGS)]
    two = [(n, k) for n in range(3) for k in (0, 1)]
    replies = [{"setting": n, "repeat": k, "reply": f'{{"score": {n + k}}}', **rest} for n, k in two]
    with contextlib.closing(sqlite3.connect(path)) as db:
        pd.DataFrame(about, columns=names).to_sql("setting", db, index=False)
        pd.DataFrame(replies).to_sql("judgement", db, index=False)
    return path


def test_paid_replies_of_an_earlier_version_are_brought_over_once(tmp_path):
    old, new = old_store(tmp_path / "old.sqlite", prompts.load("llm_only")), Store(tmp_path / "new.sqlite")
    pytest.raises(DreError, Store, old).match("earlier version.*dre judge import")
    before = old.read_bytes()
    assert files.import_store(old, new) == (6, 0) and files.import_store(old, new) == (0, 6)
    assert old.read_bytes() == before
    for number, ((provider, base_url, model), _, options) in enumerate(SETTINGS):
        one = dre.judges.open(f"{provider}:{model}", store=new, base_url=base_url, repeats=2, **options)
        row = one.score(pairs(1)).iloc[0]  # asks nobody: there is no server
        assert (row["score_llm"], row["cost"], row["n_ok"], one.last.calls) == (number + 0.5, 0.5, 2, 0)
    pytest.raises(DreError, files.import_store, tmp_path / "new.sqlite", new).match("no store of an earlier version")
