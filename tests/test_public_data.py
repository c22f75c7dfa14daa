"""When public data are asked for: by a set that is public, and by nothing else."""

import pytest

from dre.datasets import dialogues, registry
from dre.errors import TryLater
from dre.paper.profile import profile
from dre.slm import made_of, provenance

CACHES = (
    dialogues.histories,
    dialogues.public_contexts,
    provenance.contexts,
    provenance._extra,
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

    train, dev, test = provenance.contexts(entry, mini.rated)
    made_of(mini, "mini", "paper", 0)
    extra = provenance.extra(mini, dev)

    assert (len(train), len(dev), len(test)) == (74, 14, 32)
    assert (extra.dialogues, extra.graded) == ([], [])
    assert requested == []


def test_a_training_on_public_conversations_asks_for_their_file(requested):
    entry = profile("public").sets[-1]
    with pytest.raises(TryLater, match="Topical-Chat"):
        provenance.contexts(entry)
    assert len(requested) == 1


def test_what_is_held_out_is_that_of_the_training_and_needs_no_rated_set(requested):
    entry = profile("mini").sets[0].model_copy(update={"train": ("mini", "dev"), "dev_share": 0.2})
    _, dev, test = provenance.contexts(entry, ())
    rated = "personachat-usr"

    assert provenance.held_out(entry) == (dev, test)
    assert requested == []
    with pytest.raises(TryLater):
        provenance.contexts(entry, (rated,))
