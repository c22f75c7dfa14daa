"""What a profile takes from the Hub is read before anything is paid for."""

import dstc11_archive
import pytest
from conftest import writable_copy
from test_authors import written
from test_pcaf_dstc11 import CORPUS, RECORDS

from dre.datasets import dstc11
from dre.errors import DreError
from dre.paper import papers_sets, run, written_sets
from dre.paper.profile import PCAFSettings, TrainingSet, profile

FULL = profile("full")


def own_set(path):
    name = str(path)
    return TrainingSet(
        key="boats", label="boats", train=(name, "train"), dev=(name, "train"), test=(name, "test")
    )


def test_full_takes_the_papers_sets_and_dstc11():
    names = [entry.train[0] for entry in FULL.sets]
    assert names == ["dailydialog++", "personachat-gpt4", "topicalchat-gpt4"]
    assert FULL.pcaf.encoder == "xlm-roberta-large"


def test_a_run_without_the_papers_sets_ends_before_a_judge_writes_or_a_notebook_runs(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path / "nothing"))
    monkeypatch.setattr(written_sets, "write_sets", lambda settings: pytest.fail("it was paid"))
    monkeypatch.setattr(run, "_run_stale", lambda *arguments: pytest.fail("it ran"))
    monkeypatch.setattr(run, "_set_environment_of_kernels", lambda settings: None)
    monkeypatch.setattr(run, "_fetch_public_data", lambda books, settings: None)
    writable_copy(FULL.root / "notebooks", tmp_path / "notebooks")

    with pytest.raises(DreError) as caught:
        run.run(FULL.model_copy(update={"root": tmp_path}))

    message = str(caught.value)
    assert "cannot fetch" in message and "personachat_gpt4_both_train.json" in message
    assert "profiles/full.yaml, in sets, key personachat:" in message
    # The lines that it names are those of the profile.
    text = (FULL.root / "profiles/full.yaml").read_text()
    for line in message.splitlines()[-4:]:
        assert f"# {line.strip()}\n" in text


def test_what_can_be_used_is_said_and_too_little_is_refused(tmp_path, encoder):
    path = tmp_path / "boats.json"
    path.write_text(written(0) + written(1, []) + written(2))
    archive = dstc11_archive.write(
        tmp_path / "made.zip", {"humod": RECORDS}, dict.fromkeys(dstc11.TRAINING, CORPUS)
    )
    of_pcaf = PCAFSettings(encoder=encoder, english_encoder=encoder, archive=str(archive))
    settings = FULL.model_copy(update={"sets": (own_set(path),), "pcaf": of_pcaf})

    lines = papers_sets.check(settings)

    assert lines[0] == "boats.json: 2 of 3 contexts can be used"
    assert "humod: 8 of 8 rated responses in en, zh, es" in lines
    path.write_text(written(0) + written(1, []) + written(2, []))
    with pytest.raises(DreError, match="too little.*\n.*key boats names the file: name another"):
        papers_sets.check(settings)


def test_a_run_without_dstc11_names_the_key_to_take_out(tmp_path):
    of_pcaf = PCAFSettings(encoder="x", english_encoder="y", archive=str(tmp_path / "no.zip"))
    settings = FULL.model_copy(update={"sets": FULL.sets[:1], "pcaf": of_pcaf})
    with pytest.raises(DreError, match="no.zip.*\n.*take pcaf out of profiles/full.yaml"):
        papers_sets.check(settings)
