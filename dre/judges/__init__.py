"""Judges: score pairs with any language model, pay for no reply twice, replay what was recorded.

A pair goes through `prompts` (messages), `providers` (a call), `store` (the reply, committed), `parse` (its verdict)
and `judge` (the table); `recorded` gives the same table without a call.
"""

from typing import Any, Protocol

from dre.errors import DreError


class AnyJudge(Protocol):
    """What a judge of one's own needs: who it is, all that decides its scores, and what its last `score` did."""

    spec: str
    signature: str
    last: Any  # `dre.judges.asking.Run`

    def score(self, pairs, prompt="llm_only", retry=(), first=0, ask=True, examples=None):
        """Return the table of `dre.judges.judge.frame`: one row per pair."""


def open(judge, /, **options):
    """Return a judge.

    `judge` is ``openai:<model>``, ``anthropic:<model>``, ``gemini:<model>``, ``ollama:<model>``, ``recorded:<name>`` (a
    folder of ``data/recorded``, or the path of one), a function ``f(context, response) -> score``, or an `AnyJudge`.
    Options are those of `dre.judges.judge.Judge`; a recording takes ``repeat`` and ``repeats`` of them. DreError if
    there is no such judge, or no price for a ceiling.
    """
    from dre.judges.judge import Judge
    from dre.judges.recorded import Function, Recorded

    if not isinstance(judge, str):
        if options:
            raise DreError(f"{', '.join(options)}: options of a judge that is opened by its name")
        return Function(judge) if callable(judge) else judge
    if judge.startswith("recorded:"):
        taken = {name: options[name] for name in ("repeat", "repeats") if name in options}
        return Recorded(judge.removeprefix("recorded:"), **taken)
    return Judge(judge, **options)
