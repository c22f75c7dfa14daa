"""Which contexts the trainings of a profile learn from, and which are held out."""

import functools

import numpy as np

from dre.datasets import dialogues, overlap, ratings, recordings
from dre.datasets.dialogues import Context
from dre.datasets.overlap import without_overlap
from dre.slm.provenance import Extra


@functools.lru_cache  # every training of a set asks for the same contexts
def contexts(entry, rated_names=(), seed=0, more=False):
    """Return the contexts of ``entry``, one of ``profile.sets``: (train, dev, test), as tuples.

    Train are the contexts that the papers' recipes learn from (``entry.train``). With ``more``,
    there are also those that recipe ``ours`` adds (``entry.more``). Where the contexts of dev are
    among those of train, a share of them is drawn as dev (``entry.dev_share``, with ``seed``), and
    the rest is train.

    Three kinds of conversations are left out of train:

    - those that repeat what people rated (`dre.datasets.overlap.without_overlap`), so that no
      correlation is measured on what was learned;
    - those that have a context of dev or test. A stock phrase in common does not count. In sets
      whose ids tell no conversations, these are found by their text;
    - those with a graded context that small models are chosen by.
    """
    name, splits = entry.train
    if more and entry.more:
        splits = f"{splits}+{entry.more}"
    train = dialogues.load(name, splits)
    dev, test = held_out(entry, seed)
    if entry.dev_share:
        set_of_dev = set(dev)
        train = [context for context in train if context not in set_of_dev]

    rated = ratings.rated_tables(rated_names)
    # Leave out whole conversations of dev and test, and those that small models are chosen by.
    ids = [context.context_id for context in (*train, *dev, *test)]
    conversation_of = overlap.conversations(ids)
    sources = {context.context_id.partition("/")[0] for context in train}
    reserved = recordings.conversations_for_choice(sources)
    reserved |= {conversation_of(context.context_id) for context in (*dev, *test)}
    train = [context for context in train if conversation_of(context.context_id) not in reserved]
    train = without_overlap(train, rated)
    if not dialogues.names_its_conversations(name):
        train = overlap.without_overlap(train, [*dev, *test], utterances=False)
    return tuple(train), dev, test


def held_out(entry, seed=0):
    """Return the contexts of ``entry`` that nothing is trained on: (dev, test), as tuples.

    They are those of `contexts`. Rated sets and graded conversations, which only train has to be
    compared with, are not read.
    """
    dev = dialogues.load(*entry.dev)
    test = dialogues.load(*entry.test)
    if entry.dev_share:
        order = np.random.default_rng(seed).permutation(len(dev))
        size = round(entry.dev_share * len(dev))
        dev = [dev[i] for i in sorted(order[:size])]
    return tuple(dev), tuple(test)


def extra(profile, dev):
    """Return the `Extra` that ``profile.extra`` names.

    Conversations are left out if they share an utterance with a rated set, with the contexts
    ``dev``, with a test set of the profile, or with a graded context that small models are chosen
    by.
    """
    tests = tuple(entry.test for entry in profile.sets)
    return _extra(profile.extra, tuple(dev), tests, profile.rated)


@functools.lru_cache  # every seed asks for the same
def _extra(names, dev, tests, rated_names):
    """Return what `extra` does; arguments are hashable, so that a second call costs nothing."""
    # Held-out contexts and rated sets must not be learned.
    reserved = [*dev]
    for test in tests:
        reserved += dialogues.load(*test)
    reserved += ratings.rated_tables(rated_names)
    # Nor must the turns of the graded pairs that small models are chosen by. (Their replies may
    # come from other conversations.)
    graded_tables = [recordings.graded(name) for name in names.graded]
    for table in graded_tables:
        for_choice = table[table["for_choice"]]
        ids = set(zip(for_choice["context_id"], for_choice["context"]))
        reserved += [Context("graded", id, "dev", turns) for id, turns in ids]

    pool = []
    for name in names.dialogues:
        if name in dialogues.SPLITS:
            pool += dialogues.load(name, "train")
        else:
            pool += dialogues.public_contexts(name)

    graded = []
    columns = ["context_id", "context", "response", "score"]
    for name, table in zip(names.graded, graded_tables):
        for rows in (table[~table["for_choice"]], recordings.training_scores(name)):
            clean = table_without_overlap(rows, reserved)
            graded += zip(*(clean[column] for column in columns))
    return Extra(without_overlap(pool, reserved), graded)


def table_without_overlap(table, reserved):
    """Return the rows of a table of graded pairs whose conversations repeat nothing reserved.

    ``reserved`` is as for `dre.datasets.overlap.without_overlap`.
    """
    contexts_of_pairs = []
    columns = ["set", "context_id", "context", "response"]
    for name, id, turns, response in zip(*(table[column] for column in columns)):
        contexts_of_pairs.append(Context(name, id, "train", turns, (response,)))
    clean = without_overlap(contexts_of_pairs, reserved)
    clean_ids = {context.id for context in clean}
    return table[table["context_id"].isin(clean_ids)]
