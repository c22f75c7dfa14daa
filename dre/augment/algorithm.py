"""Algorithm 1 of the paper (DRE, section 4.1): a language model writes labelled responses.

The model writes five positive and five adversarial negative responses to a context. A check labels
each of them, and what has the wrong label is revised in another round.
"""

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import dialogues
from dre.datasets.dialogues import FIELDS, Context
from dre.datasets.registry import read_jsonl, repository_file
from dre.errors import DreError
from dre.files import replace
from dre.judges import is_recording
from dre.judges.ask import one_budget

#: The label that the check has to give to a response of each kind.
EXPECTED = {"positive": "Positive", "adversarial": "Negative"}
_PER_KIND = 5
#: How many responses a draft has, each of which is checked.
RESPONSES = _PER_KIND * len(EXPECTED)


class Slot(NamedTuple):
    """One of the ten places of a draft: the kind of response, and its number from 0."""

    kind: str
    number: int


@dataclass
class Item:
    """A context on its way through Algorithm 1.

    ``status`` is "accepted", "rejected", or "missing" or "error" if a reply did not arrive;
    ``reason`` is that of the last reply without responses or label.
    """

    context: Context
    draft: dict[Slot, str] = field(default_factory=dict)
    labels: dict[Slot, str] = field(default_factory=dict)
    rounds: int = 0
    status: str = "rejected"
    reason: str = ""

    @property
    def unaccepted(self) -> list[Slot]:
        """Slots of the draft that do not have the label they should get."""
        return [slot for slot in self.draft if self.labels.get(slot) != EXPECTED[slot.kind]]

    @property
    def rejected(self) -> list[Slot]:
        """Slots of the draft that the check gave the wrong label."""
        return [slot for slot in self.unaccepted if slot in self.labels]

    @property
    def unchecked(self) -> list[Slot]:
        """Slots of the draft that have no label yet."""
        return [slot for slot in self.draft if slot not in self.labels]

    @property
    def responses(self) -> dict[str, tuple[str, ...]]:
        """The draft as the fields ``positives`` and ``adversarials`` of a `Context`."""
        texts: dict[str, tuple] = {f"{kind}s": () for kind in EXPECTED}
        for slot, text in self.draft.items():
            texts[f"{slot.kind}s"] += (text,)
        return texts

    @property
    def feedback(self) -> str:
        """A sentence for each rejected response, for the prompt that revises them."""
        return " ".join(
            f"{slot.kind.capitalize()} response {slot.number + 1} was labelled "
            f"{self.labels[slot]}, expected {EXPECTED[slot.kind]}."
            for slot in self.rejected
        )

    def take(self, texts: dict[str, Iterable[str]]) -> None:
        """Take new responses where there is none yet, or a rejected one; no text twice."""
        wanted = self.rejected
        for kind in EXPECTED:
            for number, text in enumerate(texts[kind]):
                slot = Slot(kind, number)
                is_new = slot in wanted and text not in self.draft.values()
                if slot not in self.draft or is_new:
                    self.draft[slot] = text
                    self.labels.pop(slot, None)


@dataclass
class Result:
    """What `generate` made: the contexts with their drafts, and what that took."""

    items: list[Item]
    stopped: str = ""
    spent: float = 0.0

    def ask(self, judge: Any, prompt: str, first: int, items: list[Item], rows: list) -> list:
        """Return the reply to each row, or None where it is of no use. Item i belongs to row i."""
        if not rows:
            return []
        table = judge.score(rows, prompt, first=first, ask=not self.stopped)
        self.stopped = self.stopped or judge.last.stopped
        replies = []
        for item, reply in zip(items, table.itertuples()):
            if reply.status in ("error", "missing"):  # the same call asks again
                item.status = reply.status
            if reply.status != "ok":
                item.reason = f"{prompt}: {reply.status} ({reply.reason})"
            replies.append(reply if reply.status == "ok" else None)
        return replies

    @property
    def contexts(self) -> list[Context]:
        """The accepted contexts, each with its five positive and five adversarial responses."""
        return [
            dataclasses.replace(item.context, randoms=(), **item.responses)
            for item in self.items
            if item.status == "accepted"
        ]

    @property
    def report(self) -> pd.DataFrame:
        """A row for each context: id, split, status, rounds, responses_accepted and reason."""
        rows = []
        for item in self.items:
            n_accepted = len(item.draft) - len(item.unaccepted)
            about = (item.context.id, item.context.split, item.status, item.rounds)
            reason = item.reason or ("" if item.status == "accepted" else item.feedback)
            rows.append((*about, n_accepted, reason))
        columns = ["id", "split", "status", "rounds", "responses_accepted", "reason"]
        return pd.DataFrame(rows, columns=columns)

    def save(self, path: str | Path, turns: bool = True) -> int:
        """Write the accepted contexts as JSON Lines, and return how many.

        Without `turns`, a context is named by its id and sha256 alone, so that the text of other
        people is not passed on.
        """
        lines = []
        for context in self.contexts:
            sha256 = dialogues.context_sha256(context.turns)
            record: dict = {"id": context.id, "split": context.split, "context_sha256": sha256}
            if turns:
                record |= {"set": context.set, "domain": context.domain, "context": context.turns}
            for name in ("positives", "adversarials"):
                record[FIELDS[name]] = getattr(context, name)
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        replace(path, "".join(lines))
        return len(lines)


