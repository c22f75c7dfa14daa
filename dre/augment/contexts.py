"""Contexts to write responses for: a user's own file, or a sample of a public pool."""

import random
from pathlib import Path

from dre.data import parse, sets
from dre.data.overlap import disjoint
from dre.data.records import Context
from dre.errors import DreError


def read(path):
    """Read contexts from JSON Lines.

    A line holds ``id``, ``context`` (a list of turns, oldest first, or one text with a turn a line) and, if you like,
    ``split`` (default ``train``).

    Returns
    -------
    list of dre.data.records.Context
        Their set is the name of the file without its ending.

    Raises
    ------
    DreError
        With the line, if a field is absent or of another type, a context has no turns, or an id stands there twice.
    """
    found, seen = [], {}
    for where, record in parse.read_jsonl(path):
        id = parse.field(record, "id", str, where)
        if id in seen:
            raise DreError(f"{where}: id {id!r} was at {seen[id]} already: make it unique")
        seen[id] = where
        split = parse.check(record.get("split", "train"), str, "field 'split'", where)
        found.append(Context(set=Path(path).stem, id=id, split=split, turns=_turns(record, where)))
    if not found:
        raise DreError(f"{path}: no contexts: write an object a line with id and context")
    return found


def _turns(record, where):
    value = parse.field(record, "context", (list, str), where)
    if isinstance(value, str):
        value = [line for line in value.split("\n") if line.strip()]
    turns = tuple(parse.check(turn, str, f"turn {i} of the context", where) for i, turn in enumerate(value))
    if not turns or not all(turn.strip() for turn in turns):
        raise DreError(f"{where}: the context has no turns, or an empty one: give a list of texts, oldest first")
    return turns


def pool(name, sample=None, seed=0):
    """Return contexts of a public pool that share no utterance with the human-rated sets.

    Parameters
    ----------
    name : {"convai2-valid", "topicalchat-valid_freq", "topicalchat-test_freq"}
    sample : int, optional
        So many, drawn without replacement, in the order of the pool. None: all.
    seed : int

    Raises
    ------
    DreError
        If there are fewer than ``sample``.
    """
    left = sets.contexts(name)
    for rated in sets.RATED:
        left = disjoint(left, sets.rated(rated))
    if sample is None:
        return left
    if not 1 <= sample <= len(left):
        raise DreError(f"a sample of {sample} of {name}: expected 1 to {len(left):,} contexts")
    return [left[i] for i in sorted(random.Random(seed).sample(range(len(left)), sample))]


def named(name_or_path, sample=None, seed=0):
    """Return the contexts of a public pool by name, or of a file by path (then without a sample)."""
    if name_or_path in sets.CONTEXTS:
        return pool(name_or_path, sample, seed)
    if sample is not None:
        raise DreError(f"--sample goes with a public pool ({', '.join(sets.CONTEXTS)}), not with {name_or_path}")
    return read(name_or_path)
