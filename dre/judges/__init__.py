"""Judges: score pairs with any language model, pay for no reply twice, replay what was recorded.

A pair goes through `prompts` (messages), `providers` (a call), `store` (the reply, committed), `parse` (its verdict)
and `judge` (the table); `recorded` gives the same table without a call.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dre.errors import DreError

if TYPE_CHECKING:
    import pandas as pd

    from dre.judges.prompts import Prompt


class AnyJudge(Protocol):
    """What a judge of one's own needs: who it is, and what its last `score` did."""

    spec: str
    last: Any  # `dre.judges.asking.Run`

    @property
    def signature(self) -> str:
        """All that decides its scores, in one line."""

    def score(
        self,
        pairs: "pd.DataFrame | list[dict]",
        prompt: "str | Path | Prompt" = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
        ask: bool = True,
        examples: dict[str, list] | None = None,
    ) -> "pd.DataFrame":
        """Return the table of `dre.judges.judge.frame`: one row per pair."""


def open_judge(judge: str | Callable[..., float] | AnyJudge, /, **options: Any) -> AnyJudge:
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


#: The same under its earlier name, which notebooks and users write as ``judges.open(...)``.
open = open_judge
