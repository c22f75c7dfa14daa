"""Records for contexts with labelled responses and for human-rated responses, and the tables made of them."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields

from dre.errors import DreError

KINDS = {"p": "positives", "a": "adversarials", "r": "randoms"}


@dataclass(frozen=True)
class Context:
    """A dialogue context and its labelled responses.

    Attributes
    ----------
    set, id, split : str
        Data set, identifier within it (as in the source), and ``train``, ``dev`` or ``test``.
    turns : tuple of str
        The context, oldest turn first.
    positives, adversarials, randoms : tuple of str
        Responses that fit; that share words but do not fit; that come from other contexts.
    domain : str
        ``daily``, ``persona`` or ``topical``.
    facts : str
        Persona or knowledge the speaker was given; empty where there is none.
    """

    set: str
    id: str
    split: str
    turns: tuple[str, ...]
    positives: tuple[str, ...] = ()
    adversarials: tuple[str, ...] = ()
    randoms: tuple[str, ...] = ()
    domain: str = "daily"
    facts: str = ""

    @property
    def context_id(self):
        """Id unique over all sets: ``dailydialog++-test/7``, ``mini/mini-daily-000``, ``convai2-valid/1``."""
        if "/" in self.id:  # ids such as convai2-valid/12 already name their source
            return self.id
        if self.set == "dailydialog++":  # ids restart at 0 in every split
            return f"{self.set}-{self.split}/{self.id}"
        return f"{self.set}/{self.id}"

    def pair_id(self, kind, i):
        """Return the id of response `i` (from 0) of `kind` (``p``, ``a``, ``r``), as judgements record it."""
        if kind not in KINDS:
            raise DreError(f"unknown response kind {kind!r}: use one of {', '.join(KINDS)}")
        separator = "" if self.set.startswith("dailydialog++") else "/"
        return f"{self.context_id}{separator}{kind}{i}"

    def responses(self, kind):
        """Return the responses of `kind` (``p``, ``a`` or ``r``)."""
        if kind not in KINDS:
            raise DreError(f"unknown response kind {kind!r}: use one of {', '.join(KINDS)}")
        return getattr(self, KINDS[kind])

    def to_dict(self):
        """Return the record as plain JSON types; `from_dict` reads it back."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, record):
        """Return the record that `to_dict` wrote."""
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in _known(cls, record).items()})


@dataclass(frozen=True)
class Rated:
    """A response with human ratings.

    Attributes
    ----------
    set, pair_id, context_id : str
        Data set, id of the response, and the unit of resampling (responses of one context share it).
    turns : tuple of str
        The context, oldest turn first.
    response, system : str
        The response and the system that wrote it (empty where the source does not say).
    reference : str or None
        A human-written reply to the same context; None where the source has none.
    facts : str
        Persona or knowledge given with the context.
    ratings : dict of str to tuple of float
        One value a rater for every criterion; NaN where a rater gave no number.
    """

    set: str
    pair_id: str
    context_id: str
    turns: tuple[str, ...]
    response: str
    system: str
    reference: str | None
    facts: str
    ratings: dict[str, tuple[float, ...]]

    def mean(self, criterion):
        """Return the mean of the numeric ratings of `criterion`; NaN where no rater gave a number."""
        values = [value for value in self.ratings[criterion] if not math.isnan(value)]
        return math.fsum(values) / len(values) if values else math.nan

    def to_dict(self):
        """Return the record as plain JSON types, with None for NaN; `from_dict` reads it back."""
        ratings = {c: [None if math.isnan(v) else v for v in values] for c, values in self.ratings.items()}
        return asdict(self) | {"turns": list(self.turns), "ratings": ratings}

    @classmethod
    def from_dict(cls, record):
        """Return the record that `to_dict` wrote."""
        record = dict(_known(cls, record))
        record["turns"] = tuple(record["turns"])
        record["ratings"] = {
            c: tuple(math.nan if v is None else float(v) for v in values) for c, values in record["ratings"].items()
        }
        return cls(**record)


def _known(cls, record):
    names = {field.name for field in fields(cls)}
    if set(record) != names:
        wrong = ", ".join(sorted(set(record) ^ names))
        raise DreError(f"not a {cls.__name__} record: missing or unknown fields {wrong}; write it with to_dict()")
    return record


def pairs(contexts, kinds="pa"):
    """Return one row a (context, response) pair.

    Parameters
    ----------
    contexts : iterable of Context
    kinds : str
        Which responses: any of ``p`` (positive), ``a`` (adversarial negative), ``r`` (random negative).

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, context_id, set, context`` (tuple of turns), ``response, kind``.
    """
    import pandas as pd

    rows = [
        (context.pair_id(kind, i), context.context_id, context.set, context.turns, response, kind)
        for context in contexts
        for kind in kinds
        for i, response in enumerate(context.responses(kind))
    ]
    return pd.DataFrame(rows, columns=["pair_id", "context_id", "set", "context", "response", "kind"])


def rated_table(rated):
    """Return one row a rated response.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, context_id, set, system, context`` (tuple of turns), ``response, reference, human``
        (mean overall rating on the source's own scale), then the mean of every other criterion.
    """
    import pandas as pd

    rows = []
    for record in rated:
        row = {
            "pair_id": record.pair_id,
            "context_id": record.context_id,
            "set": record.set,
            "system": record.system,
            "context": record.turns,
            "response": record.response,
            "reference": record.reference,
            "human": record.mean("overall"),
        }
        rows.append(row | {c: record.mean(c) for c in record.ratings if c != "overall"})
    return pd.DataFrame(rows)


def data_hash(contexts):
    """Return the sha256 (64 hex digits) of the records as canonical JSON, in the order given."""
    digest = hashlib.sha256()
    for context in contexts:
        line = json.dumps(context.to_dict(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        digest.update(line.encode("utf-8") + b"\n")
    return digest.hexdigest()
