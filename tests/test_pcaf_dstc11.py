"""PCAF's Tables 7 and 8 on a small archive of DSTC11's form, with a tiny encoder."""

import json

import dstc11_archive
import numpy as np
import pandas as pd
import pytest
from dstc11_archive import rated_record
from scipy.stats import spearmanr

from dre.datasets import dstc11
from dre.paper import pcaf
from dre.paper import pcaf_losses as slm_pcaf
from dre.paper.profile import PCAFSettings, profile

TURNS = ["tea is my train", "do you do it", "no the train was", "can we", "is it tea", "you did my"]
RECORDS = [
    rated_record(
        i, [TURNS[i % 6], TURNS[(i + 1) % 6]], f"it was {i} my tea", relevance=[i % 4], fit=[i % 3]
    )
    for i in range(8)
]
CORPUS = [[f"{turn} {n}", f"a train {n} {turn}", f"yes {n}"] for n, turn in enumerate(TURNS)]


@pytest.fixture(scope="module")
def settings(tmp_path_factory, encoder):
    tmp_path = tmp_path_factory.mktemp("pcaf")
    rated = {"dailydialog-zhao": RECORDS, "topical-usr": RECORDS[2:]}
    corpora = dict.fromkeys(dstc11.TRAINING, CORPUS)
    archive = dstc11_archive.write(tmp_path / "made.zip", rated, corpora)
    of_pcaf = PCAFSettings(
        encoder=encoder,
        english_encoder=encoder,
        archive=str(archive),
        ideas=4,
        epochs=(1, 1),
        batch_ideas=2,
    )
    changes = {"pcaf": of_pcaf, "root": tmp_path, "name": "made", "seeds": (0,)}
    return profile("public").model_copy(update=changes)


@pytest.fixture(scope="module")
def steps():
    """The number of steps of each training that was run."""
    return []


@pytest.fixture(scope="module")
def agreement(settings, steps):
    train = pcaf.train

    def counted(*arguments):
        losses = train(*arguments)
        steps.append(len(losses))
        return losses

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pcaf, "train", counted)
        return pcaf.dstc11_agreement(settings)


def test_both_tables_have_every_printed_row_on_every_column_and_are_trained_once(
    settings, agreement, monkeypatch
):
    for table, columns in pcaf.TESTED_ON.items():
        beside = pcaf.beside_print(agreement, table, profile("public").root)
        printed = pd.read_csv(profile("public").root / f"data/paper/{table}.csv", index_col=0)
        assert beside["row"].tolist() == list(printed.index)
        assert beside[list(columns)].notna().all(axis=None)
        for column in columns:
            assert beside[f"{column}_printed"].tolist() == printed[column].tolist()

    # What is recorded is not trained again, and gives the same.
    monkeypatch.setattr(pcaf, "train", None)
    pd.testing.assert_frame_equal(pcaf.dstc11_agreement(settings), agreement)


def test_figure_2_has_the_teachers_with_and_without_alignment_in_three_languages(
    settings, agreement, monkeypatch
):
    monkeypatch.setattr(pcaf, "train", None)  # what Table 7 has trained is drawn
    points = pcaf.figure2(settings)
    assert [*points] == ["align", "plain", "untrained"]
    for name, table in points.items():
        assert table["language"].tolist() == ["en"] * 4 + ["es"] * 4 + ["zh"] * 4, name
        assert table["idea"].tolist() == [0, 1, 2, 3] * 3
        # Components are centred and uncorrelated, and the first has the larger share.
        xy = table[["first", "second"]].to_numpy()
        assert np.abs(xy.mean(axis=0)).max() < 1e-3
        assert abs(np.corrcoef(xy.T)[0, 1]) < 1e-2
        shares = (xy**2).sum(axis=0)
        first, second = table[["share_first", "share_second"]].iloc[0]
        assert shares[1] / shares[0] == pytest.approx(second / first, rel=1e-2)
    assert not points["align"]["first"].equals(points["untrained"]["first"])
    ideas = pcaf.ideas_of_corpus(settings, "DAILYD", dstc11.LANGUAGES)
    metric = pcaf.PCAF.untrained(settings.pcaf.encoder, slm_pcaf.TABLE7_OF_XLM_R, settings.seed)
    chinese = pd.DataFrame([idea.versions[2] for idea in ideas], columns=["context", "response"])
    features = metric.features(chinese).numpy()
    # Distances in the plane are at most those of the features.
    plane = points["untrained"].query("language == 'zh'")[["first", "second"]].to_numpy()
    of_plane = np.linalg.norm(plane[:, None] - plane[None], axis=-1)
    of_features = np.linalg.norm(features[:, None] - features[None], axis=-1)
    assert (of_plane <= of_features + 1e-4).all() and of_plane.max() > 0


