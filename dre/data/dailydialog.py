"""DailyDialog++ (Sai et al. 2020): contexts with positive, adversarial and random negative responses."""

from dre.data import parse
from dre.data.fetch import local
from dre.data.records import Context
from dre.data.registry import find

FILES = {
    "train": ("dailydialog++-train", "train.json"),
    "dev": ("dailydialog++", "dev.json"),
    "test": ("dailydialog++", "test.json"),
}


def load(split):
    """Return the contexts of ``train``, ``dev`` (1,028) or ``test`` (1,142), five responses of each kind."""
    return read(local(find(*FILES[split])), split)


def load_positives():
    """Return 7,641 further contexts with five positive responses each; none is in dev or test."""
    path = local(find("dailydialog++-positives", "data_positives.json"))
    return [
        Context(
            set="dailydialog++-positives",
            id=str(parse.field(record, "dialog_id", int, where)),
            split="train",
            turns=parse.texts(record, "context", where),
            positives=parse.texts(record, "positive_responses", where),
        )
        for where, record in parse.read_jsonl(path)
    ]


def read(path, split):
    """Return the contexts of a file in the form of ``dataset/test.json``."""
    return [
        Context(
            set="dailydialog++",
            id=str(parse.field(record, "id", int, where)),
            split=split,
            turns=parse.texts(record, "context", where),
            positives=parse.texts(record, "positive_responses", where),
            adversarials=parse.texts(record, "adversarial_negative_responses", where),
            randoms=parse.texts(record, "random_negative_responses", where),
        )
        for where, record in parse.read_jsonl(path)
    ]