def generate(
    contexts: Iterable[Context],
    judge: Any,
    checker: Any = None,
    max_rounds: int = 3,
    again: str = "refine",
    ask: bool = True,
) -> Result:
    """Write five positive and five adversarial negative responses to each context (Algorithm 1).

    A round has two steps: LLM-Generate (prompt ``generate``), and LLM-Check (prompt ``classify``,
    one call for each response). A context is accepted when the check gives all ten responses the
    label of their kind; otherwise another round follows. Every reply is kept in the judge's store,
    so the same call, run again, asks only for what is missing.

    Parameters
    ----------
    contexts : the contexts, all with different ids.
    judge : the live judge that writes; its budget holds for all rounds and for both judges.
    checker : the live judge that checks; the one that writes if it is None.
    max_rounds : how many rounds a context has at most. A useless reply takes up its round.
    again : ``refine``: as in the paper's text, rejected responses are revised; ``generate``: as in
        the paper's algorithm, all ten are written anew.
    ask : whether to ask for replies that are not stored.
    """
    checker = checker or judge
    result = Result([Item(context) for context in contexts], "" if ask else "nothing is asked")
    for model in (judge, checker):
        if is_recording(model.spec) or model.repeats != 1:
            raise DreError(
                f"judge {model.spec} cannot write responses: expected a live judge that gives one "
                "reply to a prompt"
            )
        if judge.max_usd is not None and model.price is None:
            raise DreError(f"no price of {model.spec} is known, so the ceiling cannot be kept")
    with one_budget(judge, checker) as budget:
        before_usd = budget.spent
        for first in range(max_rounds):
            waiting = [item for item in result.items if item.status == "rejected"]
            _write(result, waiting, judge, first, again)
            _check(result, [item for item in waiting if item.status == "rejected"], checker, first)
        result.spent = budget.spent - before_usd
    return result


def _write(result, items, judge, first, again):
    """LLM-Generate: ask for a first draft where there is none, and for a revision elsewhere."""
    for item in items:
        item.rounds += 1
        if again == "generate":
            item.draft, item.labels = {}, {}
    groups = {
        "generate": [item for item in items if not item.draft],
        "refine": [item for item in items if item.rejected],
    }
    for prompt, group in groups.items():
        rows = []
        for item in group:
            row = {"pair_id": item.context.context_id, "context": item.context.turns}
            rows.append({**row, "feedback": item.feedback, **item.responses})
        for item, reply in zip(group, result.ask(judge, prompt, first, group, rows)):
            if reply:
                item.take(reply.responses)


def _check(result, items, checker, first):
    """LLM-Check: ask for the label of each response that has none."""
    owners, slots, rows = [], [], []
    for item in items:
        for slot in item.unchecked:
            owners.append(item)
            slots.append(slot)
            pair_id = item.context.pair_id(slot.kind[0], slot.number)
            row = {"pair_id": pair_id, "context": item.context.turns, "response": item.draft[slot]}
            rows.append(row)
    for item, slot, reply in zip(
        owners, slots, result.ask(checker, "classify", first, owners, rows)
    ):
        if reply:
            item.labels[slot] = reply.label
    for item in items:
        if item.draft and not item.unaccepted and item.status == "rejected":
            item.status = "accepted"


def recorded_responses(recording: str = "claude-2026-11") -> pd.DataFrame:
    """Return the responses of a recorded run of Algorithm 1, with the labels of a blind check.

    Columns: ``id`` of the context, ``pair_id`` of the response, ``kind`` (positive or adversarial),
    ``response``, ``label`` (what the check called it), ``accepted``.
    """
    rows = []
    for record in read_jsonl(repository_file("recorded", recording, "augmented.jsonl")):
        for kind, expected_label in EXPECTED.items():
            texts = record[FIELDS[f"{kind}s"]]
            for i, (text, label) in enumerate(zip(texts, record["check"][kind], strict=True)):
                pair_id = f"{record['id']}/{kind[0]}{i}"
                rows.append((record["id"], pair_id, kind, text, label, label == expected_label))
    columns = ["id", "pair_id", "kind", "response", "label", "accepted"]
    return pd.DataFrame(rows, columns=columns)
