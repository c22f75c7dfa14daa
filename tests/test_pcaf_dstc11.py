"""PCAF's Tables 7 and 8 on a small archive of DSTC11's form, with a tiny encoder."""

import dstc11_archive
import numpy as np
import pandas as pd
import pytest
from dstc11_archive import rated_record
from scipy.stats import spearmanr

from dre.datasets import dstc11
from dre.errors import DreError
from dre.paper import pcaf
from dre.paper.profile import PCAFSettings, profile

TURNS = ["tea is my train", "do you do it", "no the train was", "can we", "is it tea", "you did my"]
RECORDS = [
    rated_record(
        i, [TURNS[i % 6], TURNS[(i + 1) % 6]], f"it was {i} my tea", relevance=[i % 4], fit=[i % 3]
    )
    for i in range(8)
]
CORPUS = [[f"{turn} {n}", f"a train {n} {turn}", f"yes {n}"] for n, turn in enumerate(TURNS)]
RATED = {"dailydialog-zhao": RECORDS, "topical-usr": RECORDS[2:]}
CORPORA = dict.fromkeys(dstc11.TRAINING, CORPUS)


@pytest.fixture(scope="module")
def settings_of(tmp_path_factory, encoder):
    """Return a profile whose archive has some sets and corpora, without files of some endings."""

    def settings(rated, corpora, without=()):
        folder = tmp_path_factory.mktemp("pcaf")
        archive = dstc11_archive.write(folder / "made.zip", rated, corpora)
        for ending in without:
            archive = dstc11_archive.changed(archive, ending, None)
        of_pcaf = PCAFSettings(
            encoder=encoder,
            english_encoder=encoder,
            archive=str(archive),
            ideas=4,
            epochs=(1, 1),
            batch_ideas=2,
        )
        changes = {"pcaf": of_pcaf, "root": folder, "name": "made", "seeds": (0,)}
        return profile("public").model_copy(update=changes)

    return settings


@pytest.fixture(scope="module")
def settings(settings_of):
    return settings_of(RATED, CORPORA)


@pytest.fixture(scope="module")
def trained(settings):
    return pcaf.train_tables(settings)


def test_both_tables_have_every_printed_row_on_every_column(trained):
    for table, columns in pcaf.TESTED_ON.items():
        root = profile("public").root
        beside = pcaf.beside_print(trained.agreement, table, root)
        printed = pd.read_csv(root / f"data/paper/{table}.csv", index_col=0)
        assert beside["row"].tolist() == list(printed.index)
        for column in printed.columns.intersection([*columns, "mean"]):
            assert beside[f"{column}_printed"].tolist() == printed[column].tolist()
            assert beside[f"{column}_sd"].isna().all()  # of one seed
            assert beside[column].between(-100, 100).all()
        assert trained.notes[table].startswith("14 replies of 2 sets.")
    # Another seed whose numbers are higher by 20 percent.
    higher = trained.agreement.assign(seed=1, spearman=trained.agreement["spearman"] + 0.2)
    first = pcaf.beside_print(trained.agreement, "pcaf_table7", root)
    both = pcaf.beside_print(pd.concat([trained.agreement, higher]), "pcaf_table7", root)
    assert both["mean"].tolist() == pytest.approx(first[["en", "zh", "es"]].mean(axis=1) + 10)
    assert both["mean_sd"].tolist() == pytest.approx([np.std([0, 20], ddof=1)] * 4)


def test_what_was_trained_is_read_and_other_texts_train_anew(settings, trained, monkeypatch):
    def refuse(*arguments):
        raise RuntimeError("it trains")

    monkeypatch.setattr(pcaf, "train", refuse)
    pd.testing.assert_frame_equal(pcaf.train_tables(settings).agreement, trained.agreement)
    other = settings.pcaf.model_copy(update={"ideas": 3})
    with pytest.raises(RuntimeError, match="it trains"):
        pcaf.train_tables(settings.model_copy(update={"pcaf": other}))


