"""Algorithm 1 (DRE section 4.1): an LLM writes five positive and five adversarial responses; what fails is revised."""

import dataclasses
import json
from dataclasses import dataclass, field

import pandas as pd

from dre.datasets import dialogues
from dre.datasets.dialogues import FIELDS
from dre.datasets.registry import read_jsonl, repository_file
from dre.errors import DreError
from dre.files import replace

EXPECTED = {
    "positive": "Positive",
    "adversarial": "Negative",
}  # kind of response -> the label it has to get


@dataclass
class Item:
    """A context, its draft, the labels that the check gave, and what became of the replies it needed."""

    context: dialogues.Context
    draft: dict = field(default_factory=dict)  # (kind, place) -> text
    labels: dict = field(default_factory=dict)  # (kind, place) -> label, of what has one
    rounds: int = 0
    costs: list = field(default_factory=list)  # dollars of each reply that was used
    useless: list = field(default_factory=list)  # (status, what happened) of the others
    status: str = "rejected"

    @property
    def wrong(self):
        """Places of the draft that have not got their label."""
        return [place for place in self.draft if self.labels.get(place) != EXPECTED[place[0]]]

    @property
    def rejected(self):
        """Those of them that have got the other label."""
        return [place for place in self.wrong if place in self.labels]

    @property
    def responses(self):
        """The draft's positives and adversarials, as `dre.datasets.dialogues.Context` has them."""
        return {
            f"{kind}s": tuple(text for at, text in self.draft.items() if at[0] == kind)
            for kind in EXPECTED
        }

    def said(self, places):
        """Say of some places what the check found."""
        found = [(kind, i + 1, self.labels.get((kind, i), "nothing")) for kind, i in places]
        return " ".join(
            f"{k.capitalize()} response {n} was labelled {x}, expected {EXPECTED[k]}."
            for k, n, x in found
        )

    def revise(self, texts, anew=False):
        """Replace rejected responses by new texts of their kind, as far as there are any; or all ten.

        What was accepted, or has no label yet, stays. New is what the draft has not, case and spacing aside.
        """
        given = {(kind, i): text for kind in EXPECTED for i, text in enumerate(texts[kind])}
        if anew:
            self.draft, self.labels = given, {}
        held = {" ".join(text.casefold().split()) for text in self.draft.values()}
        new = {
            place: text
            for place, text in given.items()
            if " ".join(text.casefold().split()) not in held
        }
        for place in sorted(
            self.rejected, key=lambda place: place not in new
        ):  # first those with one at their place
            source = (
                place
                if place in new
                else min((other for other in new if other[0] == place[0]), default=None)
            )
            if source:
                self.draft[place] = new.pop(source)
                del self.labels[place]


def generate(contexts, judge, checker=None, max_rounds=3, again="refine"):
    """Write five positive and five adversarial negative responses to each context (Algorithm 1).

    A round is LLM-Generate (prompt ``generate``) and LLM-Check (prompt ``classify``, one call per response). A context
    is accepted when the check calls all ten by their kind; otherwise another round follows. As printed, it writes all
    ten anew (``again="generate"``). The text beside it names self-refine, and so does the default: the prompt
    ``refine`` is given the draft with what the check found, and only rejected responses are replaced. A reply of no use
    takes up its round. Every reply is in the judge's store: the same call, run again, asks only for what is missing.

    ``judge`` writes and ``checker`` (None: the judge) checks; the judge's ``max_usd`` holds over all rounds and both.
    Returns a `Result`. DreError if one cannot be asked, or has no known price for the ceiling: nothing was asked then.
    """
    result, checker = (
        Result([Item(context) for context in contexts], judge.max_usd),
        checker or judge,
    )
    ids = {item.context.id for item in result.items}
    if (
        not ids
        or len(ids) < len(result.items)
        or max_rounds < 1
        or again not in ("refine", "generate")
    ):
        what = f"{len(result.items)} contexts, {len(ids)} ids, max_rounds={max_rounds!r}, again={again!r}"
        raise DreError(
            f"{what}: expected one context at least, no id twice, 1 round or more, refine or generate"
        )
    for one in (judge, checker):
        if one.spec.startswith("recorded:") or one.repeats != 1:
            raise DreError(
                f"judge {one.spec}: expected one that can be asked, with one reply per prompt"
            )
        if judge.max_usd is not None and one.price is None:
            raise DreError(
                f"no price of {one.spec} is known, so the ceiling cannot be kept: give its price"
            )
    for number in range(max_rounds):
        left = [item for item in result.items if item.status == "rejected"]
        for item in left:
            item.rounds += 1
        for prompt in ("generate", "refine"):
            first = prompt == "generate"
            group = [
                item
                for item in left
                if (first and not item.draft) or (prompt == again and item.rejected)
            ]
            rows = [
                _row(item, feedback=item.said(item.rejected), **item.responses) for item in group
            ]
            for item, reply in zip(group, result.ask(judge, prompt, number, group, rows)):
                if reply:
                    item.revise(reply.responses, anew=first)
        left = [item for item in left if item.status == "rejected"]
        places = [
            (item, place) for item in left for place in item.draft if place not in item.labels
        ]
        rows = [_row(item, place, response=item.draft[place]) for item, place in places]
        replies = result.ask(checker, "classify", number, [item for item, _ in places], rows)
        for (item, place), reply in zip(places, replies):
            if reply:
                item.labels[place] = reply.label
        for item in left:
            item.status = "accepted" if item.draft and not item.wrong else item.status
    return result


