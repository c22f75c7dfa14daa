"""What a recorded run shows of drafts and rounds, for what a run to come will take."""

from dataclasses import dataclass

from dre.augment.algorithm import take
from dre.augment.rounds import EXPECTED, Item
from dre.data import parse
from dre.data.augmented import AUGMENTED
from dre.data.records import Context


@dataclass(frozen=True)
class Experience:
    """What a recorded run shows of drafts and rounds.

    Attributes
    ----------
    contexts : int
    again : float
        Share of contexts that a round leaves unaccepted.
    open : float
        Responses with the wrong label in such a context.
    draft : dict
        ``positive`` and ``adversarial``: the five and five responses of median length.
    """

    contexts: int
    again: float
    open: float
    draft: dict

    def rounds(self, max_rounds=3):
        """Return the expected number of rounds a context, if each round leaves the same share."""
        return sum(self.again**k for k in range(max_rounds))


def experience(path=AUGMENTED):
    """Return the `Experience` of a file of recorded responses; contexts are not needed."""
    items = []
    for where, record in parse.read_jsonl(path):
        items.append(Item(Context("recorded", parse.field(record, "id", str, where), "", ())))
        take(items[-1], record, where)
    left = [item for item in items if not item.accepted]
    median = sorted(items, key=lambda item: sum(len(one.text) for one in item.draft))[len(items) // 2]
    draft = {kind: [one.text for one in median.draft if one.kind == kind] for kind in EXPECTED}
    wrong = sum(len(item.rejected) for item in left)
    return Experience(len(items), len(left) / len(items), wrong / len(left) if left else 0.0, draft)
