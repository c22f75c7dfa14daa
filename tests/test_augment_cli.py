"""``dre augment ...`` as a user runs it."""

import json
import os
import subprocess
import sys

import judge_servers as servers
import pandas as pd
import pytest
from test_augment_generate import Script, contexts

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


def engine(source, target, script, model="an-engine"):
    """Answer exported prompts as an outside engine does: by custom_id, in another order."""
    lines = []
    for line in source.read_text().splitlines():
        asked = json.loads(line)
        answer = script(servers.Request("POST", asked["url"], {}, json.dumps(asked["body"]).encode()))
        body = answer.body | {"model": model}
        lines.append({"custom_id": asked["custom_id"], "response": {"status_code": 200, "body": body}, "error": None})
    target.write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    return len(lines)


def test_rounds_through_files_give_what_a_live_run_gives(work, capsys):
    wrong = ["adversarial two, 1", "positive five, 2"]
    with servers.Server(Script(wrong)) as server:
        assert dre("generate", work, server.url, "-o", work / "live.jsonl", "--responses", work / "live.csv") == 0
    script, sizes = Script(wrong), []
    files = (work / "out.jsonl", work / "in.jsonl")
    capsys.readouterr()
    said = []
    for _ in range(10):
        assert dre("export", work, "", "-o", files[0], judge="files:an-engine") == 0
        said.append(capsys.readouterr().out)
        sizes.append(engine(*files, script))
        if not sizes[-1]:
            break
        more = ("-o", work / "filed.jsonl", "--responses", work / "filed.csv")
        done = dre("import", work, "", "--replies", files[1], *more, judge="files:an-engine")
        said[-1] += capsys.readouterr().out
    assert sizes == [3, 30, 2, 2, 0] and done == 0
    assert "(3 generate)" in said[0] and "3 before classify of round 1" in said[0]
    assert "(30 classify)" in said[1] and "3 contexts: 1 accepted, 2 before refine of round 2" in said[1]
    assert "(2 refine)" in said[2] and "2 before classify of round 2" in said[2]
    assert "3 contexts: 3 accepted" in said[3]
    for ending in ("jsonl", "csv"):
        assert (work / f"filed.{ending}").read_bytes() == (work / f"live.{ending}").read_bytes()
    assert dre("import", work, "", "--replies", files[1], judge="files:an-engine") == 0  # an empty file


def test_contexts_go_on_where_others_wait_and_one_file_holds_all_prompts(work, capsys):
    script, out, back = Script(["adversarial two, 1"]), work / "out.jsonl", work / "in.jsonl"
    args = {"judge": "files:an-engine"}
    dre("export", work, "", "-o", out, **args)
    engine(out, back, script)
    back.write_text("".join(back.read_text().splitlines(keepends=True)[:2]))  # in reverse: contexts 2 and 1
    assert dre("import", work, "", "--replies", back, **args) == 1
    assert "3 contexts: 2 before classify of round 1, 1 before generate of round 1" in capsys.readouterr().out
    dre("export", work, "", "-o", out, **args)
    assert "21 prompts written" in capsys.readouterr().out
    assert engine(out, back, script) == 21
    assert dre("import", work, "", "--replies", back, **args) == 1
    said = capsys.readouterr().out
    assert "21 replies stored, 0 were stored before, 0 requests failed" in said
    assert "1 accepted, 1 before classify of round 1, 1 before refine of round 2" in said
    assert dre("import", work, "", "--replies", back, **args) == 1
    assert "0 replies stored, 21 were stored before" in capsys.readouterr().out
    assert dre("status", work, "", "--report", work / "r.csv", **args) == 0
    assert pd.read_csv(work / "r.csv")["status"].tolist() == ["missing", "missing", "accepted"]


def test_a_checker_has_files_of_its_own(work, capsys):
    out, checks, back = work / "out.jsonl", work / "checks.jsonl", work / "in.jsonl"
    args = ("--checker", "files:another")
    dre("export", work, "", "-o", out, *args, judge="files:an-engine")
    engine(out, back, Script())
    dre("import", work, "", "--replies", back, *args, judge="files:an-engine")
    assert dre("export", work, "", "-o", out, *args, judge="files:an-engine") == 2
    assert "give --checker-output FILE" in capsys.readouterr().err
    assert dre("export", work, "", "-o", out, "--checker-output", checks, *args, judge="files:an-engine") == 0
    assert out.read_text() == "" and engine(checks, back, Script(), model="another") == 30
    assert json.loads(checks.read_text().splitlines()[0])["body"]["model"] == "another"
    assert dre("import", work, "", "--replies", back, *args, judge="files:an-engine") == 0


