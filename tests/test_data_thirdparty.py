import json

import pandas as pd
import pytest

from dre import data
from dre.data import parse, registry, table2, thirdparty
from dre.errors import DreError


@pytest.fixture(scope="module")
def ratings(data_home):
    names = ("topicalchat-usr", "personachat-usr", "fed-turn")
    return pd.concat([data.rated_table(data.rated(name)) for name in names])


@pytest.mark.parametrize("judge", thirdparty.JUDGES)
def test_every_judge_scores_every_item(ratings, judge):
    table = thirdparty.judge_scores(judge)
    wanted = ratings[ratings.set == "topicalchat-usr"] if judge == "unieval" else ratings
    assert set(table.pair_id) == set(wanted.pair_id) and len(table) == len(wanted)
    assert list(table.columns[:3]) == ["pair_id", "judge", "score"]
    low, high = (1, 5) if judge == "claude-3-haiku" else (0, 5) if judge == "unieval" else (0, 1)
    assert table.score.between(low, high).all()


@pytest.mark.parametrize(
    ("judge", "name", "spearman"),
    [
        ("claude-3-haiku", "topicalchat-usr", 0.494),
        ("claude-3-haiku", "personachat-usr", 0.453),
        ("llama2-13b", "topicalchat-usr", 0.35),
        ("vicuna-13b", "topicalchat-usr", 0.385),
    ],
)
def test_judges_correlate_with_people_as_measured_before(ratings, judge, name, spearman):
    joined = ratings[ratings.set == name].merge(thirdparty.judge_scores(judge), on="pair_id")
    assert joined.human.corr(joined.score, "spearman") == pytest.approx(spearman, abs=1e-3)


def test_unieval_join_agrees_with_the_human_scores_it_repeats(ratings):
    from dre.data.fetch import local

    path = local(registry.find("unieval", "topical_chat_result.json"))
    table = thirdparty.judge_scores("unieval").merge(ratings, on="pair_id", suffixes=("", "_human"))
    theirs = [record["scores"] for _, record in parse.read_json_array(path)]
    for ours, scores in zip(table.to_dict("records"), theirs):
        assert ours["human"] == pytest.approx(scores["overall"])
        assert ours["maintains_context"] == pytest.approx(scores["coherence"])


@pytest.mark.parametrize(
    ("model", "right"),
    [("DEB", {"p": 89.79, "a": 95.53, "r": 80.89}), ("RUBER-Large", None), ("DEB (random negatives)", None)],
)
def test_classifier_scores(data_home, model, right):
    pairs = data.pairs(data.load("dailydialog++", "test"), "par")
    joined = pairs.merge(thirdparty.classifier_scores(model), on="pair_id")
    assert len(joined) == len(pairs) == 17130
    correct = ((joined.score >= 0.5) == (joined.kind == "p")).groupby(joined.kind).mean()
    if right:
        assert (100 * correct).round(2).to_dict() == right
    else:
        assert correct["p"] > 0.8


def test_gpt35_replies_are_raw(data_home):
    table = thirdparty.gpt35_replies()
    assert list(table.columns) == ["pair_id", "criterion", "prompt", "repeat", "reply"]
    items = table.groupby(["criterion", "prompt"]).pair_id.nunique()
    assert len(items) == 12 and items.between(356, 360).all()
    assert (table.groupby(["criterion", "prompt", "pair_id"]).size() == 20).all()
    assert not table.duplicated(["pair_id", "criterion", "prompt", "repeat"]).any()
    assert set(table.pair_id) == {record.pair_id for record in data.rated("topicalchat-usr")}
    analysed = table[(table.prompt == "analyze_rate")]
    assert (analysed.reply.str.len() > 20).mean() > 0.9  # text, not numbers


def test_unknown_judges_and_models():
    with pytest.raises(DreError, match="no recorded scores of judge 'gpt-9': use one of claude-3-haiku"):
        thirdparty.judge_scores("gpt-9")
    with pytest.raises(DreError, match="no released scores of model 'BERT': use one of DEB"):
        thirdparty.classifier_scores("BERT")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], "has 359 items, topicalchat-usr has 360"),
        (lambda rows: rows[6:] + rows[:6], "dialog_id is 1, expected 0"),
        (lambda rows: [rows[1], rows[0], *rows[2:]], "human_score"),
        (lambda rows: [rows[0] | {"predicted_score": "four"}, *rows[1:]], "predicted_score is 'four'"),
    ],
)
def test_a_slipped_row_is_noticed(data_home, monkeypatch, tmp_path, change, message):
    from dre.data.fetch import local

    source = registry.find("judge-claude-3-haiku", "TC/tc_usr_results.json")
    path = tmp_path / "tc_usr_results.json"
    path.write_text(json.dumps(change(json.loads(local(source).read_text()))))
    monkeypatch.setattr(thirdparty, "local", lambda asked: path if asked == source else local(asked))
    with pytest.raises(DreError, match=message):
        thirdparty.judge_scores("claude-3-haiku")


# Table 2


def test_table2_counts_the_embedded_corpus():
    table = table2.table2().set_index(["dataset", "split"]).sort_index()
    mini = table.loc["mini"]
    assert mini.contexts.to_dict() == {"train": 74, "dev": 14, "test": 32}
    for kind in ("positive", "adversarial", "random"):
        assert (mini[kind] == 5 * mini.contexts).all()
    assert mini.contexts_published.isna().all()
    assert table.loc[("PersonaChat", "train"), "positive_published"] == 18957
    assert table.drop("mini").contexts.isna().all()
    assert (table.drop("mini").note == "not part of this profile").all()


def test_table2_sets_ours_beside_the_published_counts(data_home):
    table = table2.table2(["dailydialog++", "convai2-augmented"]).set_index(["dataset", "split"])
    for split in ("dev", "test"):
        row = table.loc[("DailyDialog++", split)]
        assert row.contexts == row.contexts_published
        assert row.positive == row.positive_published and row.adversarial == row.adversarial_published
    row = table.loc[("PersonaChat", "test")]
    assert (row.contexts, row.positive, row.contexts_published) == (50, 250, 968)
    assert "no dev split" in table.loc[("PersonaChat", "dev"), "note"]


def test_table2_downloads_nothing(monkeypatch, tmp_path):
    from dre.data import fetch

    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(fetch, "fetch", None)
    table = table2.table2(["dailydialog++"]).set_index(["dataset", "split"])
    assert (table.loc["DailyDialog++"].note == "not fetched").all()
    assert table.loc["DailyDialog++"].contexts.isna().all()
