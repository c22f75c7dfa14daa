"""Judges that ask no model: a recording of a judge (`dre.datasets.recordings`), and a function."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from dre.datasets import recordings
from dre.errors import DreError
from dre.judges import prompts
from dre.judges.ask import Run
from dre.judges.judge import frame, rows_of
from dre.judges.parse import Verdict


class Recorded:
    """A judge that only repeats a recording and asks no model.

    Parameters
    ----------
    name : str
        A folder of ``data/recorded``, or the path of another one.
    repeat, repeats : int
        The first reply to take of each pair, and how many; the score is their mean.
    """

    price = None

    def __init__(self, name: str, repeat: int = 0, repeats: int = 1):
        self.spec = f"recorded:{name}"
        self.repeat = repeat
        self.repeats = repeats
        self.last = Run()
        self._verdicts, sha256 = self._load(name)
        self.prompt_names = {prompt for prompt, _ in self._verdicts}
        self.signature = f"{self.spec} repeat={repeat} repeats={repeats} sha256={sha256[:12]}"

    def _load(self, name):
        """Return the verdicts by prompt and repeat, then by pair id; and the sha256 of them."""
        self._folder = recordings.folder(name)
        return _verdicts_in(self._folder)

    def _check(self, name, prompt_or_row):
        """Raise `DreError` unless a prompt or a text is what was recorded under a name."""
        recordings.check_hash(self._folder, name, prompt_or_row)

    def knows(self, prompt_name: str) -> bool:
        """Return whether anything was recorded with a prompt."""
        return prompt_name in self.prompt_names

    def prompt_name(self, prompt: Any) -> str:
        """Return the name of a prompt in the recording; `DreError` if it has other words there."""
        if isinstance(prompt, str) and prompt not in prompts.names():
            return prompt
        loaded = prompts.load(prompt)
        if loaded.name in self.prompt_names:
            self._check(loaded.name, loaded)
        return loaded.name

    def estimate(self, pairs: Any, prompt: Any = "llm_only", retry: Any = ()) -> str:
        """Say that nothing would be asked; raise `DreError` if a reply is not recorded."""
        self.score(pairs, prompt)
        return "0 calls to make: all is recorded"

    def score(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: Any = "llm_only",
        retry: Any = (),
        first: int = 0,
        ask: bool = True,
        examples: Any = None,
    ) -> pd.DataFrame:
        """Return the table of recorded verdicts, as `dre.judges.judge.Judge.score` does.

        Without `ask` a pair that is not recorded is ``missing``, and else a `DreError`.
        """
        if examples is not None:
            raise DreError(f"{self.spec} was shown no examples: ask a live judge")
        name = self.prompt_name(prompt)
        start = self.repeat + first
        by_repeat = [
            self._verdicts.get((name, repeat), {}) for repeat in range(start, start + self.repeats)
        ]
        outcomes = {}
        for row in rows_of(pairs):
            pair_id = row["pair_id"]
            verdicts = [verdicts[pair_id] for verdicts in by_repeat if pair_id in verdicts]
            if verdicts:
                self._check(pair_id, row)
            elif ask:
                raise DreError(
                    f"{self.spec} is a recording and does not know pair {pair_id} with prompt "
                    f"{name} (it has {', '.join(sorted(self.prompt_names))}): ask a live judge"
                )
            outcomes[pair_id] = [(verdict, 0.0) for verdict in verdicts]
        return frame(outcomes)


@functools.lru_cache(maxsize=4)
def _verdicts_in(folder):
    """Return the verdicts of a folder, and the sha256 of their file."""
    verdicts = {}
    lines, sha256 = recordings.judgements(folder)
    for line in lines:
        of_repeat = verdicts.setdefault((line["prompt"], line.get("repeat", 0)), {})
        of_repeat[line["pair_id"]] = Verdict(
            line.get("status", "ok"), line.get("score"), line.get("influence"), line.get("label")
        )
    return verdicts, sha256


class Function:
    """A judge that is a Python function: ``f(context, response)`` returns a score.

    A pair for which it raises is an ``error``. Nothing is stored.
    """

    price = None
    repeats = 1

    def __init__(self, f: Callable[[tuple[str, ...], str], float]):
        self.f = f
        self.last = Run()
        self.spec = self.signature = f"function:{f.__module__}.{getattr(f, '__qualname__', f)}"

    def score(self, pairs: Any, prompt: Any = "llm_only", **_: Any) -> pd.DataFrame:
        """Return the table of `dre.judges.judge.frame`: one row per pair."""
        low, high = prompts.load(prompt).scale or (-np.inf, np.inf)
        outcomes = {}
        for row in rows_of(pairs):
            try:
                score = float(self.f(row["context"], row["response"]))
                verdict = Verdict("ok", score)
                if not low <= score <= high:
                    verdict = Verdict("malformed", reason=f"{score:g} is off {low:g}-{high:g}")
            except Exception as error:
                verdict = Verdict("error", reason=repr(error))
            outcomes[row["pair_id"]] = [(verdict, 0.0)]
        return frame(outcomes)
