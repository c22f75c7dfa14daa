"""What a run needs and what is stored of it already."""

import functools
import gc
from dataclasses import dataclass, field

from dre.judges import verdicts
from dre.judges.settings import Setting, canonical, messages_sha256


def uncollected(function):
    """Run a function with the garbage collector off.

    Making a few hundred thousand small objects has it walk through all of them again and again, in vain.
    """

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        on = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if on:
                gc.enable()

    return wrapped


@dataclass(slots=True)
class Task:
    """A judgement to be asked for; ``created`` is that of the stored one it replaces, if any."""

    pair_id: str
    row: dict
    messages: list
    created: str | None = None


@dataclass
class Plan:
    """The judgements of some pairs in one setting.

    Attributes
    ----------
    setting : dre.judges.settings.Setting
    firsts : list of int
        The repeat index of each row's first reply; empty where all are 0.
    hashes : list of str
        The sha256 of each row's rendered messages.
    judgements : dict
        ``{(messages_sha256, repeat): Judgement}`` of what is stored.
    missing : dict
        ``{(messages_sha256, repeat): Task}`` of what is to be asked.
    """

    prompt: object
    setting: Setting
    params: dict
    rows: list
    repeats: int
    firsts: list = field(default_factory=list)
    hashes: list = field(default_factory=list)
    judgements: dict = field(default_factory=dict)
    missing: dict = field(default_factory=dict)

    def keys(self, row):
        """Return the keys of the replies to the row of an index."""
        first = self.firsts[row] if self.firsts else 0
        return [(self.hashes[row], repeat) for repeat in range(first, first + self.repeats)]

    def complete(self, judgements):
        """Take over judgements that have been gained."""
        for key, judgement in judgements.items():
            task = self.missing.pop(key)
            self.judgements[key] = verdicts.current(self.prompt, judgement, task.row)


@uncollected
def make(rows, prompt, provider, params, repeats, store, retry=(), firsts=()):
    """Render all prompts and look them up in the store.

    Parameters
    ----------
    retry : collection of str
        Stored judgements of these statuses are to be asked again.
    firsts : sequence of int
        The repeat index of each row's first reply: another index asks for another reply to the same prompt.

    Returns
    -------
    Plan
        Pairs whose rendered prompts are the same share a judgement.
    """
    setting = Setting(provider.name, provider.base_url, provider.model, prompt.name, prompt.sha256, canonical(params))
    plan = Plan(prompt, setting, params, rows, repeats, list(firsts))
    stored = store.judgements(setting)
    for index, row in enumerate(rows):
        messages = prompt.render(row)
        plan.hashes.append(messages_sha256(messages))
        for key in plan.keys(index):
            if key in plan.judgements or key in plan.missing:
                continue
            judgement = stored.get(key)
            if judgement is not None:
                judgement = verdicts.current(prompt, judgement, row)
                if judgement.status not in retry:
                    plan.judgements[key] = judgement
                    continue
            created = judgement and judgement.created
            plan.missing[key] = Task(row["pair_id"], row, messages, created)
    return plan