def test_replies_of_other_contexts_or_models_are_refused_whole(work, capsys):
    out, back = work / "out.jsonl", work / "in.jsonl"
    dre("export", work, "", "-o", out, judge="files:an-engine")
    engine(out, back, Script(), model="somebody-else")
    assert dre("import", work, "", "--replies", back, judge="files:an-engine") == 2
    assert "in.jsonl:1: answered by somebody-else, but an-engine was asked" in capsys.readouterr().err
    engine(out, back, Script())
    assert dre("import", work, "", "--replies", back, judge="files:m2") == 2
    assert "is none of these" in capsys.readouterr().err
    assert dre("status", work, "", judge="files:an-engine") == 0
    assert "3 before generate of round 1" in capsys.readouterr().out


def test_the_ceiling_stops_and_the_same_command_goes_on(work, capsys):
    with servers.Server(Script(tokens=(2000, 800))) as server:
        assert dre("generate", work, server.url, "--price", "10,20", "--max-usd", "0.5") == 1
        assert "stopped before $0.5 would be passed: raise --max-usd to go on" in capsys.readouterr().out
        assert dre("estimate", work, server.url, "--price", "10,20") == 0
        left = int(capsys.readouterr().out.split()[1])
        before = len(server.requests)
        assert dre("generate", work, server.url, "--price", "10,20") == 0
        assert len(server.requests) - before == left > 0
    capsys.readouterr()
    dre("estimate", work, server.url)
    assert capsys.readouterr().out == "about 0 calls to make, at most 0; 33 replies stored\n"


@pytest.mark.parametrize(
    "line, said",
    [
        ("{", "own.jsonl:2: malformed JSON"),
        ('{"id": "x"}', "own.jsonl:2: field 'context' is missing"),
        ('{"id": "x", "context": []}', "own.jsonl:2: the context has no turns"),
        ('{"id": "x", "context": ["a", " "]}', "own.jsonl:2: the context has no turns, or an empty one"),
        ('{"id": "x", "context": ["a", 3]}', "own.jsonl:2: turn 1 of the context is int"),
        ('{"id": "x", "context": {"a": 3}}', "own.jsonl:2: field 'context' is dict, expected list or str"),
        ('{"id": "c0", "context": ["a"]}', "own.jsonl:2: id 'c0' was at .*own.jsonl:1 already"),
        ('{"id": "x", "context": ["a"], "split": 3}', "own.jsonl:2: field 'split' is int"),
    ],
)
def test_contexts_that_cannot_be_read_are_named(tmp_path, line, said):
    path = tmp_path / "own.jsonl"
    path.write_text('{"id": "c0", "context": "first\\n\\nsecond", "split": "test"}\n')
    (context,) = inputs.read(path)
    assert (context.id, context.set, context.split, context.turns) == ("c0", "own", "test", ("first", "second"))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DreError, match=said):
        inputs.read(path)


@pytest.mark.parametrize(
    "more, said",
    [
        (("-o", "a.csv"), "a.csv: expected a name that ends in .jsonl"),
        (("--report", "nowhere/r.csv"), "its directory is not there"),
        (("--sample", "2"), "--sample goes with a public pool"),
        (("--rounds", "0"), "max_rounds is 0"),
        (("--checker-price", "1,2"), "go with --checker PROVIDER:MODEL"),
        (("--generate-prompt", "none.txt"), "no prompt 'none.txt'"),
    ],
)
def test_arguments_that_do_not_go_are_refused_before_anything_is_asked(work, capsys, more, said):
    with servers.Server(Script()) as server:
        assert dre("generate", work, server.url, *more) == 2
    assert said in capsys.readouterr().err and not server.requests


def test_a_sample_of_a_pool_shares_no_utterance_with_the_rated_sets(data_home, tmp_path, capsys):
    pool = inputs.pool("convai2-valid")
    said = {turn.lower() for name in sets.RATED for rated in sets.rated(name) for turn in rated.turns}
    assert len(pool) > 5000 and not any(
        turn.lower() in said for context in pool for turn in context.turns if len(turn.split()) > 4
    )
    five = inputs.pool("convai2-valid", 5, seed=1)
    assert five == inputs.pool("convai2-valid", 5, seed=1) != inputs.pool("convai2-valid", 5, seed=2)
    assert set(five) <= set(pool) and len({context.id for context in five}) == 5
    with pytest.raises(DreError, match="expected 1 to"):
        inputs.pool("convai2-valid", 10**6)
    args = ("--judge", "openai:gpt-4o-mini", "--store", str(tmp_path / "s.sqlite"))
    assert main(["augment", "estimate", "convai2-valid", "--sample", "7", "--seed", "3", *args]) == 0
    assert capsys.readouterr().out.startswith("about 77 calls to make, at most 231; 0 replies stored")


def test_help_is_instant_and_loads_no_model():
    code = "import sys; from dre.cli import main\ntry: main(['augment', '--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit(bool({'torch', 'pandas', 'numpy', 'openai'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert all(action in done.stdout for action in ("generate", "estimate", "export", "import", "status"))
