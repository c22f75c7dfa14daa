"""The embedded corpus: 120 contexts written for this project, so that everything runs without a download."""

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from dre.data import parse
from dre.data.records import Context
from dre.errors import DreError

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = REPOSITORY / "data" / "mini" / "corpus.jsonl"
SEED = 0
RANDOMS = 5


def load(split):
    """Return the contexts of ``train`` (74), ``dev`` (14) or ``test`` (32), in the order of the file."""
    return [context for context in read(CORPUS) if context.split == split]


def read(path):
    """Return all contexts of a corpus file, with random negatives drawn."""
    return draw_randoms(_read(path))


def _read(path):
    if not Path(path).is_file():
        raise DreError(f"{path} is not there: run from a clone of the repository (pip install -e .)")
    return [
        Context(
            set="mini",
            id=parse.field(record, "id", str, where),
            split=parse.field(record, "split", str, where),
            turns=parse.texts(record, "context", where),
            positives=parse.texts(record, "positive_responses", where),
            adversarials=parse.texts(record, "adversarial_negative_responses", where),
            domain=parse.field(record, "domain", str, where),
        )
        for where, record in parse.read_jsonl(path)
    ]


def draw_randoms(contexts, n=RANDOMS, seed=SEED):
    """Return the contexts with `n` random negatives each.

    They are drawn without replacement from the positive responses of the other contexts of the same split
    and domain, by a generator seeded with `seed` and the context's id, so no draw depends on another.
    """
    pools = defaultdict(list)
    for context in contexts:
        pools[context.split, context.domain] += context.positives
    return [replace(c, randoms=_draw(c, pools[c.split, c.domain], n, seed)) for c in contexts]


def _draw(context, pool, n, seed):
    others = sorted(set(pool) - {*context.positives, *context.adversarials})
    if len(others) < n:
        raise DreError(f"only {len(others)} responses of other contexts for {context.context_id}, {n} are needed")
    return tuple(random.Random(f"{seed}/{context.context_id}").sample(others, n))
