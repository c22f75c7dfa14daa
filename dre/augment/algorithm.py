"""Algorithm 1 with a live judge, and what a file of its responses says."""

import copy
import math
from dataclasses import replace

from dre.augment.result import Result
from dre.augment.rounds import COUNT, EXPECTED
from dre.augment.walk import Walk, items
from dre.data import parse
from dre.data.augmented import context_sha256
from dre.errors import DreError


def generate(contexts, judge, max_rounds=3, checker=None, max_usd=None, again="refine", wording=None, progress=None):
    """Write five positive and five adversarial negative responses to each context (Algorithm 1).

    A round is LLM-Generate (prompt ``generate``) and LLM-Check (prompt ``classify``, one call a response, which sees
    the context and that response only). A context is accepted when the check calls all five positives ``Positive`` and
    all five adversarials ``Negative``; otherwise another round follows, up to ``max_rounds``.

    Algorithm 1 as printed calls LLM-Generate(d) anew in each round, which drops the responses that passed. The text
    beside it (DRE section 4.1) names self-refine, and so does the default here: from round 2 on the prompt ``refine``
    is given the draft with what the check found, and only rejected responses are replaced; accepted ones are kept and
    not checked again. ``again="generate"`` is Algorithm 1 to the letter.

    A reply that is malformed, refused, truncated or empty uses up its round and is counted; a response whose check gave
    no label is checked again in the next round. Everything is kept in the judge's store: run the same call again after
    a kill, and only what is missing is asked.

    Parameters
    ----------
    contexts : iterable of dre.data.records.Context
        Their ``id`` must be unique. Responses they have are not looked at.
    judge : dre.judges.judge.Judge
        Writes, and checks unless there is a ``checker``.
    max_rounds : int
    checker : dre.judges.judge.Judge, optional
        Another model for the check.
    max_usd : float, optional
        The most dollars this call may spend, over all rounds and prompts. None: that of ``judge``.
    again : {"refine", "generate"}
    wording : dict, optional
        ``generate``, ``refine`` or ``classify`` -> a template file to use instead of the built-in prompt.
    progress : callable, optional
        Given (round, prompt, calls, judge), returns what is called with the runner's `Outcome` after every change.
        None: a bar on a terminal.

    Returns
    -------
    dre.augment.result.Result

    Raises
    ------
    DreError
        If the judge cannot be asked at all, or a ceiling cannot be kept because no price is known.
    """
    walk = Walk(contexts, judge, checker, max_rounds, again, wording)
    asking = Asking(judge.max_usd if max_usd is None else max_usd, progress or bar)
    return Result(walk.go(asking), asking.stopped, asking.spent)


class Asking:
    """Asks for what a step lacks, under one ceiling for all steps."""

    def __init__(self, max_usd=None, progress=None):
        self.max_usd, self.progress = math.inf if max_usd is None else max_usd, progress
        self.spent, self.stopped = 0.0, ""
        self.calls = self.retries = 0

    def __call__(self, step):
        """Run a step; returns why calls failed, by key."""
        if self.stopped:
            return {}
        judge = copy.copy(step.judge)
        judge.max_usd = None if self.max_usd == math.inf else self.max_usd - self.spent
        shown = self.progress(step.round, step.prompt, len(step.plan.missing), judge)
        outcome = judge.run(step.plan, shown)
        self.spent, self.stopped = self.spent + outcome.spent, outcome.stopped
        self.calls, self.retries = self.calls + outcome.calls, self.retries + outcome.retries
        return outcome.errors


def bar(number, prompt, calls, judge, disable=None):
    """Return the progress bar of a step."""
    from dre.judges.progress import Bar

    return Bar(calls, judge.price is not None, disable, f"round {number}, {prompt}")


def load(path, contexts):
    """Read responses that `Result.save` wrote, or recorded ones of the same form, with the labels they got.

    Parameters
    ----------
    path : path
        ``id, split, context_sha256, positive_responses, adversarial_negative_responses, check`` a line.
    contexts : iterable of dre.data.records.Context
        Those the ids name, and more if you like.

    Returns
    -------
    Result
        A round as any other: a context is accepted if all its labels are right, else rejected.

    Raises
    ------
    DreError
        An unknown id, another text of a context, or a line without five and five responses and labels.
    """
    known = {context.id: context for context in contexts}
    read = []
    for where, record in parse.read_jsonl(path):
        id = parse.field(record, "id", str, where)
        if id not in known:
            raise DreError(f"{where}: none of the contexts given has the id {id!r}")
        if context_sha256(known[id].turns) != parse.field(record, "context_sha256", str, where):
            raise DreError(f"{where}: context {id} has another text than these responses were written for")
        read.append((where, record, replace(known[id], split=parse.field(record, "split", str, where))))
    found = items(context for _, _, context in read)
    for item, (where, record, _) in zip(found, read):
        take(item, record, where)
    return Result(found)


def take(item, record, where):
    """Give an item the responses and labels of a line, as its round 1."""
    fields = {"positive": "positive_responses", "adversarial": "adversarial_negative_responses"}
    texts = {kind: parse.texts(record, field, where, COUNT) for kind, field in fields.items()}
    check = parse.field(record, "check", dict, where)
    labels = {kind: parse.field(check, kind, list, where) for kind in EXPECTED}
    known = (*EXPECTED.values(), None)
    if any(
        len(texts[k]) != COUNT or len(labels[k]) != COUNT or not all(x in known for x in labels[k]) for k in EXPECTED
    ):
        raise DreError(f"{where}: expected {COUNT} responses of each kind, each labelled Positive, Negative or null")
    item.round = 1
    item.written(texts, whole=True)
    for one in item.draft:
        if labels[one.kind][one.index] is not None:
            one.checked(labels[one.kind][one.index])
    item.settle()


def recorded(name="claude-2026-11"):
    """Return the recorded responses of a run as a `Result`: round 1 of Algorithm 1, with the labels of a blind check.

    Needs ConvAI2 and Topical-Chat (`dre data fetch`).
    """
    from dre.data import sets
    from dre.data.augmented import CONTEXTS
    from dre.data.recorded import RECORDED

    return load(RECORDED / name / "augmented.jsonl", [one for pool in CONTEXTS.values() for one in sets.contexts(pool)])