def test_the_number_is_the_mean_over_qualities_and_then_over_sets(settings, agreement):
    file = settings.build / "pcaf" / "pcaf-table7-w-o-kd-seed0.csv.gz"
    scores = pd.read_csv(file).set_index("pair_id")

    by_set = []
    for name, records in (("dailydialog-zhao", RECORDS), ("topical-usr", RECORDS[2:])):
        mine = [scores.loc[f"dstc11-{name}/{i}", "zh"] for i in range(len(records))]
        by_quality = []
        for quality in ("relevance", "fit"):
            people = [record["annotations"][quality][0] for record in records]
            by_quality.append(spearmanr(mine, people).statistic)
        by_set.append(np.mean(by_quality))
    row = agreement.query("row == 'w/o kd' and tested == 'zh'")
    assert row["spearman"].tolist() == pytest.approx([np.mean(by_set)])


def test_another_recipe_trains_anew_and_one_version_is_not_aligned(
    settings, agreement, monkeypatch
):
    file = settings.build / "pcaf" / "pcaf-table8-ori-seed0.json"
    assert not json.loads(file.read_text())["recipe"]["align"]
    both = file.with_name("pcaf-table8-ori---para-seed0.json")
    assert json.loads(both.read_text())["recipe"]["align"]

    [ori] = [training for training in pcaf.trainings() if training.row == "ori"]
    monkeypatch.setattr(pcaf, "trainings", lambda: [ori])
    other = settings.pcaf.model_copy(update={"ideas": 3})
    pcaf.dstc11_agreement(settings.model_copy(update={"pcaf": other}))
    assert json.loads(file.read_text())["ideas"] == [3, 0]


def test_scores_of_other_texts_with_the_same_ids_are_not_taken(
    tmp_path, settings, agreement, monkeypatch
):
    changed = [dict(record) for record in RECORDS]
    changed[0] = rated_record(0, TURNS[:2], "it was not my tea", relevance=[0], fit=[0])
    rated = {"dailydialog-zhao": changed, "topical-usr": RECORDS[2:]}
    corpora = dict.fromkeys(dstc11.TRAINING, CORPUS)
    archive = dstc11_archive.write(tmp_path / "changed.zip", rated, corpora)
    of_pcaf = settings.pcaf.model_copy(update={"archive": str(archive)})
    monkeypatch.setattr(pcaf, "train", None)  # what is recorded would be taken without it

    with pytest.raises(TypeError, match="not callable"):
        pcaf.dstc11_agreement(settings.model_copy(update={"pcaf": of_pcaf}))


def test_dialogues_that_people_rated_are_not_learned(tmp_path, settings):
    rated_turn = "the old bridge over the river was closed for a week"
    corpora = {"DAILYD": [[rated_turn, "oh no"], ["we can do it again today, you and me", "yes"]]}
    records = [rated_record(0, [rated_turn], "is it open now", relevance=[1])]
    archive = dstc11_archive.write(tmp_path / "other.zip", {"humod": records}, corpora)
    of_pcaf = settings.pcaf.model_copy(update={"archive": str(archive)})
    settings = settings.model_copy(update={"pcaf": of_pcaf})

    [idea] = pcaf.ideas_of_corpus(settings, "DAILYD", ("en", "zh"))

    english, chinese = idea.versions
    assert english == (("we can do it again today, you and me",), "yes")
    assert chinese[1] == "yes-zh"
