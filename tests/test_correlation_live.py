"""In-DRE and DRE from end to end: a live judge of the profile, and the same judge through files and a recording."""

import json
import shlex
from dataclasses import replace
from types import SimpleNamespace

import judge_servers as servers
import numpy as np
import pandas as pd
import pytest

from dre.cli import main
from dre.correlation import claims, cost, domains, inputs, methods, opinions, readings, table4
from dre.pipeline.profile import profile

pytest.importorskip("openai")
N = 12
PARTS = ["score_llm", "s_inf", "status", "s_d", "s_p"]


def reply(body):
    """A reply that depends on the messages alone, so that it is the same live and through files."""
    total = sum(json.dumps(body["messages"]).encode())
    values = {"score": total % 51 / 10}
    if "influence" in body["messages"][-1]["content"].lower():
        values["influence"] = total % 11 / 10
    return servers.openai(json.dumps(values))


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Profile mini with its root elsewhere, and a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    for module in ("dre.judges.recorded", "dre.data.recorded"):
        monkeypatch.setattr(f"{module}.RECORDED", tmp_path / "data" / "recorded")
    return replace(profile("mini"), root=tmp_path, judges=("openai:test-model",))


@pytest.fixture
def domain():
    items = pd.DataFrame(servers.pairs(N)).assign(
        context_id=[f"own/context-{i % 4}" for i in range(N)], human=np.random.default_rng(0).uniform(1, 5, N)
    )
    return domains.Domain("topicalchat", "TopicalChat", "own", items)


@pytest.fixture
def scored(domain):
    """The SLM's scores of two training seeds."""
    out = {}
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({"pair_id": domain.items["pair_id"], "distance": rng.uniform(0, 1, N)})
        table["s_d"], table["s_p"] = table["distance"], rng.uniform(0, 1, N)
        out[seed] = table.assign(score_slm=1 - table["s_d"] + table["s_p"])
    return out


@pytest.fixture
def frozen(settings, scored):
    slm = SimpleNamespace(provenance={"fingerprint": "a" * 64})
    return inputs.freeze(scored[0], slm, (0.8, 0.9), settings.results / inputs.FILE)


