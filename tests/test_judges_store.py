"""The judgement store: its key, its statuses, and what becomes of it when things break."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import judge_servers
import pytest

from dre.errors import DreError
from dre.judges import plan as plans
from dre.judges import prompts, providers
from dre.judges.settings import Setting, canonical, clean_base_url, messages_sha256
from dre.judges.store import Judgement, Store, default_path

SETTING = Setting("openai", "", "model-a", "llm_only", "ab" * 32, canonical({"max_tokens": 10, "temperature": 0}))


def judgement(i=0, **fields):
    return Judgement(**{"messages_sha256": f"{i:064x}", "reply": '{"score": 3}', "created": "then"} | fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


def test_a_reply_is_there_after_reopening(path):
    with Store(path) as store:
        store.add(SETTING, [judgement(reply="first", cost=0.5)])
    with Store(path) as store:
        (found,) = store.judgements(SETTING).values()
    assert found.reply == "first" and found.cost == 0.5


def test_reordered_parameters_hit(path):
    other = Setting(
        *SETTING.key[:3], "llm_only", SETTING.prompt_sha256, canonical({"temperature": 0, "max_tokens": 10})
    )
    with Store(path) as store:
        store.add(SETTING, [judgement()])
        assert len(store.judgements(other)) == 1


@pytest.mark.parametrize("field", ["provider", "base_url", "model", "prompt_sha256", "params"])
def test_every_field_of_the_setting_misses(path, field):
    values = dict(zip(("provider", "base_url", "model", "prompt_sha256", "params"), SETTING.key))
    other = Setting(
        prompt="llm_only", **values | {field: canonical({"max_tokens": 11}) if field == "params" else "other"}
    )
    with Store(path) as store:
        store.add(SETTING, [judgement()])
        assert store.judgements(other) == {}
        assert other.custom_id("x", 0) != SETTING.custom_id("x", 0)


def test_messages_and_repeat_are_part_of_the_key(path):
    with Store(path) as store:
        store.add(SETTING, [judgement(0), judgement(1), judgement(0, repeat=1)])
        assert len(store.judgements(SETTING)) == 3


def test_the_prompts_name_is_not_part_of_the_key(path):
    renamed = Setting(*SETTING.key[:3], "another name", *SETTING.key[3:])
    with Store(path) as store:
        store.add(SETTING, [judgement()])
        assert len(store.judgements(renamed)) == 1


def test_messages_hash_ignores_the_order_of_keys_and_nothing_else():
    one = [{"role": "user", "content": "caf\u00e9"}]
    assert messages_sha256([{"content": "caf\u00e9", "role": "user"}]) == messages_sha256(one)
    for other in (
        [{"role": "system", "content": "caf\u00e9"}],
        [{"role": "user", "content": "cafe"}],
        one * 2,
    ):
        assert messages_sha256(other) != messages_sha256(one)


CHANGES = [
    ("judge", {"provider": "anthropic"}),
    ("judge", {"model": "model-b"}),
    ("judge", {"base_url": "http://127.0.0.1:1/v1"}),
    ("options", {"max_tokens": 7}),
    ("options", {"temperature": 0.5}),
    ("options", {"top_p": 0.5}),
    ("options", {"seed": 1}),
    ("options", {"plain": True}),
    ("options", {"logprobs": True}),
    ("options", {"extra": {"reasoning_effort": "low"}}),
    ("row", {"response": "Another response."}),
    ("row", {"context": ("Another context.",)}),
    ("prompt", "coherence"),
]


@pytest.mark.parametrize("what, change", CHANGES, ids=[str(change) for _, change in CHANGES])
def test_changing_what_is_asked_misses(what, change):
    def key(judge=None, options=None, row=None, prompt="llm_only"):
        judge = {"provider": "openai", "model": "model-a", "base_url": ""} | (judge or {})
        provider = providers.make(judge["provider"], judge["model"], judge["base_url"])
        prompt = prompts.load(prompt)
        params = provider.params(prompt, **{"max_tokens": 5} | (options or {}))
        row = {"pair_id": "x", "context": ("One turn.",), "response": "A response."} | (row or {})
        plan = plans.make([row], prompt, provider, params, 1, Store(":memory:"))
        return plan.setting.key, *plan.missing

    assert key() == key(row={"pair_id": "another name of the same texts"})
    assert key(**{what: change}) != key()


def test_pairs_of_the_same_text_share_a_judgement():
    rows = judge_servers.pairs(1) + [judge_servers.pairs(1)[0] | {"pair_id": "twin"}]
    prompt, provider = prompts.load("llm_only"), providers.make("openai", "m")
    rows = [row | {"context": tuple(row["context"])} for row in rows]
    plan = plans.make(rows, prompt, provider, provider.params(prompt, max_tokens=5), 1, Store(":memory:"))
    assert len(plan.missing) == 1 and len(plan.hashes) == 2


def test_a_good_reply_is_never_replaced_by_a_bad_one(path):
    with Store(path) as store:
        store.add(SETTING, [judgement(status="malformed", reply="hm")])
        store.add(SETTING, [judgement(status="ok", reply="good")])
        store.add(SETTING, [judgement(status="refused", reply="no")])
        (found,) = store.judgements(SETTING).values()
    assert (found.status, found.reply) == ("ok", "good")


def test_a_claim_holds_against_another_living_process(path):
    key = ("0" * 64, 0)
    with Store(path) as store:
        number = store.setting_id(SETTING)
        with store.transaction() as db:  # pid 1 lives as long as the machine
            db.execute("INSERT INTO claim VALUES (?, ?, ?, 1, strftime('%s'))", (number, *key))
        assert store.claim(SETTING, {key: None}) == ([], {})
        with store.transaction() as db:
            db.execute("UPDATE claim SET pid = 999999999")  # no such process
        assert store.claim(SETTING, {key: None}) == ([key], {})


def test_a_claim_hands_over_what_another_has_stored_since(path):
    key = ("0" * 64, 0)
    with Store(path) as store:
        store.add(SETTING, [judgement(status="malformed", created="monday")])
        assert store.claim(SETTING, {key: "monday"}) == ([key], {})  # seen before, to be asked again
        store.add(SETTING, [judgement(created="tuesday")])
        mine, stored = store.claim(SETTING, {key: "monday"})
        assert mine == [] and stored[key].created == "tuesday"


def fill(path, n=3000):
    with Store(path) as store:
        store.add(SETTING, [judgement(i, reply="a reply " * 20) for i in range(n)])
        store.query("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def test_a_torn_store_is_said_kept_and_salvaged(path):
    size = fill(path)
    os.truncate(path, size // 2)
    with pytest.raises(DreError, match="damaged.*kept as .*run the same command again"):
        Store(path)
    (aside,) = (p for p in path.parent.iterdir() if ".damaged-" in p.name and p.name[-3:] not in ("wal", "shm"))
    assert aside.stat().st_size == size // 2
    with Store(path) as store:
        assert 1000 < len(store.judgements(SETTING)) < 3000


def test_a_hole_in_the_middle_costs_only_what_lay_there(path):
    size = fill(path)
    with open(path, "r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(os.urandom(4096))
    with pytest.raises(DreError, match="damaged"):
        Store(path)
    with Store(path) as store:
        assert len(store.judgements(SETTING)) > 2500


@pytest.mark.parametrize("content", [b"", b"\0" * 8192])
def test_a_blanked_store_is_said(path, content):
    fill(path, 10)
    path.write_bytes(content)
    with pytest.raises(DreError, match="damaged"):
        Store(path)
    assert any(".damaged-" in p.name for p in path.parent.iterdir())


def test_another_file_is_refused_and_left_alone(path):
    path.write_text('{"pair_id": "not a store"}\n' * 100)
    with pytest.raises(DreError, match="not a judgement store"):
        Store(path)
    assert path.read_text().startswith('{"pair_id"') and len(list(path.parent.iterdir())) == 1


def test_another_sqlite_file_is_refused_and_left_alone(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(DreError, match="but not a judgement store"):
        Store(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_later_layout_is_refused(path):
    fill(path, 1)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(DreError, match="later version"):
        Store(path)


def test_a_full_disk_is_said_and_keeps_what_is_stored(path):
    fill(path, 10)
    with Store(path) as store:
        store.query(f"PRAGMA max_page_count = {store.query('PRAGMA page_count')[0][0]}")
        with pytest.raises(DreError, match="disk is full"):
            store.add(SETTING, [judgement(i, reply="x" * 5000) for i in range(100, 200)])
    with Store(path) as store:
        assert len(store.judgements(SETTING)) == 10


def test_a_write_that_the_system_refuses_is_said(path):
    """A file-size limit stands in for a disk that fills while a process writes."""
    code = (
        "import resource, signal, sys; from test_judges_store import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = Store(sys.argv[1]); store.add(SETTING, [judgement(0)])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "for i in range(1, 2000): store.add(SETTING, [judgement(i, reply='x' * 500)])\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, env=env())
    assert "DreError" in ran.stderr and "what is stored is kept" in ran.stderr
    with Store(path) as store:
        assert len(store.judgements(SETTING)) >= 1


def test_a_directory_that_cannot_be_written_is_said(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    with pytest.raises(DreError, match="cannot be created"):
        Store(blocked / "store.sqlite")


def test_a_store_that_cannot_be_written_is_said(path):
    with Store(path) as store:
        store.query("PRAGMA query_only = ON")
        with pytest.raises(DreError, match="cannot be written"):
            store.add(SETTING, [judgement()])


def env():
    here = Path(__file__).parent
    return os.environ | {"PYTHONPATH": f"{here}{os.pathsep}{here.parent}"}


def test_two_processes_write_one_store(path):
    code = (
        "import sys; from test_judges_store import *\n"
        "store = Store(sys.argv[1]); start = int(sys.argv[2])\n"
        "for i in range(start, start + 60): store.add(SETTING, [judgement(i)])\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path), start], env=env(), stderr=subprocess.PIPE, text=True)
        for start in ("0", "40", "80")
    ]
    for child in children:
        assert child.wait(60) == 0, child.stderr.read()
        child.stderr.close()
    with Store(path) as store:
        assert len(store.judgements(SETTING)) == 140


def test_the_default_place_does_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("DRE_STORE", raising=False)
    before = default_path()
    monkeypatch.chdir(tmp_path)
    assert default_path() == before and before.is_absolute()
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "mine.sqlite"))
    assert default_path() == tmp_path / "mine.sqlite"


@pytest.mark.parametrize("url", ["http://user:secret@host/v1", "https://host/v1?key=secret", "host/v1", "ftp://host"])
def test_a_base_url_that_holds_a_key_is_refused_without_repeating_it(url):
    with pytest.raises(DreError) as caught:
        clean_base_url(url)
    assert "secret" not in str(caught.value)


def test_a_base_url_is_stored_without_its_trailing_slash():
    assert clean_base_url("http://host:1/v1/") == "http://host:1/v1"
