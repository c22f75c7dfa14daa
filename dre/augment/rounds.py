"""One context on its way through Algorithm 1: its draft, what the check said of each response, what is still open."""

import json
from dataclasses import dataclass, replace

from dre.data.augmented import context_sha256

EXPECTED = {"positive": "Positive", "adversarial": "Negative"}  # kind of response -> the label it has to get
COUNT = 5
NO_VERDICT = ("malformed", "refused", "truncated", "empty")


@dataclass
class Response:
    """A response and what the check said of it.

    Attributes
    ----------
    kind : {"positive", "adversarial"}
    index : int
        Its place among the five of its kind, from 0.
    text : str
    round : int
        The round it was written in, from 1.
    label : {"Positive", "Negative"} or None
        None: not checked, or the check gave no verdict.
    status, reason : str
        Of the last reply of the check: ``ok`` or why there is no verdict; empty before a check.
    checks : int
        Replies of the check so far.
    """

    kind: str
    index: int
    text: str
    round: int
    label: str | None = None
    status: str = ""
    reason: str = ""
    checks: int = 0

    @property
    def accepted(self):
        """Whether the check gave the label that its kind has to get."""
        return self.label == EXPECTED[self.kind]

    @property
    def rejected(self):
        """Whether the check gave the other label."""
        return self.label is not None and not self.accepted

    def checked(self, label, status="ok", reason=""):
        """Take over a reply of the check."""
        self.label, self.status, self.reason, self.checks = label, status, reason, self.checks + 1

    def __str__(self):
        name = f"{self.kind} {self.index + 1}"
        if self.label is None:
            return f"{name} has no label" + (f" ({self.status}: {self.reason})" if self.status else "")
        return f"{name} is labelled {self.label}"


