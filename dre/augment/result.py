"""What Algorithm 1 gave: the accepted contexts, a report of all, every response that was tried; saved as JSON Lines."""

import functools
import json

from dre.augment.rounds import NO_VERDICT
from dre.judges.files import write_atomically


class Result:
    """The outcome of `dre.augment.generate`, or of a file read again.

    Attributes
    ----------
    items : list of dre.augment.rounds.Item
    stopped : str
        ``budget`` if the ceiling ended the run, else empty.
    spent : float
        Dollars that this run spent, 0 where no price is known.
    """

    def __init__(self, items, stopped="", spent=0.0):
        self.items, self.stopped, self.spent = items, stopped, spent

    def __repr__(self):
        counts = self.report["status"].value_counts()
        return f"Result({', '.join(f'{n:,} {status}' for status, n in counts.items())})"

    @property
    def contexts(self):
        """The accepted contexts as `dre.data.records.Context`, with their five and five responses."""
        return [item.augmented() for item in self.items if item.accepted]

    @functools.cached_property
    def report(self):
        """One row a context, in the order given.

        Columns ``id, split, status`` (``accepted``; ``rejected``: a response still has the wrong label, or none;
        ``malformed, refused, truncated, empty``: no reply could be read as a draft; ``missing``: not asked yet;
        ``error``: a call failed), ``rounds, responses_accepted`` (of ten, in the best draft), ``calls`` (replies
        used; 0 for responses read from a file), ``cost`` (dollars; NaN if unknown), ``input_tokens, output_tokens``,
        the number of ``malformed, refused, truncated, empty`` replies, and ``reason``.
        """
        import pandas as pd

        rows = []
        for item in self.items:
            found = list(item.judgements.values())
            row = {"id": item.context.id, "split": item.context.split, "status": item.status, "rounds": item.round}
            row |= {"responses_accepted": sum(one.accepted for one in item.best), "calls": len(found)}
            row |= {name: _sum(found, name) for name in ("cost", "input_tokens", "output_tokens")}
            row |= {status: sum(one.status == status for one in found) for status in NO_VERDICT}
            rows.append(row | {"reason": item.reason})
        return pd.DataFrame(rows)

    @functools.cached_property
    def responses(self):
        """One row a response that was written, in order of context, round, kind and place.

        Columns ``id, pair_id`` (as `dre.data.records.pairs` names it), ``kind`` (``positive`` or ``adversarial``),
        ``index`` (from 0), ``round`` it was written in, ``response, label, status`` of its last check (empty: not
        checked), ``accepted``, and ``best`` (whether it is in the best draft).
        """
        import pandas as pd

        rows = [
            {
                "id": item.context.id,
                "pair_id": item.context.pair_id(one.kind[0], one.index),
                "kind": one.kind,
                "index": one.index,
                "round": one.round,
                "response": one.text,
                "label": one.label,
                "status": one.status,
                "accepted": one.accepted,
                "best": any(one is kept for kept in item.best),
            }
            for item in self.items
            for one in item.tried
        ]
        names = ["id", "pair_id", "kind", "index", "round", "response", "label", "status", "accepted", "best"]
        return pd.DataFrame(rows, columns=names)

    def save(self, path, rejected=False):
        """Write JSON Lines as `dre.data.augmented.join` and `dre.augment.load` read them; returns how many lines.

        Contexts are named by id and sha256; only the responses are written out.

        Parameters
        ----------
        path : path
        rejected : bool
            True: the best drafts of the contexts that were not accepted, instead of the accepted ones.
        """
        lines = [
            json.dumps(item.record(), ensure_ascii=False)
            for item in self.items
            if item.best and item.accepted != rejected
        ]
        write_atomically(path, lines)
        return len(lines)


def _sum(judgements, name):
    values = [getattr(one, name) for one in judgements]
    return float("nan") if None in values or not values else sum(values)
