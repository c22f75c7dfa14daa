"""When public data are asked for: by a set that is public, and by nothing else."""

import pytest

from dre.datasets import dialogues, registry
from dre.errors import TryLater
from dre.paper import contexts as paper_contexts
from dre.paper import run
from dre.paper.profile import TrainingSet, profile
from dre.paper.trainings import made_of

CACHES = (
    dialogues.histories,
    dialogues.public_contexts,
    paper_contexts.contexts,
    paper_contexts._extra,
)


@pytest.fixture
def requested(monkeypatch, tmp_path):
    """A machine without data and network; the list has the files that were asked for."""
    names = []

    def refuse(name):
        names.append(name)
        raise TryLater(f"cannot fetch {name}")

    monkeypatch.setattr(registry, "_download", refuse)
    monkeypatch.setenv("DRE_DATA_HOME", str(tmp_path / "no data"))
    for function in CACHES:
        function.cache_clear()
    yield names
    for function in CACHES:
        function.cache_clear()


def test_the_trainings_of_profile_mini_need_no_public_data(requested, tmp_path):
    mini = profile("mini").model_copy(update={"root": tmp_path})
    (entry,) = mini.sets

    train, dev, test = paper_contexts.contexts(entry, mini.rated)
    made_of(mini, "mini", "paper", 0)
    extra = paper_contexts.extra(mini, dev)

    assert (len(train), len(dev), len(test)) == (74, 14, 32)
    assert (extra.dialogues, extra.graded) == ([], [])
    assert requested == []


def test_a_training_on_public_conversations_asks_for_their_file(requested):
    entry = profile("public").sets[-1]
    with pytest.raises(TryLater, match="Topical-Chat"):
        paper_contexts.contexts(entry)
    assert len(requested) == 1


def test_what_is_held_out_is_that_of_the_training_and_needs_no_rated_set(requested):
    entry = profile("mini").sets[0].model_copy(update={"train": ("mini", "dev"), "dev_share": 0.2})
    _, dev, test = paper_contexts.contexts(entry, ())
    rated = "personachat-usr"

    assert paper_contexts.held_out(entry) == (dev, test)
    assert requested == []
    with pytest.raises(TryLater):
        paper_contexts.contexts(entry, (rated,))


def test_what_a_profile_says_that_it_needs_is_true():
    of_public = [name for name, source in registry.sources().items() if "sha256" in source]
    assert registry.amount(of_public) == "50 files, 64 MB"
    for name in ("mini", "public", "colab", "full"):
        settings = profile(name)
        assert settings.reads_public_data == ("public data" in settings.needs)
        assert settings.reads_public_data != ("no download" in settings.needs)
    for name in ("public", "colab"):
        assert "64 MB of public data" in profile(name).needs


@pytest.mark.parametrize("name", ["public", "full", "colab"])
def test_an_estimate_without_data_says_so_and_fetches_nothing(requested, name, capsys):
    assert run.main(["--profile", name, "--estimate"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "public data are missing (50 files, 64 MB), such as " in err
    assert "dre data fetch" in err
    assert requested == []


def test_an_estimate_of_the_embedded_corpus_needs_no_data(requested, capsys):
    assert run.main(["--profile", "mini", "--estimate"]) == 0
    assert "2 trainings" in capsys.readouterr().out
    assert requested == []


def test_a_profile_reads_public_data_where_it_names_any():
    mini = profile("mini")
    own = TrainingSet(
        key="own",
        label="Own",
        train=("own.jsonl", "train"),
        dev=("own.jsonl", "dev"),
        test=("mini", "test"),
    )
    without = [
        mini,
        mini.model_copy(update={"sets": (own,)}),
    ]
    assert not any(settings.reads_public_data for settings in without)

    of_public = profile("public").sets[0]
    with_data = [
        profile("colab"),
        mini.model_copy(update={"sets": (of_public,)}),
        mini.model_copy(update={"rated": ("fed-turn",)}),
    ]
    assert all(settings.reads_public_data for settings in with_data)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([2_000_000], "1 file, 2 MB"),
        ([785], "1 file, 0.1 MB"),
        ([3_000_000, None], "2 files, 3 MB or more"),
    ],
)
def test_an_amount_counts_what_is_known_and_says_what_is_not(monkeypatch, sizes, expected):
    files = {}
    for number, size in enumerate(sizes):
        files[str(number)] = {"size": size} if size else {}
    monkeypatch.setattr(registry, "sources", lambda: files)
    assert registry.amount(files) == expected
