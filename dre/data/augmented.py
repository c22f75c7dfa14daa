"""The augmented sets (Algorithm 1): model-written responses, joined with their public contexts."""

import hashlib
from pathlib import Path

from dre.data import parse, sets
from dre.data.mini import REPOSITORY
from dre.data.records import Context
from dre.errors import DreError

AUGMENTED = REPOSITORY / "data" / "recorded" / "claude-2026-11" / "augmented.jsonl"
CONTEXTS = {"convai2-augmented": "convai2-valid", "topicalchat-augmented": "topicalchat-valid_freq"}


def load(name, split):
    """Return the contexts of ``convai2-augmented`` or ``topicalchat-augmented``: train (150) or test (50)."""
    public = {context.id: context for context in sets.contexts(CONTEXTS[name])}
    return [c for c in join(AUGMENTED, public, name, prefix=CONTEXTS[name] + "/") if c.split == split]


def join(path, public, name, prefix=""):
    """Return the records of a file of responses with the context their id names.

    Parameters
    ----------
    path : path of a JSON Lines file
        Fields ``id, split, context_sha256, positive_responses, adversarial_negative_responses``.
    public : dict of str to Context
        The public contexts by id.
    name : str
        Data set of the result.
    prefix : str
        Only ids that begin so are read.

    Raises
    ------
    DreError
        An unknown id, or a context whose text has another sha256 than the one recorded.
    """
    if not Path(path).is_file():
        raise DreError(f"{path} is not there: run from a clone of the repository (pip install -e .)")
    found = []
    for where, record in parse.read_jsonl(path):
        id = parse.field(record, "id", str, where)
        if not id.startswith(prefix):
            continue
        context = public.get(id)
        if context is None:
            raise DreError(f"{where}: no public context has the id {id!r}")
        expected = parse.field(record, "context_sha256", str, where)
        if context_sha256(context.turns) != expected:
            raise DreError(f"{where}: context {id} has sha256 {context_sha256(context.turns)}, expected {expected}")
        found.append(
            Context(
                set=name,
                id=id,
                split=parse.field(record, "split", str, where),
                turns=context.turns,
                positives=parse.texts(record, "positive_responses", where),
                adversarials=parse.texts(record, "adversarial_negative_responses", where),
                domain=context.domain,
                facts=context.facts,
            )
        )
    return found


def context_sha256(turns):
    """Return the sha256 of the turns, stripped and joined by newline: how recorded files name a context."""
    return text_sha256("\n".join(turn.strip() for turn in turns))


def text_sha256(text):
    """Return the sha256 of a text, whitespace-stripped, in UTF-8."""
    return hashlib.sha256(text.strip().encode("utf-8")).hexdigest()
