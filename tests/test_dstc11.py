"""DSTC11 Track 4: a rated response finds its versions by the texts of its dialogue."""

import dstc11_archive
import pytest
from dstc11_archive import changed, in_other_words, rated_record

from dre.datasets import dstc11
from dre.datasets.dstc11 import Archive
from dre.errors import DreError

CONTEXT = ("Which pond froze?", "The small one.", "So early?")
OTHER = ("Who mows the lawn?",)
RECORDS = [
    rated_record(0, CONTEXT, "Frost came in March.", relevance=[4, 5], content=[1, 2]),
    rated_record(1, CONTEXT, "Lawns do not freeze.", relevance=[1, 2], content=[3, 3]),
    rated_record(2, OTHER, "My uncle, on Sundays.", relevance=[5, None], content=[2, 4]),
    rated_record(3, OTHER, "", relevance=[1, 1]),
    {"dialogue_id": "made-4", "context": "\n".join(OTHER), "response": "My uncle, on Sundays."},
]
RECORDS[1]["annotations"]["content"] = 3  # of one person
CORPUS = [["Is it far?", "No, a mile.", "Then we walk."], ["Cold soup?", "In summer, yes."]]


@pytest.fixture
def path(tmp_path):
    rated = {"dailydialog-zhao": RECORDS, "fed-dial": [{"context": "A\nB", "annotations": {}}]}
    return dstc11_archive.write(tmp_path / "made.zip", rated, {"DAILYD": CORPUS})


def test_every_version_has_the_rated_responses_in_one_order(path):
    archive = Archive(path)
    assert archive.rated_names() == ["dailydialog-zhao"]  # the other has whole dialogues
    rated = archive.rated("dailydialog-zhao")

    assert rated.ratings["relevance"].tolist() == [4.5, 1.5, 5]
    assert rated.ratings["content"].tolist() == [1.5, 3, 3]
    assert list(rated.versions) == list(dstc11.VERSIONS)
    english = rated.versions["en"]
    assert english["context"].tolist() == [CONTEXT, CONTEXT, OTHER]
    for version, other in {"es": "es", "zh": "zh", "back-translation": "back"}.items():
        table = rated.versions[version]
        responses = [in_other_words(text, other) for text in english["response"]]
        assert table["response"].tolist() == responses
        assert table["context"][2] == (in_other_words(OTHER[0], other),)
    assert rated.in_words().startswith("dailydialog-zhao: 3 of 3 rated responses in en")


def test_a_paraphrase_is_the_nearest_that_is_not_the_turn_itself_or_the_back_translation(path):
    paraphrased = Archive(path).rated("dailydialog-zhao").versions["paraphrase"]

    first, second, third = paraphrased["context"][0]
    assert first == in_other_words("Which pond froze?", "near")
    assert second == in_other_words("The small one.", "near")
    assert third == in_other_words("So early?", "back")  # it has no paraphrase


def test_without_likenesses_the_first_paraphrase_counts(path):
    other = changed(
        path, "DAILYD_paraphrases.csv", lambda text: text.replace(b"COS_SIM_MONO_SP", b"x")
    )
    first, _ = Archive(other).parallel("DAILYD", "train", ("en", "paraphrase"))
    assert first.versions["paraphrase"][0] == "Is it far?"


def test_a_response_whose_dialogue_lacks_a_version_is_left_out(path):
    def without_a_turn(content):
        lines = content.decode().splitlines(keepends=True)
        return "".join(line for line in lines if "My uncle" not in line)

    other = changed(path, "dailydialog-zhao_multilingual_en_es.csv", without_a_turn)
    rated = Archive(other).rated("dailydialog-zhao")
    assert rated.n_left_out == 1 and len(rated.ratings) == 2
    assert len(Archive(other).rated("dailydialog-zhao", ("en", "zh")).ratings) == 3


def test_a_training_corpus_has_its_dialogues_in_the_versions_that_are_asked_for(path):
    first, second = Archive(path).parallel("DAILYD", "train", ("en", "es"))
    assert first.versions["en"] == tuple(CORPUS[0])
    assert second.versions["es"] == tuple(in_other_words(turn, "es") for turn in CORPUS[1])
    assert list(first.versions) == ["en", "es"]

    other = changed(path, "_paraphrases.csv", None)
    assert Archive(other).parallel("DAILYD", "train") == []
    assert len(Archive(other).parallel("DAILYD", "train", dstc11.LANGUAGES)) == 2


@pytest.mark.parametrize(
    ("ending", "change", "message"),
    [
        ("_en_es.csv", lambda text: text.replace(b"TRANSLATION", b"SPANISH"), "no column TRANSLA"),
        ("zhao_eval.json", lambda text: text[:50], "dailydialog-zhao is no list of responses"),
        ("_eval.json", None, "it is not the archive of DSTC11 Track 4"),
    ],
)
def test_a_file_of_another_form_is_named(path, ending, change, message):
    other = changed(path, ending, change)
    with pytest.raises(DreError, match=message):
        Archive(other).rated("dailydialog-zhao")
