"""Case studies: the cases themselves, scales, counts and words, recorded judges, disagreements."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
import tiny
from sentence_transformers import SentenceTransformer
from test_paper_committed import found_in, third_party

from dre import published
from dre.cases import disagreements, judged, summary, written
from dre.classification import variants
from dre.data import rated_table
from dre.errors import DreError
from dre.judges import pairs as pair_rows
from dre.judges import prompts, recorded
from dre.paper import profile
from dre.pipeline.fingerprint import Modules
from dre.report import plots_cases
from dre.slm import recipes
from dre.slm.encoder import load_encoder
from dre.slm.head import Head
from dre.slm.model import SLM


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def slm(encoder):
    """An untrained SLM of the true architecture: its scores mean nothing, their handling is what is tested."""
    base = load_encoder(encoder)
    recipe = recipes.get("paper")
    model = SentenceTransformer(modules=[*base, Head(base.get_embedding_dimension(), recipe.sep)])
    return SLM(model, recipe, {"d_min": 0.1, "d_max": 0.4})


@pytest.fixture(scope="module")
def responses():
    return written.load()


def test_there_are_at_least_four_cases_of_each_design(responses):
    cases = responses.groupby("design")["case"].nunique()
    assert set(cases.index) == set(written.DESIGNS) and (cases >= 4).all()
    assert responses["pair_id"].is_unique and (responses.groupby("case").size() == 2).all()


def test_the_cases_have_the_form_of_their_design(responses):
    for case, rows in responses.groupby("case"):
        first, second = rows["response"]
        same = first == rows["reference"].iloc[0]
        assert same == (rows["design"].iloc[0] == "creative"), case
        assert second not in (first, rows["reference"].iloc[0]), case
    assert responses.set_index("pair_id")["fits"].groupby(responses["design"].to_numpy()).mean().to_dict() == {
        "creative": 1.0, "contradiction": 0.5, "slide": 0.5,
    }  # fmt: skip


def test_the_cases_are_nobody_elses(responses, data_home):
    wanted = third_party()
    for row in responses.itertuples():
        assert not found_in("\n".join([*row.context, row.reference, row.response]), wanted), row.pair_id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"design": "funny"}, "design 'funny', expected one of creative"),
        ({"responses": ["a", "b", "c"]}, "3 responses, expected 2"),
        ({"responses": ["a"]}, "has 1 texts, expected at least 2"),
        ({"context": "a text"}, "'context' is str, expected list"),
    ],
)
def test_a_malformed_case_is_named_by_its_line(tmp_path, change, message):
    good = {"id": "x-1", "design": "slide", "context": ["a"], "reference": "b", "responses": ["c", "d"]}
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, [good, good | change])))
    with pytest.raises(DreError, match=message) as error:
        written.load(path)
    assert f"{path}:2" in str(error.value)


def test_every_metric_is_brought_to_the_unit_interval_by_its_own_range(responses, slm, encoder):
    unit = written.metrics(responses, slm, encoder).set_index("pair_id")
    assert ((unit >= 0) & (unit <= 1)).all(axis=None)
    repeats = responses.loc[responses["response"] == responses["reference"], "pair_id"]
    assert unit.loc[repeats, [*written.BLEU, "BERTScore"]].to_numpy() == pytest.approx(1, abs=1e-5)
    scores = slm.score(responses).set_index("pair_id")
    assert scores["s_d"].min() < 0 or scores["s_d"].max() > 1, "the range of distances is left, so clipping is tested"
    assert unit["SLM (Prob)"].to_numpy() == pytest.approx(scores.loc[unit.index, "s_p"].to_numpy())
    both = variants(scores)["SLM (Prob & Dis)"].loc[unit.index] / 2
    assert unit["SLM (Prob & Dis)"].to_numpy() == pytest.approx(both.clip(0, 1).to_numpy())


def test_a_score_does_not_depend_on_the_other_cases(responses, slm, encoder):
    alone = written.metrics(responses.iloc[[3]], slm, encoder)
    among = written.metrics(responses, slm, encoder)
    assert alone.iloc[0, 1:].tolist() == pytest.approx(among.iloc[3, 1:].tolist(), abs=1e-5)


def scored(responses, values, metric="m"):
    """Scores in [0, 1] by (case, number), all others missing."""
    x = [values.get((case, number), math.nan) for case, number in zip(responses["case"], responses["number"])]
    return written.scored(responses, pd.DataFrame({"pair_id": responses["pair_id"], metric: x}))


def test_scales_are_those_of_the_papers_and_half_is_accepted(responses):
    long = scored(responses, {("creative-1", 1): 0.5, ("creative-1", 2): 0.49, ("slide-1", 1): 0.5, ("slide-1", 2): 0})
    got = long.dropna(subset="score").set_index(["case", "number"])[["score", "accepted"]]
    assert got["score"].to_list() == pytest.approx([2.5, 2.45, 3.0, 1.0])
    assert got["accepted"].to_list() == [1, 0, 1, 0]
    assert long["accepted"].isna().equals(long["score"].isna())


def test_table_6_sets_published_scores_beside_the_means_of_ours(responses):
    values = {(f"creative-{i}", 1): i / 10 for i in range(1, 5)} | {(f"contradiction-{i}", 2): 0.2 for i in range(1, 5)}
    long = pd.concat([scored(responses, values, "BLEU-1"), scored(responses, values, "DRE (a-judge)")])
    table = written.table6(long, {"In-DRE": "nobody was asked"})
    paper = published.published("dre_table6").set_index("metric")
    bleu = table[table["metric"] == "BLEU-1"]
    assert bleu["source"].tolist() == ["published", "ours"]
    assert bleu["creative_1"].tolist() == pytest.approx([paper.loc["BLEU-1", "case1_response1"], 1.25])
    assert bleu["contradiction_2"].tolist() == pytest.approx([paper.loc["BLEU-1", "case2_response2"], 1.0])
    assert {"BERTScore", "SLM (Prob)", "Non-DRE"} <= set(table["metric"]), "rows are called as ours are"
    assert table["metric"].tolist()[-2:] == ["DRE", "DRE (a-judge)"], "a judge's row stands below the published one"
    refused = table[(table["metric"] == "In-DRE") & (table["source"] == "ours")].iloc[0]
    assert refused["why"] == "nobody was asked" and pd.isna(refused["creative_1"]) and pd.isna(refused["n"])
    assert table.loc[table["source"] == "published", "why"].isna().all()


def test_slide_scores_are_on_its_scale(responses):
    table = written.slide_table(scored(responses, {(f"slide-{i}", 1): 0.25 for i in range(1, 6)}))
    ours = table[table["source"] == "ours"].iloc[0]
    assert (ours["slide_1"], ours["n"]) == (2.0, 5) and pd.isna(ours["slide_2"])
    assert table.set_index("metric").loc["Human", "slide_1"] == 4.7


def test_counts_follow_the_design_and_a_tie_is_no_order(responses):
    values = {("creative-1", 1): 0.9, ("creative-1", 2): 0.8, ("creative-2", 1): 0.6, ("creative-2", 2): 0.4}
    values |= {("slide-1", 1): 0.9, ("slide-1", 2): 0.1, ("slide-2", 1): 0.7, ("slide-2", 2): 0.7, ("slide-3", 1): 1.0}
    counts = summary.summary(scored(responses, values)).set_index("design")
    columns = ["n", "first_higher", "first_accepted", "second_accepted", "both_right"]
    assert counts.loc["creative", columns].tolist() == [2, 2, 2, 1, 1]
    assert counts.loc["slide", columns].tolist() == [2, 1, 2, 1, 1], "a case with one score does not count"


def test_the_words_are_made_from_the_counts():
    row = {"design": "slide", "n": 5, "first_accepted": 0, "second_accepted": 0, "both_right": 0}
    rows = [row | {"metric": f"BLEU-{i}", "first_higher": 3} for i in (1, 2)] + [
        row | {"metric": "X", "first_higher": 5}
    ]
    text = summary.reading(pd.DataFrame(rows))
    assert "above the other in 5 of 5 by X, in 3 of 5 by BLEU-1/2." in text
    assert "rejected in no case by any metric" in text and "at least as many with probability 0.03" in text
    same = summary.reading(pd.DataFrame([r | {"first_higher": 2} for r in rows]))
    assert "in 2 of 5 cases by every metric" in same and "At best, 2 of 5" in same and "probability 0.81" in same


def recording(folder, name, lines):
    (folder / name).mkdir()
    sha = {p: {"sha256": prompts.load(p).sha256} for p in judged.PROMPTS}
    (folder / name / "manifest.json").write_text(json.dumps({"repeats": 1, "prompts": sha}))
    (folder / name / "judgements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_recording_of_the_cases_gives_the_rows_of_large_models(responses, slm, tmp_path, monkeypatch):
    monkeypatch.setattr(judged, "RECORDED", tmp_path)
    monkeypatch.setattr(recorded, "RECORDED", tmp_path)
    ids = responses["pair_id"].tolist()
    lines = [{"pair_id": i, "prompt": "llm_only", "score": 4.0} for i in ids[:-1]]
    lines += [{"pair_id": ids[-1], "prompt": "llm_only", "reply": "Well, who can say?"}]
    recording(tmp_path, "some", lines)
    rows = judged.rows_to_ask(responses, slm)
    table, missing = judged.ask_all(rows, replace(profile("mini"), judges=()))
    assert list(table.columns) == ["pair_id", "Non-DRE (some)", "Ex-DRE (some)", "SLIDE (some)"]
    assert table["Non-DRE (some)"].iloc[:-1].tolist() == [0.8] * (len(ids) - 1)
    assert table.iloc[-1, 1:].isna().all(), "a malformed reply is no score"
    s_c = 1 - rows["s_d"] + rows["s_p"]
    assert table["Ex-DRE (some)"].iloc[:-1].tolist() == pytest.approx((s_c * 0.4).clip(0, 1).iloc[:-1].tolist())
    assert list(missing) == ["In-DRE", "DRE"] and "dre judge export build/mini/cases.jsonl" in missing["DRE"]


def test_a_judge_that_cannot_be_asked_is_a_reason_and_no_failure(responses, slm, tmp_path, monkeypatch):
    monkeypatch.setattr(judged, "RECORDED", tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("DRE_STORE", str(tmp_path / "store.sqlite"))
    settings = replace(profile("mini"), judges=("openai:a-model",))
    table, missing = judged.ask_all(judged.rows_to_ask(responses, slm), settings)
    assert list(table.columns) == ["pair_id"] and list(missing) == list(written.LLM)
    assert missing["DRE"].startswith("openai:a-model: ") and "OPENAI_API_KEY" in missing["DRE"]


def test_the_committed_recording_holds_none_of_the_cases(responses, slm):
    assert judged.metrics(judged.rows_to_ask(responses, slm), "recorded:claude-2026-11") is None


def test_the_file_for_dre_judge_can_be_asked_with_both_prompts(responses, slm, tmp_path):
    rows = judged.rows_to_ask(responses, slm)
    judged.write(rows, tmp_path / "new" / "cases.jsonl")
    read = pair_rows.read(tmp_path / "new" / "cases.jsonl")
    assert len(read) == len(responses) and "fits" not in read[0]
    for prompt in map(prompts.load, judged.PROMPTS):
        assert responses["response"][0] in prompt.render(read[0])[-1]["content"]
    shown = published.table3().set_index("model")["overall"]
    assert read[0]["slm_accuracy"] == pytest.approx(shown["SLM (Prob & Dis)"] / 100)


def table(slm_scores, llm, human=None, set_name="s", judge="j"):
    n = len(slm_scores)
    return pd.DataFrame(
        {
            "set": set_name, "judge": judge, "pair_id": [f"{set_name}/{i}" for i in range(n)],
            "context": [("Do you like tea?",)] * n, "response": ["I like tea, yes I do."] + ["No."] * (n - 1),
            "human": [math.nan] * n if human is None else human, "llm": llm, "slm": slm_scores,
        }
    )  # fmt: skip


def test_ranks_are_percentiles_within_a_set_and_ties_share_theirs():
    both = pd.concat([table([1, 2, 2, 9], [0, 0, 0, 0], [4, 3, 2, 1]), table([5, 7], [1, 2], [1, 2], "t")])
    ranks = disagreements.percentiles(both)
    assert ranks["slm"].tolist() == [25, 62.5, 62.5, 100, 50, 100]
    assert ranks["llm"].tolist()[:4] == [62.5] * 4
    first = ranks.iloc[0]
    assert (first["words"], round(first["shared"], 1)) == (6, 50.0), "like, tea and do, of six words"


def test_the_largest_differences_come_first_and_people_are_compared_with_the_slm_once():
    one = table([1, 2, 3, 4], [1, 2, 3, 4], [4, 3, 2, 1])
    found = disagreements.largest(disagreements.percentiles(pd.concat([one, one.assign(judge="k")])), top=1)
    assert found[["judge", "between", "pair_id", "difference"]].to_numpy().tolist() == [
        ["j", "SLM - people", "s/0", -75.0],
        ["j", "LLM - people", "s/0", -75.0],
        ["j", "SLM - LLM", "s/0", 0.0],
        ["k", "LLM - people", "s/0", -75.0],
        ["k", "SLM - LLM", "s/0", 0.0],
    ]
    assert not {"context", "response"} & set(found.columns)
    texts = disagreements.texts(found, one)
    assert texts["response"].tolist() == ["I like tea, yes I do."] and texts["context"].tolist() == ["Do you like tea?"]


def test_patterns_show_both_ends_and_are_said_in_words():
    scores = table([9, 1, 2, 3], [1, 2, 3, 9])
    looks = disagreements.patterns(disagreements.percentiles(scores))
    assert looks["between"].tolist() == ["SLM - LLM"], "nobody has rated these"
    row = looks.iloc[0]
    assert (row["words_above"], row["words"], row["words_below"]) == (6, 2.25, 1)
    text = disagreements.reading(looks)
    assert "SLM - LLM 38" in text and "far above the LLM are longer" in text and "share more" in text


def test_the_embedded_corpus_is_compared_with_its_recorded_scores(slm):
    settings = replace(profile("mini"), judges=("recorded:claude-2026-11", "openai:not-asked"))
    scores, missing = disagreements.scores(settings, slm)
    assert missing == []
    assert len(scores) == 320 and set(scores["judge"]) == {"claude-2026-11"} and scores["human"].isna().all()
    known = recorded.load("claude-2026-11").table.query("prompt == 'llm_only'").set_index("pair_id")["score_llm"]
    assert (scores["llm"] == scores["pair_id"].map(known)).all()
    assert disagreements.largest(disagreements.percentiles(scores), 3)["between"].tolist() == ["SLM - LLM"] * 3


def rated_in(*names):
    return replace(profile("mini"), rated=names)


def test_rated_pairs_meet_the_scores_recorded_for_them(slm, data_home):
    from dre.data import rated

    scores, missing = disagreements.scores(rated_in("personachat-usr", "fed-turn"), slm)
    assert not missing
    assert scores.groupby(["set", "judge"]).size().to_dict() == {
        ("personachat-usr", "claude-2026-11"): 300,
        ("personachat-usr", "Claude-3-haiku"): 300,
        ("fed-turn", "Claude-3-haiku"): 375,
    }
    human = rated_table(rated("fed-turn")).set_index("pair_id")["human"]
    part = scores[scores["set"] == "fed-turn"].set_index("pair_id")
    assert part["human"].equals(human.loc[part.index])


def test_what_is_not_there_is_said(slm, data_home, monkeypatch):
    def absent(judge):
        raise DreError("the file is not here")

    monkeypatch.setattr(disagreements.thirdparty, "judge_scores", absent)
    scores, missing = disagreements.scores(rated_in("fed-turn"), slm)
    assert missing == [("Claude-3-haiku on fed-turn", "the file is not here")] and scores.empty
    assert disagreements.largest(disagreements.percentiles(scores)).empty


def test_the_figure_has_a_mark_for_every_score(responses):
    long = scored(responses, {key: 0.3 for key in zip(responses["case"], responses["number"])})
    fig = plots_cases.cases(long, summary.SHORT, {d: ends for d, (ends, _) in written.DESIGNS.items()})
    marks = [len(dots.get_offsets()) for ax in fig.axes for dots in ax.collections]
    assert sum(marks) == len(responses) and len(fig.axes) == len(written.DESIGNS)
    assert [ax.get_lines()[0].get_xdata()[0] for ax in fig.axes] == [2.5, 2.5, 3.0]


def test_the_notebook_reruns_when_the_cases_change():
    root = written.REPOSITORY
    assert written.CASES in Modules(root).files(["dre.cases", "dre.cases.written"])
    assert written.CASES not in Modules(root).files(["dre.slm"])