def asked_live(settings, domain, frozen, monkeypatch):
    with servers.Server(lambda request: reply(request.body)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        (first,) = own(settings, domain, frozen)
        calls = len(server.requests)
        (again,) = own(settings, domain, frozen)
        assert (calls, len(server.requests)) == (2 * N, 2 * N), "both prompts, and nothing is asked twice"
    pd.testing.assert_frame_equal(first.refined, again.refined)
    return first


def own(settings, domain, frozen=None):
    return opinions.own(settings.judges, domain, frozen)


def answered(exported, to):
    """The replies to a file of requests, as a batch API writes them."""
    requests = [json.loads(line) for line in exported.read_text().splitlines()]
    lines = [
        {"custom_id": each["custom_id"], "response": {"status_code": 200, "body": reply(each["body"]).body}}
        for each in requests
    ]
    to.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


def recorded(settings, domain, frozen):
    """Do what `inputs.how_to` prints, word for word."""
    root = settings.root
    assert inputs.write_pairs([domain], frozen, inputs.file(settings)) == N
    commands = inputs.how_to(settings).split("```")[1].strip().splitlines()
    (root / "data" / "recorded").mkdir(parents=True)
    for command in commands:
        for prompt in inputs.PROMPTS:
            command = command.replace(f"<replies to {prompt}.jsonl>", f"{prompt}-replies.jsonl")
        words = shlex.split(command.replace("<model>", "test-model"), comments=True)
        if words[:1] == ["cp"]:
            (root / words[2] / inputs.FILE).write_bytes((root / words[1]).read_bytes())
        elif words:
            assert main(words[1:]) == 0, command
        if words[1:3] == ["judge", "export"] and "-o" in words:
            exported = root / words[-1]
            assert answered(exported, exported.with_name(f"{exported.stem}-replies.jsonl")) == N
    return replace(settings, judges=tuple(f"recorded:test-model-{prompt}" for prompt in inputs.PROMPTS))


def test_a_live_judge_of_the_profile_fills_in_dre_and_dre(settings, domain, scored, frozen, monkeypatch):
    opinion = asked_live(settings, domain, frozen, monkeypatch)
    assert (opinion.name, opinion.replies, opinion.malformed) == ("test-model", N, 0)
    rows = {row.family: row for row in methods.judge_rows(opinion, scored)}
    assert list(rows) == list(methods.STAGES)
    s_c = (1 - frozen["s_d"] + frozen["s_p"]).to_numpy()
    assert rows["DRE"].score.to_numpy() == pytest.approx(s_c * rows["In-DRE"].score.to_numpy())
    assert (rows["In-DRE"].score != rows["LLM-only"].score).any(), "another prompt, other replies"
    all_rows = methods.slm_rows(scored, "own") + list(rows.values())
    measured = table4.measure(domain, all_rows, resamples=50).set_index("method")
    assert measured.loc[["In-DRE (test-model)", "DRE (test-model)"], "spearman"].notna().all()
    assert measured.loc["Ex-DRE (test-model)", "seeds"] == 2 and measured.loc["DRE (test-model)", "seeds"] == 1
    tests = claims.tests([(domain, all_rows)], resamples=50, permutations=100)
    assert {"In-DRE", "DRE"} <= set(tests["method"]) and "was not measured" not in claims.words(tests)
    asked = cost.as_asked({"TopicalChat": [opinion]})
    assert asked["prompt"].str.partition("@")[0].tolist() == ["llm_only", "dre"]
    assert asked["calls"].tolist() == [1000, 1000] and (asked["seconds"] > 0).all()
    assert asked["seconds"].iloc[0] == pytest.approx(opinion.scores["seconds"].sum() / N * 1000)
    assert asked["dollars"].isna().all(), "no price is known of this model"
    found = readings.gains(domain, scored, [opinion])
    assert set(found.loc[found["method"] == "DRE", "reading"]) == {"coefficient s_c", "coefficient c"}


def test_the_printed_commands_lead_to_a_recording_that_replays_the_live_judge_exactly(
    settings, domain, scored, frozen, monkeypatch
):
    live = asked_live(settings, domain, frozen, monkeypatch)
    monkeypatch.delenv("OPENAI_BASE_URL")
    replayed = recorded(settings, domain, frozen)
    (opinion,) = own(replayed, domain)  # two recordings, one judge; the frozen inputs lie beside one of them
    assert (opinion.name, opinion.replies, opinion.malformed) == ("test-model", N, 0)
    pd.testing.assert_frame_equal(opinion.refined[PARTS], live.refined[PARTS])
    pd.testing.assert_series_equal(opinion.scores["score_llm"], live.scores["score_llm"])
    elsewhere = {seed: table.assign(s_d=0.5, s_p=0.5, score_slm=1.0) for seed, table in scored.items()}
    for one, other in zip(methods.judge_rows(live, scored), methods.judge_rows(opinion, elsewhere)):
        if one.family in ("LLM-only", "In-DRE", "DRE"):
            pd.testing.assert_series_equal(one.score, other.score, check_names=False)
    folder = settings.root / "data" / "recorded" / "test-model-dre"
    kept = "".join(path.read_text() for path in folder.iterdir())
    assert not any(text in kept for text in domain.items["response"]), "ids and numbers, no dialogue"


def test_a_recording_of_the_dre_prompt_alone_gives_in_dre_and_dre_only(settings, domain, scored, frozen):
    only = replace(recorded(settings, domain, frozen), judges=("recorded:test-model-dre",))
    (opinion,) = own(only, domain)
    assert cost.as_asked({"TopicalChat": [opinion]}).empty, "a recording tells no seconds"
    assert opinion.scores is None and opinion.refined is not None
    rows = methods.slm_rows(scored, "own") + methods.judge_rows(opinion, scored)
    assert [row.family for row in rows[3:]] == ["In-DRE", "DRE"] and rows[-1].replies == N
    tests = claims.tests([(domain, rows)], resamples=50, permutations=100)
    assert tests[["method", "against"]].to_numpy().tolist() == [["DRE", "SLM"]]
    assert "no fusion can be compared with its own LLM" in claims.words(tests)
    assert readings.gains(domain, scored, [opinion]).empty
    row = opinions.overview({"TopicalChat": [opinion]}).iloc[0]
    assert (row["pairs"], row["replies"], row["malformed"], row["asked"]) == (N, N, 0, "dre prompt only")
