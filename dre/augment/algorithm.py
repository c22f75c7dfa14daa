"""Algorithm 1 of the paper (DRE, section 4.1): a language model writes labelled responses.

The model writes five positive and five adversarial negative responses to a context. A check labels
each of them, and what has the wrong label is revised in another round.
"""

import dataclasses
import json
from collections.abc import Iterable, Sequence
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
from dre.judges.asking import one_run

# The label that the check has to give to a response of each kind.
EXPECTED = {"positive": "Positive", "adversarial": "Negative"}
_RESPONSES_PER_KIND = 5
#: How many responses a draft has, each of which is checked.
RESPONSES = _RESPONSES_PER_KIND * len(EXPECTED)
_NOT_ASKED = "nothing is asked"


class Slot(NamedTuple):
    """One of the ten places of a draft: the kind of response, and its number from 0."""

    kind: str
    number: int


class FailedReply(NamedTuple):
    """A reply that gave no responses or no label: its status, and a sentence on what happened."""

    status: str
    description: str


@dataclass
class Item:
    """A context on its way through Algorithm 1.

    Attributes
    ----------
    context : the dialogue context that responses are written for.
    draft : the responses written so far, by slot.
    labels : the label that the check gave to a response, by slot; absent where it was not checked.
    rounds : how many rounds the context has been through.
    costs : dollars of each reply that arrived.
    failed_replies : the replies that were malformed, refused, truncated, empty, or did not arrive.
    status : "accepted", "rejected", or the status of a reply that is missing.
    """

    context: Context
    draft: dict[Slot, str] = field(default_factory=dict)
    labels: dict[Slot, str] = field(default_factory=dict)
    rounds: int = 0
    costs: list[float] = field(default_factory=list)
    failed_replies: list[FailedReply] = field(default_factory=list)
    status: str = "rejected"

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
        return {
            f"{kind}s": tuple(text for slot, text in self.draft.items() if slot.kind == kind)
            for kind in EXPECTED
        }

    def describe(self, slots: Iterable[Slot]) -> str:
        """Return a sentence for each slot that says which label the check gave."""
        sentences = []
        for slot in slots:
            response = f"{slot.kind.capitalize()} response {slot.number + 1}"
            expected = f"expected {EXPECTED[slot.kind]}"
            label = self.labels.get(slot)
            outcome = f"was labelled {label}" if label else "has no label yet"
            sentences.append(f"{response} {outcome}, {expected}.")
        return " ".join(sentences)

    def start(self, texts: dict[str, Sequence[str]]) -> None:
        """Take ten new responses as the draft; ``texts`` has five for each kind."""
        self.draft = _by_slot(texts)
        self.labels = {}

    def revise(self, texts: dict[str, Sequence[str]]) -> None:
        """Replace rejected responses by new ones of their kind, as far as there are any.

        Responses that were accepted, or have not been checked, stay. A text is new if the draft
        does not have it already; case and spacing do not count.
        """
        present = {_normalised(text) for text in self.draft.values()}
        new_texts = {
            slot: text for slot, text in _by_slot(texts).items() if _normalised(text) not in present
        }
        # First the rejected slots that have a new text at their own place. The others take the
        # first new text of their kind that is left.
        rejected = sorted(self.rejected, key=lambda slot: slot not in new_texts)
        for slot in rejected:
            of_same_kind = [new_slot for new_slot in new_texts if new_slot.kind == slot.kind]
            if of_same_kind:
                new_slot = slot if slot in new_texts else min(of_same_kind)
                self.draft[slot] = new_texts.pop(new_slot)
                del self.labels[slot]


def _by_slot(texts):
    return {
        Slot(kind, number): text for kind in EXPECTED for number, text in enumerate(texts[kind])
    }


def _normalised(text):
    return " ".join(text.casefold().split())


