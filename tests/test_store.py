"""The store of replies: keys, locks, permissions, copies, forks, money, stores of other forms."""

import multiprocessing
import os
import shutil
import sqlite3
import stat
import subprocess
import sys

import pytest
from judge_servers import pairs

import dre.judges
from dre.errors import DreError, TryLater
from dre.judges import prompts
from dre.judges.store import Ceiling, Reply, Store

ROW = {"pair_id": "x", "context": ("One turn.",), "response": "A response."}
HOLD = """
import sys, time
from dre.judges.store import Store
with Store(sys.argv[1]).held(sys.argv[2]):
    print("held", flush=True)
    time.sleep(600)
"""
# Writes a reply under the key "x", and ends without closing the store, as a kill does.
WRITE_AND_DIE = """
import os, sys
from dre.judges.store import Reply, Request, Store
store = Store(sys.argv[1])
request = Request("x", "openai:m", "", "llm_only", "{}", "own/0", 0, {}, [], {})
store.put([(request, Reply("3"))])
os._exit(0)
"""


def key(spec="openai:model-a", row=ROW, prompt="llm_only", first=0, **options):
    live_judge = dre.judges.open(spec, store=":memory:", **options)
    return live_judge.unanswered([row], prompt, first=first)[0].key


def request_for(pair, n=0):
    live_judge = dre.judges.open("openai:m", store=":memory:", base_url="http://127.0.0.1:1")
    return live_judge.unanswered([pair], "llm_only", first=n)[0]


def put(store, reply="3", n=0):
    """Store a reply and return its key."""
    request = request_for(ROW, n)
    store.put([(request, Reply(reply))])
    return request.key


def write_and_die(path):
    """Leave a store whose only reply is in the file beside it, as after a kill."""
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(path)], check=True)
    assert os.path.getsize(f"{path}-wal") > 0


# Keys


def test_all_that_can_change_a_reply_is_in_its_key_and_nothing_else():
    free = {
        "max_usd": 1,
        "price": "1,1",
        "concurrency": 2,
        "timeout": 3,
        "key_env": "SOME_KEY",
        "temperature": None,
    }
    keys_that_are_the_same = [
        key(row=ROW | {"pair_id": "other", "examples": "of no concern"}),
        key(**free),
        key(max_tokens=1024),  # the default, named
    ]
    assert {*keys_that_are_the_same} == {key()}
    different_keys = [
        key("openai:model-b"),
        key("anthropic:model-a"),
        key(base_url="http://127.0.0.1:1"),
        key(max_tokens=7),
        key(temperature=0),
        key(temperature=0.5),
        key(seed=1),
        key(reasoning_effort="low"),
        key(plain=True),
        key(row=ROW | {"response": "Other."}),
        key(row=ROW | {"context": ("One turn.", "Another.")}),
        key(logprobs=3),
        key(prompt="classify"),
        key(first=1),
    ]
    assert len({key(), *different_keys}) == len(different_keys) + 1


def test_replies_that_were_paid_for_are_found_under_their_keys():
    paid = {"llm_only": "23bd6e49bfe4", "classify": "5798b0932fb3"}
    assert {name: key(prompt=name)[:12] for name in paid} == paid


def test_judges_that_ask_differently_have_different_signatures():
    options = (
        {},
        {"temperature": 0},
        {"max_tokens": 99},
        {"plain": True},
        {"repeats": 2},
        {"base_url": "http://h"},
    )
    signatures = set()
    for chosen in options:
        live_judge = dre.judges.open("openai:m", store=":memory:", **chosen)
        signatures.add(live_judge.signature)
    assert len(signatures) == len(options)


# Files


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "s.sqlite"
    broken = b"SQLite format 3\0" + b"x" * 999
    path.write_bytes(broken)
    with pytest.raises(DreError, match="the store cannot be opened.*--store"):
        Store(path).get(["x"])
    assert path.read_bytes() == broken