class Item:
    """A context, its current draft and its history.

    Attributes
    ----------
    context : dre.data.records.Context
    round : int
        Rounds begun.
    draft : list of Response
        Five positive, then five adversarial negative responses; empty before a draft could be read.
    best : list of Response
        The draft with the most accepted responses.
    tried : list of Response
        Every response that was written, in order.
    judgements : dict
        (prompt, key) -> `dre.judges.store.Judgement`: the replies that were used.
    failed : list of (int, str, str, str)
        Round, prompt, status and reason of replies that gave no draft or no label.
    waiting : tuple of (str, str) or None
        The prompt whose reply is not there yet, and why the call failed (empty: it was not made).
    """

    def __init__(self, context):
        self.context, self.round = context, 0
        self.draft, self.best, self.tried = [], [], []
        self.judgements, self.failed, self.waiting = {}, [], None

    @property
    def accepted(self):
        """Whether all ten responses of the draft passed the check."""
        return bool(self.draft) and all(one.accepted for one in self.draft)

    @property
    def rejected(self):
        """The responses of the draft that have the wrong label."""
        return [one for one in self.draft if one.rejected]

    @property
    def unchecked(self):
        """The responses of the draft without a label."""
        return [one for one in self.draft if one.label is None]

    @property
    def status(self):
        """``accepted``, ``rejected``, ``missing``, ``error``, or what the last reply was if none gave a draft."""
        if self.accepted:
            return "accepted"
        if self.waiting:
            return "error" if self.waiting[1] else "missing"
        return "rejected" if self.draft or not self.failed else self.failed[-1][2]

    @property
    def reason(self):
        """Why it is not accepted, in one line."""
        if self.accepted:
            return ""
        said = []
        if self.waiting:
            prompt, why = self.waiting
            said.append(f"{prompt} is not answered" + (f": {why}" if why else ""))
        said += [str(one) for one in self.best if not one.accepted and (one.status or not self.waiting)]
        said += [
            f"round {n}: {prompt} {status} ({why})" for n, prompt, status, why in self.failed if prompt != "classify"
        ]
        return "; ".join(said)

    def gain(self, prompt, key, judgement):
        """Note a reply that was used."""
        self.judgements[prompt, key] = judgement
        if judgement.status != "ok":
            self.failed.append((self.round, prompt, judgement.status, judgement.reason))

    def written(self, texts, whole):
        """Take over a draft.

        Parameters
        ----------
        texts : dict
            ``positive`` and ``adversarial``: five texts each.
        whole : bool
            True: all ten replace the draft. False: only what the check rejected is replaced (`merged`).
        """
        old = self.draft
        self.draft = merged(old, texts, self.round) if old and not whole else drafted(texts, self.round)
        self.tried += [one for one in self.draft if not any(one is before for before in old)]
        self.best = self.best or self.draft

    def settle(self):
        """After the check: keep the better of this draft and the best so far."""
        if sum(one.accepted for one in self.draft) >= sum(one.accepted for one in self.best):
            self.best = self.draft

    def row(self):
        """The row for the prompts that write: the context, and the draft with what the check found, if any."""
        row = {"pair_id": self.context.id, "context": self.context.turns}
        if self.draft:
            for slot, kind in (("positives", "positive"), ("adversarials", "adversarial")):
                row[slot] = tuple(one.text for one in self.draft if one.kind == kind)
            row["feedback"] = feedback(self.draft)
        return row

    def check_row(self, response):
        """The row for the prompt that checks one response."""
        pair_id = f"{self.context.id}/{response.kind[0]}{response.index}"
        return {"pair_id": pair_id, "context": self.context.turns, "response": response.text}

    def record(self):
        """The best draft as a line of ``augmented.jsonl``, read by `dre.data.augmented.join`."""
        by_kind = {kind: [one for one in self.best if one.kind == kind] for kind in EXPECTED}
        return {
            "id": self.context.id,
            "split": self.context.split,
            "context_sha256": context_sha256(self.context.turns),
            "positive_responses": [one.text for one in by_kind["positive"]],
            "adversarial_negative_responses": [one.text for one in by_kind["adversarial"]],
            "check": {kind: [one.label for one in found] for kind, found in by_kind.items()},
        }

    def augmented(self):
        """The context with the responses of the best draft."""
        texts = {kind: tuple(one.text for one in self.best if one.kind == kind) for kind in EXPECTED}
        return replace(self.context, positives=texts["positive"], adversarials=texts["adversarial"])


def drafted(texts, number):
    """Return ten responses of a round, not checked yet."""
    return [Response(kind, i, text, number) for kind in EXPECTED for i, text in enumerate(texts[kind])]


def merged(draft, texts, number):
    """Return the draft with its rejected responses replaced by new texts of a revision.

    What was accepted, or has no label yet, stays where it is, whatever the revision made of it. A text is new if it
    is none of the draft's (case and spacing aside). The new text at the same place goes first, then the others in
    order; where the revision has too few, the rejected response stays, with its label.
    """
    held = {_same(one.text) for one in draft}
    result = []
    for kind in EXPECTED:
        new = {i: text for i, text in enumerate(texts[kind]) if _same(text) not in held}
        old = [one for one in draft if one.kind == kind]
        chosen = {one.index: new.pop(one.index) for one in old if one.rejected and one.index in new}
        for one in old:
            if one.rejected and one.index not in chosen and new:
                chosen[one.index] = new.pop(min(new))
        held |= {_same(text) for text in chosen.values()}
        result += [Response(kind, one.index, chosen[one.index], number) if one.index in chosen else one for one in old]
    return result


def feedback(draft):
    """Return what the check found wrong with a draft, for the prompt ``refine``."""
    return " ".join(
        f"{one.kind.capitalize()} response {one.index + 1} was labelled {one.label}, expected {EXPECTED[one.kind]}."
        for one in draft
        if one.rejected
    )


def texts_of(judgement):
    """Return the texts of a reply that writes, or None if it gave none."""
    return json.loads(judgement.responses) if judgement.status == "ok" and judgement.responses else None


def _same(text):
    return " ".join(text.casefold().split())
