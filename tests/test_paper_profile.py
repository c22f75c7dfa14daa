"""Profiles: the three that ship, and files that are wrong."""

import re
from pathlib import Path

import pytest

from dre import paper
from dre.data.sets import CONTEXTS, RATED, SPLITS
from dre.errors import DreError
from dre.pipeline.preflight import judge
from dre.pipeline.profile import overview

HERE = Path(__file__).parents[1]
MINI = (HERE / "profiles/mini.yaml").read_text()


@pytest.fixture
def write(tmp_path):
    (tmp_path / "profiles").mkdir()

    def write(old, new):
        text = re.sub(old, new, MINI, flags=re.M)
        assert text != MINI
        (tmp_path / "profiles/mini.yaml").write_text(text)
        return paper.profile("mini", tmp_path)

    return write


@pytest.mark.parametrize("name", ["mini", "public", "full"])
def test_the_profiles_that_ship_name_data_that_exists(name):
    profile = paper.profile(name, HERE)
    assert profile.results == HERE / "results" / name
    assert profile.seed == profile.seeds[0]
    assert set(profile.epochs) == set(profile.recipes)
    assert set(profile.rated) <= set(RATED)
    for entry in profile.sets:
        for data, split in (entry.train, entry.dev, entry.test):
            assert split in SPLITS.get(data, ()) or data in CONTEXTS
        assert entry.test not in (entry.train, entry.dev)
        assert (entry.held_out > 0) == (entry.train == entry.dev), "thresholds need contexts training does not see"


def test_mini_needs_nothing_and_public_has_three_seeds():
    mini = paper.profile("mini", HERE)
    assert not mini.network and not mini.gpu and all(spec.startswith("recorded:") for spec in mini.judges)
    assert len(paper.profile("public", HERE).seeds) >= 3


def test_an_unknown_profile_names_those_there_are():
    with pytest.raises(DreError, match="unknown profile 'larg': the profiles are full, mini, public"):
        paper.profile("larg", HERE)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("^encoder:.*\n", "", "missing: encoder"),
        ("^encoder:", "encodr:", "missing: encoder; unknown: encodr"),
        ("^seeds: .*", "seeds: []", "'seeds' is .*at least one"),
        ("^seeds: .*", "seeds: [one]", "'seeds' is .*whole number"),
        ("^epochs: .*", "epochs: 0", "'epochs' is 0"),
        ("^epochs: .*", "epochs: {other: 2}", "'epochs' is"),
        ("^beside: .*", "beside: {dialogues: []}", "'beside' is .*two lists of names"),
        ("^network: .*", "network: 1", "'network' is 1, expected bool"),
        ("^resamples: .*", "resamples: many", "'resamples' is 'many', expected int"),
        ("^name: .*", "name: other", "'name' is 'other', expected 'mini'"),
        ("test: .mini, test.", "test: [mini]", r"sets\[0\]: 'test' is"),
        ("key: mini, ", "", r"sets\[0\]: keys missing: key"),
        ("^seeds: .*", "seeds: [0", "is not valid YAML"),
        ("(?s)\\A.*", "just text", "expected a mapping"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_key(write, old, new, message):
    with pytest.raises(DreError, match=message):
        write(old, new)


def test_epochs_can_differ_by_recipe(write):
    profile = write("(?s)^recipes:.*^epochs: [^\n]*", "recipes: [a, b]\nseeds: [0, 1]\nepochs: {a: 1, b: 3}")
    assert profile.epochs == {"a": 1, "b": 3}


def test_the_overview_has_a_row_a_profile_with_what_it_needs():
    table = overview(HERE)
    assert list(table["profile"][:3]) == ["mini", "public", "full"]
    assert "GPU" in table.set_index("profile")["needs"]["full"]


def test_judges_say_what_they_lack(monkeypatch):
    for name in ("OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    assert "set OPENAI_API_KEY" in judge("openai:m").remedy
    assert "nothing answers at 127.0.0.1:9" in judge("ollama:llama3.3:70b").remedy
    assert judge("recorded:x") is None
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert judge("gemini:m") is None