def generate(
    contexts: Iterable[Context],
    judge: Any,
    checker: Any = None,
    max_rounds: int = 3,
    again: str = "refine",
    ask: bool = True,
) -> "Result":
    """Write five positive and five adversarial negative responses to each context (Algorithm 1).

    A round has two steps: LLM-Generate (prompt ``generate``), and LLM-Check (prompt ``classify``,
    one call for each response). A context is accepted when the check gives all ten responses the
    label of their kind; otherwise another round follows. Every reply is kept in the judge's store,
    so the same call, run again, asks only for what is missing.

    Parameters
    ----------
    contexts : the contexts, all with different ids.
    judge : the live judge that writes; its ``max_usd`` holds for all rounds and for both judges.
    checker : the live judge that checks; the one that writes if it is None.
    max_rounds : how many rounds a context has at most. A useless reply takes up its round.
    again : the prompt of further rounds. With ``refine``, as in the paper's text, the model sees
        its draft and the results of the check, and only rejected responses are replaced. With
        ``generate``, as in the paper's algorithm, all ten are written anew.
    ask : whether to ask for replies that are not stored. If not, a context ends as ``missing``
        where its first reply is not there, with what its draft and labels were until then.

    Raises
    ------
    DreError
        Before anything is asked, if there is no context or two have the same id, if a judge is a
        recording, or if there is a ceiling and a price is unknown.
    """
    checker = checker or judge
    stopped = "" if ask else _NOT_ASKED
    result = Result([Item(context) for context in contexts], stopped)
    _check_arguments(result.items, judge, checker, max_rounds, again)
    ceiling_of_checker = checker.max_usd
    try:
        with one_run(judge, checker) as run:
            if judge.max_usd is not None and not run.has_one_store:
                raise DreError(
                    f"{judge.spec} and {checker.spec} have different stores, so the ceiling "
                    "cannot hold for both: give both the same store"
                )
            checker.max_usd = judge.max_usd
            _go_through_rounds(result, judge, checker, max_rounds, again)
            paid = run.paid()
    finally:
        checker.max_usd = ceiling_of_checker
    result.spent = paid.usd
    result.uncertain = paid.uncertain_usd
    return result


def _go_through_rounds(result, judge, checker, max_rounds, again):
    """Write and check until each context is accepted, or has been through all rounds."""
    for round_number in range(max_rounds):
        waiting = [item for item in result.items if item.status == "rejected"]
        for item in waiting:
            item.rounds += 1
        _write(result, waiting, judge, round_number, again)
        # A call that failed has taken its context out of this round.
        drafted = [item for item in waiting if item.status == "rejected"]
        _label(result, drafted, checker, round_number)
        for item in drafted:
            if item.draft and not item.unaccepted:
                item.status = "accepted"


def _check_arguments(items, judge, checker, max_rounds, again):
    """Raise DreError if `generate` cannot work with these arguments."""
    ids = {item.context.id for item in items}
    if not items or len(ids) < len(items):
        raise DreError(
            f"found {len(items)} contexts with {len(ids)} different ids: "
            "give at least one context, and each another id"
        )
    if max_rounds < 1 or again not in ("refine", "generate"):
        raise DreError(
            f"found max_rounds={max_rounds!r} and again={again!r}: "
            "expected one round or more, and refine or generate"
        )
    for model in (judge, checker):
        if is_recording(model.spec) or model.repeats != 1:
            raise DreError(
                f"judge {model.spec} cannot write responses: "
                "expected a live judge that gives one reply to a prompt"
            )
        if judge.max_usd is not None and model.price is None:
            raise DreError(
                f"no price of {model.spec} is known, so the ceiling cannot be kept: give its price"
            )


def _write(result, items, judge, round_number, again):
    """LLM-Generate: ask for a first draft where there is none, and for a revision elsewhere."""
    for prompt in ("generate", "refine"):
        is_first_prompt = prompt == "generate"
        group = [
            item
            for item in items
            if (is_first_prompt and not item.draft) or (prompt == again and item.rejected)
        ]
        rows = [
            {
                "pair_id": item.context.context_id,
                "context": item.context.turns,
                "feedback": item.describe(item.rejected),
                **item.responses,
            }
            for item in group
        ]
        replies = result.ask(judge, prompt, round_number, group, rows)
        for item, reply in zip(group, replies):
            if reply and is_first_prompt:
                item.start(reply.responses)
            elif reply:
                item.revise(reply.responses)


def _label(result, items, checker, round_number):
    """LLM-Check: ask for the label of each response that has none."""
    unchecked = [(item, slot) for item in items for slot in item.unchecked]
    rows = [
        {
            "pair_id": item.context.pair_id(slot.kind[0], slot.number),
            "context": item.context.turns,
            "response": item.draft[slot],
        }
        for item, slot in unchecked
    ]
    owners = [item for item, _ in unchecked]
    replies = result.ask(checker, "classify", round_number, owners, rows)
    for (item, slot), reply in zip(unchecked, replies):
        if reply:
            item.labels[slot] = reply.label


