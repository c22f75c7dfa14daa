"""Contexts through the rounds of Algorithm 1 in lockstep, as far as the judgement store has the replies.

Every step of every round is one plan of a judge, so a walk that asks nothing shows where each context is and what it
lacks next, and a walk that asks resumes wherever an earlier one stopped.
"""

from typing import NamedTuple

from dre.augment.rounds import Item, texts_of
from dre.errors import DreError
from dre.judges import prompts
from dre.judges.judge import Judge
from dre.judges.plan import Plan

KINDS = {"generate": "generate", "refine": "generate", "classify": "label"}  # prompt -> kind of its replies
AGAIN = ("refine", "generate")


class Step(NamedTuple):
    """One prompt in one round, for all contexts that need it."""

    round: int
    prompt: str
    judge: Judge
    plan: Plan


class Walk:
    """Contexts on their way.

    Parameters
    ----------
    contexts, judge, checker, max_rounds, again, wording
        See `dre.augment.generate`.

    Attributes
    ----------
    items : list of dre.augment.rounds.Item
        One a context, in order.
    steps : list of Step
    """

    def __init__(self, contexts, judge, checker=None, max_rounds=3, again="refine", wording=None):
        self.judge, self.checker = judge, checker or judge
        for one in (self.judge, self.checker):
            if not isinstance(one, Judge) or one.mode != "single":
                raise DreError(f"judge {one!r}: expected one that can be asked, one reply a prompt: judges.open(...)")
        if isinstance(max_rounds, bool) or not isinstance(max_rounds, int) or max_rounds < 1:
            raise DreError(f"max_rounds is {max_rounds!r}, expected 1, 2, 3, ...")
        if again not in AGAIN:
            raise DreError(f"again is {again!r}, expected {' or '.join(AGAIN)}")
        self.max_rounds, self.again = max_rounds, again
        self.prompts = {name: _prompt(name, wording or {}) for name in KINDS}
        self.items = items(contexts)
        self.steps = []

    def go(self, ask=lambda step: {}):
        """Walk through all rounds; returns the items.

        Parameters
        ----------
        ask : callable
            Given a `Step` whose plan lacks replies, may complete the plan; returns why calls failed, by key. A context
            whose reply is not there afterwards waits: later steps go on without it.
        """
        for number in range(1, self.max_rounds + 1):
            for item in self._open():
                item.round = number
            whole = self.again == "generate"
            fresh = [item for item in self._open() if not item.draft or (whole and item.rejected)]
            revised = [item for item in self._open() if item.rejected and not whole]
            for prompt, group in (("generate", fresh), ("refine", revised)):
                tasks = [(item, item.row(), number - 1, _writing(item, prompt)) for item in group]
                self._step(number, prompt, self.judge, tasks, ask)
            tasks = [
                (item, item.check_row(one), one.checks, _checking(one))
                for item in self._open()
                for one in item.unchecked
            ]
            self._step(number, "classify", self.checker, tasks, ask)
            for item in self.items:
                item.settle()
        return self.items

    def restart(self):
        """Put all contexts back at the start; what is stored is found again."""
        self.items, self.steps = items(item.context for item in self.items), []

    def _open(self):
        return [item for item in self.items if not item.accepted and item.waiting is None]

    def _step(self, number, prompt, judge, tasks, ask):
        """Plan one step, have it asked, and hand each reply to its context."""
        if not tasks:
            return
        of, rows, firsts, takers = zip(*tasks)
        plan = judge.plan(list(rows), self.prompts[prompt], firsts=firsts)
        step = Step(number, prompt, judge, plan)
        self.steps.append(step)
        errors = ask(step) if plan.missing else {}
        for index, (item, take) in enumerate(zip(of, takers)):
            (key,) = plan.keys(index)
            judgement = plan.judgements.get(key)
            if judgement is None:
                item.waiting = (prompt, errors.get(key, ""))
            else:
                item.gain(prompt, key, judgement)
                take(judgement)


def items(contexts):
    """Return an `Item` for each context; refuse an id that stands there twice."""
    found = [Item(context) for context in contexts]
    seen = set()
    for item in found:
        if item.context.id in seen:
            raise DreError(f"two contexts have the id {item.context.id!r}: responses are kept by id, make it unique")
        seen.add(item.context.id)
    if not found:
        raise DreError("there are no contexts: give at least one")
    return found


def _prompt(name, wording):
    if unknown := sorted(wording.keys() - KINDS.keys()):
        raise DreError(f"no prompt {unknown[0]!r} is used here, only {', '.join(KINDS)}")
    prompt = prompts.load(wording.get(name, name))
    if prompt.kind != KINDS[name]:
        raise DreError(f"prompt {prompt.name} is of kind {prompt.kind}, expected {KINDS[name]} for {name}")
    return prompt


def _writing(item, prompt):
    def take(judgement):
        texts = texts_of(judgement)
        if texts:
            item.written(texts, whole=prompt == "generate")

    return take


def _checking(response):
    return lambda judgement: response.checked(judgement.label, judgement.status, judgement.reason)
