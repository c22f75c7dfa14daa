"""Judges: score pairs with a language model, pay for no reply twice, repeat what was recorded.

A pair goes through these modules, in this order: `prompts` makes its messages, `asking` and
`connection` make a call to one of `providers`, `store` commits the reply, `parse` reads its
verdict, and `judge` makes the table of all verdicts. `recorded` gives the same table without a
call.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dre.errors import DreError

if TYPE_CHECKING:
    import pandas as pd

    from dre.judges.prompts import Prompt


_RECORDED = "recorded:"  # how the name of a recording begins


class AnyJudge(Protocol):
    """What your own judge needs.

    Attributes
    ----------
    spec : str
        Its name.
    last : dre.judges.ask.Run
        What its last `score` did.
    """

    spec: str
    last: Any

    @property
    def signature(self) -> str:
        """All that decides its scores, in one line."""
        ...

    def score(
        self,
        pairs: "pd.DataFrame | list[dict]",
        prompt: "str | Path | Prompt" = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
        ask: bool = True,
        examples: dict[str, list] | None = None,
    ) -> "pd.DataFrame":
        """Return the table of `dre.judges.judge.frame`, with one row for each pair."""
        ...


def open(judge: str | Callable[..., float] | AnyJudge, /, **options: Any) -> AnyJudge:
    """Return a judge.

    Parameters
    ----------
    judge : str, function or AnyJudge
        ``<provider>:<model>``, with one of `dre.judges.providers`; ``recorded:<name>``, a folder of
        ``data/recorded``, the path of one, or one of `dre.judges.released.NAMES`; a function
        ``f(context, response)`` that returns a score; or your own judge.
    **options
        Those of `dre.judges.judge.Judge`. A recording takes ``repeat`` and ``repeats`` of them.

    Raises
    ------
    DreError
        If there is no such judge, or its options are wrong.
    """
    from dre.judges.judge import Judge
    from dre.judges.recorded import Function

    if not isinstance(judge, str):
        if options:
            raise DreError(f"{', '.join(options)}: options of a judge that is opened by its name")
        return Function(judge) if callable(judge) else judge  # type: ignore[return-value]
    if is_recording(judge):
        name = judge.removeprefix(_RECORDED)
        chosen = {key: options[key] for key in ("repeat", "repeats") if key in options}
        return _open_recording(name, chosen)
    return Judge(judge, **options)


def is_recording(spec: str) -> bool:
    """Tell by the name of a judge whether it is a recording, which nobody can ask anew."""
    return spec.startswith(_RECORDED)


def _open_recording(name, options):
    """Return a recording of this project's, of a folder, or of those that others released."""
    from dre.datasets import recordings
    from dre.judges import released
    from dre.judges.recorded import Recorded

    if recordings.exists(name):
        return Recorded(name, **options)
    released_name = released.name_of(name)
    if released_name is not None:
        return released.Released(released_name, **options)
    raise DreError(
        f"no recording {name!r}: there are {', '.join(recordings.names())}; from public data, "
        f"which are fetched once, {', '.join(released.NAMES)}; or give a folder with "
        "judgements.jsonl"
    )