def test_figure_2_has_the_teachers_with_and_without_alignment_in_three_languages(trained):
    for name in ("w/o kd", "w/o kd & align", "untrained"):
        points = trained.points[name]
        assert points["language"].tolist() == ["en"] * 4 + ["es"] * 4 + ["zh"] * 4, name
        # Components are centred and uncorrelated, and the first has the larger share.
        xy = points[["first", "second"]].to_numpy()
        assert np.abs(xy.mean(axis=0)).max() < 1e-3
        assert abs(np.corrcoef(xy.T)[0, 1]) < 1e-2
        assert xy[:, 0].std() > xy[:, 1].std()
    first = [trained.points[name]["first"] for name in ("w/o kd", "untrained")]
    assert not first[0].equals(first[1])


def test_the_number_is_the_mean_over_qualities_and_then_over_sets(settings, trained):
    on_dstc11 = pcaf.OnDSTC11(settings, "pcaf_table7")
    [row] = [row for row in pcaf.ROWS if row.name == "w/o kd"]
    ideas = on_dstc11.ideas(["DAILYD"], row.versions)
    metric, _ = pcaf.fit(ideas, [], on_dstc11.recipe, 0, on_dstc11.encoder)

    by_set = []
    for rated, records in zip(on_dstc11.rated, RATED.values()):
        scores = metric.score(rated.versions["zh"])
        by_quality = []
        for quality in ("relevance", "fit"):
            people = [record["annotations"][quality][0] for record in records]
            by_quality.append(spearmanr(scores, people)[0])
        by_set.append(np.mean(by_quality))
    found = trained.agreement.query("row == 'w/o kd' and tested == 'zh'")["spearman"]
    assert found.tolist() == pytest.approx([np.mean(by_set)])


def test_the_check_names_every_set_and_corpus_and_makes_one_step_of_each_stage(
    settings_of, monkeypatch
):
    # The archive of its makers lists no paraphrases of WOWIKI.
    settings = settings_of(RATED, CORPORA, ["WOWIKI_paraphrases.csv"])
    steps = []
    train = pcaf.train

    def counted(metric, ideas, seed, teacher=None):
        losses = train(metric, ideas, seed, teacher)
        steps.append((len(ideas[0].versions), teacher is not None, len(losses)))
        return losses

    monkeypatch.setattr(pcaf, "train", counted)
    lines = pcaf.check(settings)

    assert "topical-usr: 6 of 6 rated responses in en, zh, es" in lines
    assert "DAILYD: 6 dialogues in en, zh, es" in lines
    assert "WOWIKI: 6 dialogues in en, zh, es" in lines
    assert "WOWIKI: 0 dialogues in en, paraphrase, back-translation" in lines
    assert steps == 2 * [(3, False, 1), (3, True, 1)]
    assert not settings.build.exists()  # nothing is kept
    assert "WOWIKI (0)" in pcaf.OnDSTC11(settings, "pcaf_table8").in_words()


def test_table_7_opens_no_paraphrases_and_too_little_to_train_on_is_refused(settings_of):
    settings = settings_of(RATED, CORPORA, ["_paraphrases.csv"])
    assert len(pcaf.OnDSTC11(settings, "pcaf_table7").ideas(["WOWIKI"], ("en", "es"))) == 4
    with pytest.raises(DreError, match="too little for pcaf_table8.*DAILYD: 0 dialogues"):
        pcaf.check(settings)


def test_dialogues_that_people_rated_are_not_learned(settings_of):
    rated_turn = "the old bridge over the river was closed for a week"
    own = [["we can do it again today, you and me", "yes"], ["is it tea", "no the train"]]
    records = [rated_record(0, [rated_turn], "is it open now", relevance=[1])]
    settings = settings_of({"humod": records}, {"DAILYD": [[rated_turn, "oh no"], *own]})

    ideas = pcaf.OnDSTC11(settings, "pcaf_table7").ideas(["DAILYD"], ("en", "zh"))

    spoken = {(*turns, response) for (turns, response), _ in (idea.versions for idea in ideas)}
    assert spoken == {tuple(turns) for turns in own}
    assert all(idea.versions[1][1].endswith("-zh") for idea in ideas)