def test_a_relative_path_means_the_same_store_after_the_folder_has_changed(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    store = Store("s.sqlite")
    assert store.path == tmp_path / "s.sqlite"
    monkeypatch.chdir(elsewhere)
    stored_key = put(store)
    assert (tmp_path / "s.sqlite").exists()
    assert not (elsewhere / "s.sqlite").exists()
    assert stored_key in store.get([stored_key])


def test_a_store_and_the_files_beside_it_are_for_their_owner_alone(tmp_path):
    umask = os.umask(0o022)
    try:
        store = Store(tmp_path / "new" / "s.sqlite")
        with store.held("setting"):
            put(store)
            modes = {}
            for file in store.path.parent.rglob("*"):
                modes[file.name] = stat.S_IMODE(file.stat().st_mode)
    finally:
        os.umask(umask)
    assert modes.pop("s.sqlite.locks") == 0o700
    names = ("s.sqlite", "s.sqlite-wal", "s.sqlite-shm")
    names += ("setting.holder", "setting.lock", "prepare.lock")
    assert modes == dict.fromkeys(names, 0o600)


def test_after_a_run_the_one_file_may_be_copied(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    with store.held():
        stored_key = put(store)
    shutil.copy(store.path, tmp_path / "copy.sqlite")
    assert stored_key in Store(tmp_path / "copy.sqlite").get([stored_key])


def test_looking_at_a_store_after_a_kill_makes_its_one_file_whole(tmp_path):
    path = tmp_path / "s.sqlite"
    write_and_die(path)
    store = Store(path)
    assert len(store.summary()) == 1
    store.close()
    shutil.copy(path, tmp_path / "copy.sqlite")
    assert "x" in Store(tmp_path / "copy.sqlite").get(["x"])


def make_unwritable(path):
    """Leave SQLite no place for its index of the -wal file, as in a read-only folder."""
    index = path.with_name(f"{path.name}-shm")
    index.unlink(missing_ok=True)
    index.symlink_to(path.parent / "no-such-folder" / "index")


def test_a_store_that_can_only_be_read_is_read(tmp_path):
    path = tmp_path / "s.sqlite"
    store = Store(path)
    stored_key = put(store)
    store.close()
    make_unwritable(path)
    assert stored_key in Store(path).get([stored_key])


def test_a_store_that_can_only_be_read_and_not_as_a_whole_is_refused(tmp_path, capsys):
    from dre.commands.main import main

    path = tmp_path / "s.sqlite"
    write_and_die(path)
    make_unwritable(path)
    assert main(["judge", "status", "--store", str(path)]) == 2
    error = capsys.readouterr().err
    assert "some replies are still in s.sqlite-wal" in error
    assert "copy both files" in error


def test_a_committed_reply_outlives_a_power_cut(tmp_path):
    """FULL (2) waits for the disk at each commit."""
    store = Store(tmp_path / "s.sqlite")
    put(store)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# Writers


def test_one_process_asks_a_judge_in_a_setting_and_the_next_is_told_which(tmp_path):
    path = tmp_path / "s.sqlite"
    live_judge = dre.judges.open("openai:m", store=path, base_url="http://127.0.0.1:1")
    prompt = prompts.load("llm_only")
    setting = live_judge.lock_name(prompt)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path, setting], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout.readline() == "held\n"
            assert Store(path).summary() == []  # reading is free
            message = rf"s.sqlite: process {child.pid} on .*, since 20.*, asks the same judge"
            with pytest.raises(TryLater, match=message):
                live_judge.score(pairs(1))
            # Another judge, and the same judge with another prompt, may ask and write.
            other = dre.judges.open("openai:o", store=path, base_url="http://127.0.0.1:1")
            classify = prompts.load("classify")
            names = (other.lock_name(prompt), live_judge.lock_name(classify))
            for n, name in enumerate(names):
                with Store(path).held(name):
                    put(Store(path), n=n)
        finally:
            child.kill()
    # After a kill the lock is free. One process may hold it twice: a writer and a checker.
    with Store(path).held(setting), Store(path).held(setting):
        assert sum(group.n_calls for group in Store(path).summary()) == 2


def test_runs_that_could_pay_for_the_same_reply_have_the_same_lock():
    def lock(spec="openai:m", prompt="llm_only", **options):
        live_judge = dre.judges.open(spec, store=":memory:", **options)
        return live_judge.lock_name(prompts.load(prompt))

    assert lock(max_tokens=7) == lock(repeats=3, max_usd=1, price="1,1") == lock()
    others = [lock("openai:n"), lock(prompt="classify"), lock(temperature=0), lock(plain=True)]
    assert len({lock(), *others}) == 5


def test_a_ceiling_counts_what_other_runs_have_in_flight(tmp_path):
    path = tmp_path / "s.sqlite"
    store, other_store = Store(path), Store(path)
    of_judge = (None, "openai:m", [""])
    low, high = Ceiling("--max-usd-total", 1.0), Ceiling("--max-usd-total", 1.1 + 0.4)

    def pending(n):
        return [(request_for(ROW, n), Reply("", "pending", cost=0.4))]

    assert store.put_within([low], pending(0), *of_judge) is None
    assert other_store.put_within([low], pending(1), *of_judge) is None
    assert store.put_within([low], pending(2), *of_judge) == low
    assert store.has_calls_in_flight(60)
    store.put([(request_for(ROW, 0), Reply("3", cost=0.1))])
    assert store.put_within([high], pending(2), *of_judge) is None


def read_in_child(store, stored_key, connection_of_parent, answers):
    has_reply = stored_key in store.get([stored_key])
    other_key = put(store, n=1)
    is_shared = store._connection is connection_of_parent
    answers.put((has_reply, other_key, is_shared))


def test_a_child_process_does_not_use_the_connection_of_its_parent(tmp_path):
    processes = multiprocessing.get_context("fork")
    answers = processes.Queue()
    store = Store(tmp_path / "s.sqlite")
    stored_key = put(store)
    child = processes.Process(
        target=read_in_child, args=(store, stored_key, store._connection, answers)
    )
    child.start()
    has_reply, other_key, is_shared = answers.get(timeout=60)
    child.join()
    assert has_reply
    assert not is_shared
    assert {stored_key, other_key} == store.get([stored_key, other_key]).keys()


# Replies


def test_log_probabilities_are_loaded_only_where_they_are_wanted(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    request = request_for(ROW)
    store.put([(request, Reply("3", top="[]"))])
    assert store.get([request.key])[request.key].top == "[]"
    assert store.get([request.key], top=False)[request.key].top is None


def test_the_row_of_a_pending_call_goes_when_its_reply_comes(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    request = request_for(ROW)
    call = request._replace(key=f"{request.key}:1")
    store.put([(call, Reply("", "pending", cost=0.25))])
    assert store.spent() == 0.25
    assert store.get([request.key]) == {}
    store.put([(request, Reply("3", cost=0.1))], ended_keys=[call.key])
    assert store.spent() == pytest.approx(0.1)
    assert store.get([request.key])[request.key].text == "3"


def test_counts_of_tokens_that_cannot_be_stored_are_unknown(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    request = request_for(ROW)
    store.put([(request, Reply.from_answer("3", "ok", "m", 2**63, -1))])
    reply = store.get([request.key])[request.key]
    assert reply.input_tokens is None
    assert reply.output_tokens is None


def test_thoughts_among_the_parts_of_a_message_are_no_part_of_the_reply():
    message = [{"text": "I think 5.", "thought": True}, {"text": '{"score": '}, {"text": "3}"}]
    assert Reply.from_answer(message, "ok", "m").text == '{"score": 3}'


# What an earlier version made: no runs, no accounts, and no number of the form.
EARLIER = """CREATE TABLE reply (
    key TEXT PRIMARY KEY, judge TEXT NOT NULL, base_url TEXT NOT NULL, prompt TEXT NOT NULL,
    params TEXT NOT NULL, pair_id TEXT NOT NULL, repeat INTEGER NOT NULL, text TEXT NOT NULL,
    outcome TEXT NOT NULL, model TEXT NOT NULL, input_tokens INTEGER, output_tokens INTEGER,
    cost REAL, seconds REAL, source TEXT NOT NULL, created TEXT NOT NULL, top TEXT
) WITHOUT ROWID"""


@pytest.mark.parametrize(
    "statements, found",
    [
        ([EARLIER], "a store of form 0, of a version before 0.4.0, which knows no runs"),
        (["CREATE TABLE reply (key)", "PRAGMA user_version = 99"], "form 99, of a newer version"),
        (["CREATE TABLE score (key)"], "a database of something else, with a table score"),
    ],
)
def test_a_store_of_another_form_is_refused_in_words_and_left_alone(
    tmp_path, capsys, statements, found
):
    from dre.commands.main import main

    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    content = path.read_bytes()
    with pytest.raises(DreError, match=f"{found}.*expected form 1.*--store"):
        put(Store(path))
    assert main(["judge", "status", "--store", str(path)]) == 2
    error = capsys.readouterr().err
    assert found in error
    assert str(path) in error
    assert "expected form 1" in error
    assert path.read_bytes() == content


def test_a_reader_that_came_first_does_not_refuse_the_store_that_a_run_makes(tmp_path):
    path = tmp_path / "s.sqlite"
    path.touch()
    reader = Store(path)
    assert reader.summary() == []
    put(Store(path))
    assert len(reader.summary()) == 1
    put(reader, n=1)
    assert sum(group.n_calls for group in reader.summary()) == 2


# Money


def test_what_a_run_paid_is_a_condition_on_the_one_ledger(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    request = request_for(ROW)._replace(run="first", account="Table 4")
    store.put([(request, Reply("3", cost=0.1, input_tokens=50, output_tokens=10, seconds=2.0))])
    lost = request._replace(key="lost", run="second")
    store.put([(lost, Reply("", "pending", cost=0.25))])
    unsure = request._replace(key="unsure", run="second", account="Table 5")
    store.put([(unsure, Reply("3", cost=0.5, seconds=1.0))])

    assert store.paid("first") == (0.1, 0.0)
    assert store.paid("second") == (0.75, 0.75)
    assert store.paid("second", in_flight=False) == (0.5, 0.5)
    assert store.paid("second", judge="openai:other") == (0.0, 0.0)
    assert store.spent() == pytest.approx(0.85)
    by_account = {group.account: group for group in store.summary() if group.status == "ok"}
    assert by_account["Table 4"].seconds == 2.0
    assert {group.n_calls for group in store.summary("first")} == {1}

    # A reply that is asked again stays in the accounts of the run that paid for it.
    store.put([(request._replace(run="third"), Reply("4", cost=0.2))])
    assert store.paid("first").usd == 0.1
    assert store.paid("third").usd == 0.2


def test_a_ceiling_of_a_run_counts_its_calls_alone(tmp_path):
    store = Store(tmp_path / "s.sqlite")
    of_judge = (None, "openai:m", [""])

    def pending(n, run):
        return [(request_for(ROW, n)._replace(run=run), Reply("", "pending", cost=0.4))]

    of_run = Ceiling("--max-usd", 1.0, run="mine")
    of_store = Ceiling("--max-usd-total", 1.3)
    assert store.put_within([of_run], pending(0, "other"), *of_judge) is None
    assert store.put_within([of_run], pending(1, "mine"), *of_judge) is None
    assert store.put_within([of_run, of_store], pending(2, "mine"), *of_judge) is None
    assert store.put_within([of_run], pending(3, "mine"), *of_judge) == of_run
    assert store.put_within([of_store], pending(3, "other"), *of_judge) == of_store
    assert store.has_calls_in_flight(60, "mine")
    assert not store.has_calls_in_flight(60, "third")


# Faults


def test_a_call_from_the_future_is_not_in_flight(tmp_path):
    """A kill left it before the clock was set back."""
    store = Store(tmp_path / "s.sqlite")
    call = request_for(ROW)._replace(key="x:1")
    store.put([(call, Reply("", "pending", cost=0.25))])
    assert store.has_calls_in_flight(30)
    with store._opened(write=True) as connection:
        connection.execute("UPDATE reply SET created = '2999-01-01T00:00:00+00:00'")
    assert not store.has_calls_in_flight(30)


def test_a_damaged_store_says_how_to_rescue_what_can_be_read(tmp_path):
    path = tmp_path / "s.sqlite"
    store = Store(path)
    for n in range(400):
        put(store, n=n)
    with store.held():
        pass
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 5] = b"\xff" * 4096 * 2
    path.write_bytes(content)
    with pytest.raises(DreError) as raised:
        Store(path).summary()
    message = str(raised.value)
    assert "the store is damaged (database disk image is malformed): copy the file" in message
    assert f"sqlite3 {path} .dump" in message
    assert "kept" not in message

    if shutil.which("sqlite3"):  # the advice is followed to the letter
        command = message.partition("program: ")[2].partition("; then")[0]
        subprocess.run(command, shell=True, check=True, capture_output=True)
        rescued = Store(tmp_path / "rescued-s.sqlite")
        assert 200 < sum(group.n_calls for group in rescued.summary()) < 400


def test_a_file_that_is_no_store_is_not_told_to_be_rescued(tmp_path):
    path = tmp_path / "s.sqlite"
    path.write_text("These are notes of mine, and no store at all. " * 50)
    with pytest.raises(DreError, match="damaged or no store.*give another --store") as raised:
        Store(path).summary()
    assert "sqlite3" not in str(raised.value)