@dataclass
class Result:
    """What `generate` made.

    Attributes
    ----------
    items : the contexts with their drafts and labels.
    stopped : why the judge stopped early, or "".
    spent : dollars spent by this call.
    uncertain : the part of them that may not have been billed.
    """

    items: list[Item]
    stopped: str = ""
    spent: float = 0.0
    uncertain: float = 0.0

    def ask(
        self,
        judge: Any,
        prompt: str,
        round_number: int,
        items: Sequence[Item],
        rows: list[dict],
    ) -> list:
        """Ask a judge about each row.

        Returns
        -------
        The reply to each row, or None where it is of no use. Item i belongs to row i.
        """
        if not rows:
            return []
        table = judge.score(pd.DataFrame(rows), prompt, first=round_number, ask=not self.stopped)
        self.stopped = self.stopped or judge.last.stopped

        usable = []
        for item, reply in zip(items, table.itertuples()):
            if reply.status in ("error", "missing"):
                # The reply did not arrive, which is not an outcome. The same command asks again.
                item.status = reply.status
            else:
                item.costs.append(reply.cost)
            if reply.status != "ok":
                sentence = f"Round {round_number + 1}, {prompt}: {reply.status} ({reply.reason})."
                item.failed_replies.append(FailedReply(reply.status, sentence))
            usable.append(reply if reply.status == "ok" else None)
        return usable

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
        """A table with one row per context.

        Columns
        -------
        id, split : of the context.
        status : ``accepted``; ``rejected`` if a response has the wrong label or none; ``malformed,
            refused, truncated`` or ``empty`` if no reply gave a draft; ``missing`` or ``error`` if
            a reply did not arrive: run the same call again.
        rounds, responses_accepted, calls, cost : rounds run, responses accepted, replies received,
            and their cost in dollars.
        reason : what went wrong, in sentences; empty if the context was accepted.
        """
        rows = []
        for item in self.items:
            status = item.status
            if item.failed_replies and not item.draft:
                status = item.failed_replies[-1].status
            reason = ""
            if status != "accepted":
                sentences = [reply.description for reply in item.failed_replies]
                sentences.append(item.describe(item.unaccepted))
                reason = " ".join(sentences).strip()
            row = {
                "id": item.context.id,
                "split": item.context.split,
                "status": status,
                "rounds": item.rounds,
                "responses_accepted": len(item.draft) - len(item.unaccepted),
                "calls": len(item.costs),
                "cost": sum(item.costs),
                "reason": reason,
            }
            rows.append(row)
        return pd.DataFrame(rows)

    def save(self, path: str | Path, rejected: bool = False, turns: bool = True) -> int:
        """Write contexts with their responses as JSON Lines, and return how many.

        Parameters
        ----------
        path : the file, for `dre.datasets.dialogues.read_contexts`.
        rejected : write the last drafts of the contexts that were not accepted, not the accepted.
        turns : write the turns of the context. Without them, a context is named by its id and
            sha256 alone, so that the text of other people is not passed on.
        """
        lines = []
        for item in self.items:
            is_rejected = item.status != "accepted"
            if not item.draft or is_rejected != rejected:
                continue
            context = item.context
            record: dict = {
                "id": context.id,
                "split": context.split,
                "context_sha256": dialogues.context_sha256(context.turns),
            }
            if turns:
                record["set"] = context.set
                record["domain"] = context.domain
                record["context"] = context.turns
            for name, texts in item.responses.items():
                record[FIELDS[name]] = texts
            record["check"] = {
                kind: [item.labels.get(Slot(kind, i)) for i in range(_RESPONSES_PER_KIND)]
                for kind in EXPECTED
            }
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        replace(path, "".join(lines))
        return len(lines)


def recorded_responses(recording: str = "claude-2026-11") -> pd.DataFrame:
    """Return the responses of a recorded run of Algorithm 1, with the labels of a blind check.

    Columns
    -------
    id : of the context.
    pair_id : of the response.
    kind : ``positive`` or ``adversarial``.
    response, label : the text, and what the check called it.
    accepted : whether that is the label of its kind.
    """
    rows = []
    for record in read_jsonl(repository_file("recorded", recording, "augmented.jsonl")):
        for kind, expected_label in EXPECTED.items():
            texts = record[FIELDS[f"{kind}s"]]
            labels = record["check"][kind]
            for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
                row = {
                    "id": record["id"],
                    "pair_id": f"{record['id']}/{kind[0]}{i}",
                    "kind": kind,
                    "response": text,
                    "label": label,
                    "accepted": label == expected_label,
                }
                rows.append(row)
    return pd.DataFrame(rows)