def _row(item, place=None, **fields):
    own = item.context
    return {
        "pair_id": own.pair_id(place[0][0], place[1]) if place else own.context_id,
        "context": own.turns,
    } | fields


@dataclass
class Result:
    """What `generate` gave: why it ``stopped`` early (or ""), the dollars ``spent``, and the tables below."""

    items: list
    ceiling: float | None = None
    stopped: str = ""
    spent: float = 0.0

    def ask(self, judge, prompt, number, items, rows):
        """Return the reply to each item's row, or None if it is of no use; what is left of the ceiling holds."""
        if not rows:
            return []
        own, judge.max_usd = (
            judge.max_usd,
            None if self.ceiling is None else max(0.0, self.ceiling - self.spent),
        )
        try:
            table = judge.score(pd.DataFrame(rows), prompt, first=number, ask=not self.stopped)
        finally:
            judge.max_usd = own
        self.spent, self.stopped = self.spent + judge.last.spent, self.stopped or judge.last.stopped
        replies = list(table.itertuples())
        for item, reply in zip(items, replies):
            if reply.status in (
                "error",
                "missing",
            ):  # no reply is no outcome: the same call, run again, asks for it
                item.status = reply.status
            else:
                item.costs.append(reply.cost)
            if reply.status != "ok":
                item.useless.append(
                    (
                        reply.status,
                        f"Round {number + 1}, {prompt}: {reply.status} ({reply.reason}).",
                    )
                )
        return [reply if reply.status == "ok" else None for reply in replies]

    @property
    def contexts(self):
        """The accepted contexts as `dre.datasets.dialogues.Context`, with their five positives and five adversarials."""
        done = [(item.context, item) for item in self.items if item.status == "accepted"]
        return [dataclasses.replace(own, randoms=(), **item.responses) for own, item in done]

    @property
    def report(self):
        """One row per context: ``id, split, status, rounds, responses_accepted, calls, cost, reason``.

        ``status`` is ``accepted``; ``rejected`` (a response has the wrong label, or none); ``malformed, refused,
        truncated, empty`` (no reply gave a draft); ``missing, error`` (a reply is not there: run again).
        """
        rows = []
        for item in self.items:
            status = item.useless[-1][0] if item.useless and not item.draft else item.status
            reason = " ".join([*(said for _, said in item.useless), item.said(item.wrong)]).strip()
            row = [
                item.context.id,
                item.context.split,
                status,
                item.rounds,
                len(item.draft) - len(item.wrong),
            ]
            rows.append(
                [*row, len(item.costs), sum(item.costs), "" if status == "accepted" else reason]
            )
        columns = [
            "id",
            "split",
            "status",
            "rounds",
            "responses_accepted",
            "calls",
            "cost",
            "reason",
        ]
        return pd.DataFrame(rows, columns=columns)

    def save(self, path, rejected=False, turns=True):
        """Write the accepted contexts (or the last drafts of the others) as JSON Lines for `read`; returns how many.

        ``turns=False`` names a context by id and sha256 only: other people's text stays out of what is passed on.
        """
        lines = []
        for item in (
            item for item in self.items if item.draft and (item.status == "accepted") != rejected
        ):
            own = item.context
            record = {
                "id": own.id,
                "split": own.split,
                "context_sha256": dialogues.context_sha256(own.turns),
            }
            record |= {"set": own.set, "domain": own.domain, "context": own.turns} if turns else {}
            record |= {FIELDS[name]: texts for name, texts in item.responses.items()}
            record["check"] = {
                kind: [item.labels.get((kind, i)) for i in range(5)] for kind in EXPECTED
            }
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
        replace(path, "".join(lines))
        return len(lines)


def recorded(name="claude-2026-11"):
    """Return the responses of a recorded run with a blind check's labels, one row per response.

    Columns ``id`` (the context's), ``pair_id, kind`` (``positive`` or ``adversarial``), ``response, label, accepted``.
    """
    rows = []
    for record in read_jsonl(repository_file("recorded", name, "augmented.jsonl")):
        for kind, right in EXPECTED.items():
            for i, (text, label) in enumerate(
                zip(record[FIELDS[f"{kind}s"]], record["check"][kind], strict=True)
            ):
                rows.append(
                    (
                        record["id"],
                        f"{record['id']}/{kind[0]}{i}",
                        kind,
                        text,
                        label,
                        label == right,
                    )
                )
    return pd.DataFrame(rows, columns=["id", "pair_id", "kind", "response", "label", "accepted"])
