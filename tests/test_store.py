"""The judgement store: its keys, its lock, and the replies of an earlier version."""

import subprocess
import sys

import pytest
from judge_servers import pairs

import dre.judges
from dre.errors import DreError
from dre.judges.store import Store

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
    return one.missing([row], prompt, first=first)[0].key


def test_all_that_can_change_a_reply_is_in_its_key_and_nothing_else():
    free = {
        "max_usd": 1,
        "price": "1,1",
        "concurrency": 2,
        "timeout": 3,
        "key_env": "SOME_KEY",
        "temperature": None,
    }
    same = [
        key(row=ROW | {"pair_id": "other", "examples": "of no concern"}),
        key(**free),
        key(max_tokens=1024),
    ]
    assert {*same} == {key()}  # 1024: the default, named
    others = [
        key("openai:model-b"),
        key("anthropic:model-a"),
        key(base_url="http://127.0.0.1:1"),
        key(max_tokens=7),
    ]
    others += [
        key(temperature=0),
        key(temperature=0.5),
        key(seed=1),
        key(reasoning_effort="low"),
        key(plain=True),
    ]
    others += [
        key(row=ROW | {"response": "Other."}),
        key(row=ROW | {"context": ("One turn.", "Another.")}),
    ]
    others += [key(logprobs=3), key(prompt="classify"), key(first=1)]
    assert len({key(), *others}) == len(others) + 1
    paid = {
        "llm_only": "23bd6e49bfe4",
        "classify": "5798b0932fb3",
    }  # replies to these are in stores
    assert {name: key(prompt=name)[:12] for name in paid} == paid
    asked = (
        {},
        {"temperature": 0},
        {"max_tokens": 99},
        {"plain": True},
        {"repeats": 2},
        {"base_url": "http://h"},
    )
    told = {dre.judges.open("openai:m", store=":memory:", **how).signature for how in asked}
    assert len(told) == len(asked)  # what dre score says of its judge, and holds a finished file to


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "s.sqlite"
    path.write_bytes(broken := b"SQLite format 3\0" + b"x" * 999)
    pytest.raises(DreError, Store(path).get, ["x"]).match("the store cannot be opened.*--store")
    assert path.read_bytes() == broken


def test_one_process_writes_a_store_until_it_ends_and_the_next_is_told_which(tmp_path):
    path = tmp_path / "s.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "held\n"
            assert Store(path).summary() == []  # reading is free
            one = dre.judges.open("openai:m", store=path, base_url="http://127.0.0.1:1")
            told = rf"s.sqlite: process {child.pid} on .*, since 20.* is writing"
            pytest.raises(DreError, one.score, pairs(1)).match(told)
        finally:
            child.kill()
    with (
        Store(path).held(),
        Store(path).held(),
    ):  # one process may hold it twice: a writer and a checker
        assert Store(path).summary() == []
