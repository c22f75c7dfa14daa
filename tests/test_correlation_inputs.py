"""Frozen prompt inputs, Table 5, labels, cost."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dre.correlation import cost, domains, inputs, labels, opinions, panels, table4, transfer
from dre.correlation.methods import Row, judge_rows, legend, slm_rows
from dre.errors import DreError
from dre.judges import prompts
from dre.pipeline.profile import profile
from dre.published import published

N = 24


@pytest.fixture
def items():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "pair_id": [f"own/{i}" for i in range(N)],
            "context_id": [f"own/context-{i % 8}" for i in range(N)],
            "context": [("Is the shop open?", "Only until noon.")] * N,
            "response": [f"Then we have {i} minutes left." for i in range(N)],
            "human": np.arange(N) + rng.normal(0, 1, N),
        }
    )


def scores(seed=1):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"pair_id": [f"own/{i}" for i in range(N)], "distance": rng.uniform(0.2, 1.1, N)})
    table["s_d"], table["s_p"] = rng.uniform(0, 1, N), rng.uniform(0, 1, N)
    return table.assign(score_slm=1 - table["s_d"] + table["s_p"])


def model(fingerprint="a" * 64):
    return SimpleNamespace(provenance={"fingerprint": fingerprint})


def test_frozen_inputs_stay_when_the_same_slm_scores_a_little_differently(tmp_path):
    path = tmp_path / inputs.FILE
    first = inputs.freeze(scores(), model(), (0.8, 0.9), path)
    before = path.read_bytes()
    elsewhere = scores().assign(s_p=scores()["s_p"] + 1e-4)
    again = inputs.freeze(elsewhere, model(), (0.81, 0.9), path)
    pd.testing.assert_frame_equal(first, again)
    assert path.read_bytes() == before
    assert list(first.columns) == inputs.COLUMNS and "context" not in before.decode()


def test_another_slm_replaces_its_own_pairs_and_leaves_others(tmp_path):
    path = tmp_path / inputs.FILE
    inputs.freeze(scores().head(10), model(), (0.8, 0.9), path)
    inputs.freeze(scores().tail(5), model("b" * 64), (0.8, 0.9), path)
    replaced = inputs.freeze(scores(seed=2).head(10), model("c" * 64), (0.8, 0.9), path)
    table = inputs.read(path).set_index("pair_id")
    assert len(table) == 15 and set(table["slm"].str[0]) == {"b", "c"}
    assert (table.loc[replaced["pair_id"], "s_d"].to_numpy() == replaced["s_d"].to_numpy()).all()


def test_a_prompt_made_from_the_file_is_the_prompt_that_was_exported(tmp_path, items):
    path = tmp_path / inputs.FILE
    domain = domains.Domain("label", "Own", "own", items)
    frozen = inputs.freeze(scores(), model(), (2 / 3, 0.9), path)
    assert inputs.write_pairs([domain], frozen, tmp_path / "pairs.jsonl") == N
    exported = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    prompt = prompts.load("dre")
    replayed = domain.pairs.merge(inputs.read(path), on="pair_id").to_dict("records")
    for one, other in zip(exported, replayed):
        assert prompt.render(one | {"context": tuple(one["context"])}) == prompt.render(other)
    assert "66.7%" in prompt.render(replayed[0])[-1]["content"]


def test_a_file_of_another_form_is_refused(tmp_path):
    (tmp_path / inputs.FILE).write_text("pair_id,s_d\nown/0,0.5\n")
    with pytest.raises(DreError, match="delete the file"):
        inputs.read(tmp_path / inputs.FILE)


def test_accuracies_come_from_table_3_of_the_same_profile(tmp_path):
    settings = SimpleNamespace(results=tmp_path, recipes=("paper",), name="own")
    with pytest.raises(DreError, match="03_classification"):
        inputs.accuracies(settings)
    rows = [("SLM (Prob & Dis), paper", "ours", 81.5), ("SLM (Prob & Dis)", "published", 89.0)]
    rows.append(("LLM labels, own", "recorded", 97.25))
    pd.DataFrame(rows, columns=["model", "source", "overall"]).to_csv(tmp_path / "table3.csv", index=False)
    assert inputs.accuracies(settings) == pytest.approx((0.815, 0.9725))


def recording(folder, frozen):
    """A recording of both prompts, as `dre judge export --recorded` writes it."""
    folder.mkdir()
    rows = [{"pair_id": f"own/{i}", "prompt": "llm_only", "score": 2.0} for i in range(N)]
    rows += [{"pair_id": f"own/{i}", "prompt": "dre", "score": i / 5, "influence": 0.5} for i in range(N)]
    (folder / "judgements.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = {name: {"sha256": prompts.load(name).sha256} for name in ("llm_only", "dre")}
    (folder / "manifest.json").write_text(json.dumps({"prompts": named, "repeats": 1}))
    if frozen is not None:
        frozen.to_csv(folder / inputs.FILE, index=False)


@pytest.mark.parametrize("with_inputs", [True, False])
def test_in_dre_and_dre_appear_with_a_recording_of_the_prompt(tmp_path, items, with_inputs, monkeypatch):
    """DRE multiplies by the s_c that stood in the prompt, where it was frozen beside the recording."""
    frozen = inputs.freeze(scores(), model(), (0.8, 0.9), tmp_path / "inputs.csv")
    recording(tmp_path / "own", frozen if with_inputs else None)
    monkeypatch.setattr("dre.judges.recorded.RECORDED", tmp_path)
    monkeypatch.setattr("dre.data.recorded.RECORDED", tmp_path)
    domain = domains.Domain("label", "Own", "own", items)
    opinion = opinions.opinions(SimpleNamespace(judges=("recorded:own",)), domain)[0]
    now = scores(seed=5)
    rows = {row.family: row for row in judge_rows(opinion, {0: now})}
    used = frozen if with_inputs else now
    expected = (1 - used["s_d"] + used["s_p"]) * np.arange(N) / 5
    assert rows["DRE"].score.to_numpy() == pytest.approx(expected.to_numpy())
    assert rows["In-DRE"].score.to_numpy() == pytest.approx(np.arange(N) / 5)


def test_a_recording_that_knows_none_of_the_items_gives_no_judge(items):
    domain = domains.Domain("label", "Own", "own", items)
    assert opinions.opinions(profile("mini"), domain) == []


def test_table5_sets_seen_and_unseen_side_by_side(items):
    domain = domains.Domain("personachat", "PersonaChat", "own", items)
    good = scores().assign(s_d=1 - items["human"].rank() / N, s_p=items["human"].rank() / N)
    good = good.assign(score_slm=1 - good["s_d"] + good["s_p"])
    found = transfer.rows({"unseen": {0: scores()}, "joint": {0: good}, "own": {0: scores(3)}}, [])
    table = transfer.assemble(domain, found, resamples=50)
    printed = published("dre_table5")
    shown = transfer.statistic(table, "spearman")
    assert list(shown["published_unseen"].dropna()) == list(printed["personachat_spearman"])
    assert list(transfer.statistic(table, "pearson")["published_unseen"].dropna()) == list(
        printed["personachat_pearson"]
    )
    both = shown.set_index("method").loc["SLM (Prob & Dis)"]
    assert both["joint"] == pytest.approx(1) and abs(both["unseen"]) < 0.9
    row = published("dre_table4").set_index("metric").loc["Ours (SLM-Dis and Prob)"]
    assert both["published_seen"] == row["personachat_spearman"]
    assert len(transfer.panel(table)) == 3
    gains = transfer.with_holm([transfer.gains(domain, found, resamples=50, permutations=200)])
    assert gains["p_holm"].between(gains["p"], 1).all()
    joint = gains[gains["trained_on"] == transfer.TRAINED_ON["joint"]]
    assert (joint["answer"] == "seen is better").all() and "seen is better in 3" in transfer.words(gains)


def test_table5_without_data_keeps_every_published_row_and_says_why():
    table = transfer.published_only("no ratings here")
    assert len(table) == 2 * len(published("dre_table5")) and set(table["reason"]) == {"no ratings here"}
    assert transfer.slms(profile("mini"), SimpleNamespace(key="personachat")) == {}


def test_table5_has_no_row_whose_prompt_shows_another_slm(items):
    domain = domains.Domain("personachat", "PersonaChat", "own", items)
    replies = pd.DataFrame({"pair_id": items["pair_id"], "score_llm": np.arange(N) / 5, "status": "ok"})
    refined = replies.assign(s_inf=0.5, n_samples=1, n_ok=1)
    opinion = opinions.Opinion("own", "both prompts", replies, N, 0, refined)
    found = transfer.rows({"unseen": {0: scores()}, "joint": {0: scores(2)}, "own": {0: scores(3)}}, [opinion])
    assert [row.family for row in found["unseen"][3:]] == ["LLM-only", "Ex-DRE", "SLIDE"]
    table = transfer.assemble(domain, found, resamples=50).set_index("method")
    assert table.loc["DRE (llama3.3-70B)", "reason"] == table.loc["In-DRE (llama3.3-70B)", "reason"] == transfer.NO_DRE
    assert table.loc["Ex-DRE (llama3.3-70B)", "reason"] == table4.NO_JUDGE
    made = table["signature"]
    assert made["LLM-only (own)"].startswith("data:own@") and "|judge:own|" in made["LLM-only (own)"]


def test_labels_stand_beside_published_numbers_on_dailydialog_only(items):
    rows = slm_rows({0: scores()}, "own")
    for name, expected in (("dailydialog++", True), ("mini", False)):
        domain = domains.Domain("label", "Own", name, items)
        table = labels.table(domain, table4.measure(domain, rows, resamples=50), rows)
        assert ("published_spearman" in table) == expected


def test_the_label_recording_is_a_row_of_the_embedded_corpus():
    domain = domains.labelled(profile("mini"))
    rows = labels.recorded_rows(domain)
    assert [row.method for row in rows] == ["LLM labels"]
    assert set(rows[0].score.dropna()) <= {0.0, 1.0} and rows[0].score.notna().all()


def test_a_legend_names_each_method_once_for_each_way_it_was_made(items):
    rows = {"One": slm_rows({0: scores()}, "set one"), "Two": slm_rows({0: scores()}, "set two")}
    rows["Two"].append(Row("LLM-only (own)", "LLM-only", scores().set_index("pair_id")["s_p"], judge="own"))
    table = legend(rows)
    assert table["how"].tolist()[:2] == ["trained on set one", "trained on set two"]
    assert table["method"].tolist()[-1] == "LLM-only"


def test_cost_counts_calls_and_tokens_of_the_prompts_that_are_sent(items):
    rows = items.merge(scores(), on="pair_id").assign(slm_accuracy=0.8, llm_accuracy=0.9)
    table = cost.of_judges(rows).set_index("row")
    assert table.loc["G-EVAL", "calls"] == 1000 * 4 * 20 and table.loc["LLM-only, Ex-DRE, SLIDE", "calls"] == 1000
    sent = prompts.load("llm_only").render(rows.iloc[0].to_dict())
    length = sum(len(message["content"]) for message in sent) / 4
    assert table.loc["LLM-only, Ex-DRE, SLIDE", "input_tokens"] == pytest.approx(1000 * length, rel=0.02)
    assert table.loc["In-DRE, DRE", "input_tokens"] > table.loc["LLM-only, Ex-DRE, SLIDE", "input_tokens"]
    haiku = table.loc["LLM-only, Ex-DRE, SLIDE"]
    assert haiku["Claude-3-haiku"] == pytest.approx((haiku["input_tokens"] * 0.25 + 20_000 * 1.25) / 1e6)


def test_a_measurement_is_kept_until_the_hardware_changes(tmp_path, monkeypatch):
    settings = SimpleNamespace(results=tmp_path, encoder="minilm")
    runs = []
    monkeypatch.setattr(cost, "_in_a_process", lambda *a: runs.append(a) or {"timed": 1, "seconds": 2.0})
    first = cost.measured(settings)
    first.to_csv(tmp_path / cost.FILE, index=False)
    pd.testing.assert_frame_equal(cost.measured(settings), first)
    assert len(runs) == len(cost.MEASURED)
    monkeypatch.setattr(cost, "hardware", lambda: "another machine")
    assert set(cost.measured(settings)["hardware"]) == {"another machine"} and len(runs) == 2 * len(cost.MEASURED)


def test_a_row_is_measured_in_a_process_of_its_own():
    found = cost._in_a_process("fusion", "minilm")
    assert found["timed"] == cost.TIMED and found["seconds"] > 0 and 20 < found["memory_mb"] < 2000
    with pytest.raises(DreError, match="unknown row"):
        cost._in_a_process("nothing", "minilm")


def test_figures_are_drawn_with_gaps(items):
    from dre.report import plots_correlation

    domain = domains.Domain("personachat", "PersonaChat", "own", items)
    rows = slm_rows({0: scores()}, "own")
    panel = panels.forest(domain, rows, table4.measure(domain, rows, resamples=50))
    empty = panel.assign(value=np.nan, low=np.nan, high=np.nan)
    figure = plots_correlation.forest({"PersonaChat": panel, "Nothing": empty})
    texts = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert texts == ["SLM", *panel["label"]]
    judge = pd.DataFrame({"judge": ["one", "one"], "stage": ["LLM-only", "SLIDE"], "value": [0.5, 0.4]})
    figure = plots_correlation.stages({("ours", "PersonaChat"): judge}, ("LLM-only", "Ex-DRE", "SLIDE"))
    line = figure.axes[0].lines[0]
    assert list(line.get_xdata()) == [0, 2] and list(line.get_ydata()) == [0.5, 0.4]


def test_fusions_do_not_count_among_the_slms_own_tests():
    table = pd.DataFrame({"method": ["SLM (Dis)", "SLM (Prob)", "Ex-DRE (own)"], "p": [0.02, 0.5, 0.02]})
    table = table.assign(difference=0.1)
    assert transfer.with_holm([table])["p_holm"].tolist() == pytest.approx([0.04, 0.5, 0.02])
