"""Judges that ask no model: a recording of a judge (`dre.datasets.recordings`), and a function."""

import functools
import hashlib
from collections.abc import Callable, Collection
from pathlib import Path

import pandas as pd

from dre.datasets import recordings
from dre.errors import DreError
from dre.judges import prices, prompts
from dre.judges.asking import Run
from dre.judges.judge import frame, rows_of
from dre.judges.parse import Unclear, Verdict, on_scale
from dre.judges.prompts import Prompt


class Recorded:
    """A judge that only repeats a recording and asks no model.

    Parameters
    ----------
    name : str
        A folder of ``data/recorded``, or the path of another one.
    repeat : int
        The index of the first reply to take of each pair.
    repeats : int
        How many replies to take of each pair; the score is their mean.

    Raises
    ------
    DreError
        If there is no such recording, or a line of it is not a `Judgement`.
    """

    price = prices.Price(0.0, 0.0, "a recording")
    max_usd = None

    def __init__(self, name: str, repeat: int = 0, repeats: int = 1):
        self.spec = f"recorded:{name}"
        self.repeat = repeat
        self.repeats = repeats
        self.last = Run()
        self._verdicts, sha256 = self._load(name)
        self.signature = f"{self.spec} repeat={repeat} repeats={repeats} sha256={sha256[:12]}"

    def _load(self, name):
        """Return the verdicts by prompt and repeat, then by pair id; and the sha256 of them."""
        self._folder = recordings.folder(name)
        return _verdicts_in(self._folder)

    @property
    def prompt_names(self) -> set[str]:
        """The prompts, of any repeat, that were recorded."""
        return {name for name, _ in self._verdicts}

    def knows(self, prompt_name: str) -> bool:
        """Return whether anything was recorded with a prompt."""
        return prompt_name in self.prompt_names

    def prompt(self, name_or_path: str | Path | Prompt) -> str | Prompt:
        """Return the prompt that is meant by a name or a path, or a prompt as it is.

        A recording may have prompts that are not built in; these are returned as their name.

        Raises
        ------
        DreError
            If there is no such prompt, or the recording was made with other words or another scale
            under this name.
        """
        recorded_names = self.prompt_names
        if isinstance(name_or_path, str) and name_or_path in recorded_names - set(prompts.names()):
            return name_or_path
        prompt = prompts.load(name_or_path)
        if prompt.name in recorded_names:
            recordings.check_hash(self._folder, prompt.name, prompt)
        return prompt

    def estimate(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
    ) -> str:
        """Say in words that nothing would be asked; raise `DreError` if a reply is not recorded."""
        self.score(pairs, prompt)
        return "0 calls to make: all is recorded"

    def score(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
        ask: bool = True,
        examples: dict[str, list] | None = None,
    ) -> pd.DataFrame:
        """Return the table of recorded verdicts, as `dre.judges.judge.Judge.score` does.

        Parameters
        ----------
        pairs, prompt, first, examples
            As for `Judge.score`; a recording takes no examples.
        retry
            Without effect: a recording has one reply for each repeat.
        ask : bool
            Whether a reply that is not recorded is an error. Otherwise its pair is ``missing``.

        Raises
        ------
        DreError
            If a reply is not recorded, or a prompt or a text is not the recorded one of its name.
        """
        if examples is not None:
            raise DreError(
                f"{self.spec} was shown no examples that could be chosen here: use a live judge"
            )
        rows = rows_of(pairs)
        loaded = self.prompt(prompt)
        name = loaded if isinstance(loaded, str) else loaded.name
        repeats = list(range(self.repeat + first, self.repeat + first + self.repeats))
        verdicts_by_repeat = [self._verdicts.get((name, repeat), {}) for repeat in repeats]
        outcomes = {}
        for row in rows:
            pair_id = row["pair_id"]
            verdicts = [by_pair[pair_id] for by_pair in verdicts_by_repeat if pair_id in by_pair]
            outcomes[pair_id] = [(verdict, 0.0) for verdict in verdicts]
        missing = [pair_id for pair_id, replies in outcomes.items() if len(replies) < self.repeats]
        if ask and missing:
            raise DreError(
                f"{self.spec} is a recording and knows only its own pairs, {self.known(name)}: it "
                f"lacks prompt {name}, repeats {repeats}, for {len(missing)} of {len(rows)} pairs, "
                f"first {missing[0]}. Score pairs that it knows, or name a judge that can be asked"
            )
        for row in rows:
            if outcomes[row["pair_id"]]:
                self._check_texts(row)
        return frame(outcomes)

    def known(self, prompt_name: str) -> str:
        """Say in words what was recorded with a prompt; if nothing, which prompts there are."""
        sets = set()
        for (name, _), verdicts in self._verdicts.items():
            if name == prompt_name:
                sets.update(pair_id.partition("/")[0] for pair_id in verdicts)
        if sets:
            return f"those of {', '.join(sorted(sets))}"
        prompt_names = ", ".join(sorted(self.prompt_names))
        return f"none with prompt {prompt_name} (it was asked with {prompt_names})"

    def _check_texts(self, row):
        """Raise `DreError` unless a pair has the texts that were recorded under its id."""
        recordings.check_hash(self._folder, row["pair_id"], row)


@functools.lru_cache(maxsize=4)
def _verdicts_in(folder):
    """Return the verdicts of a folder, and the sha256 of their file."""
    verdicts = {}
    for _, line in recordings.judgements(folder):
        of_repeat = verdicts.setdefault((line.prompt, line.repeat), {})
        of_repeat[line.pair_id] = Verdict(
            line.status, score_llm=line.score, s_inf=line.influence, label=line.label
        )
    content = (folder / "judgements.jsonl").read_bytes()
    return verdicts, hashlib.sha256(content).hexdigest()


class Function:
    """A judge that is a Python function.

    Parameters
    ----------
    f : callable
        ``f(context, response)`` returns a score on the prompt's scale; ``context`` is a tuple of
        turns, oldest first. A pair for which it raises is an ``error``, and a score off the scale
        is ``malformed``. Nothing is stored.
    """

    price = prices.Price(0.0, 0.0, "a function")
    max_usd = None
    repeats = 1

    def __init__(self, f: Callable[[tuple[str, ...], str], float]):
        self.f = f
        self.last = Run()
        name = getattr(f, "__qualname__", type(f).__qualname__)
        self.spec = f"function:{f.__module__}.{name}"
        self.signature = self.spec

    def score(
        self,
        pairs: pd.DataFrame | list[dict],
        prompt: str | Path | Prompt = "llm_only",
        retry: Collection[str] = (),
        first: int = 0,
        ask: bool = True,
        examples: dict[str, list] | None = None,
    ) -> pd.DataFrame:
        """Return the table of `dre.judges.judge.frame`: one row per pair.

        Raises `DreError` if the prompt asks for no score, or examples are given.
        """
        loaded = prompts.load(prompt)
        if loaded.kind != "score" or examples is not None:
            raise DreError(f"{self.spec}: expected a prompt that asks for a score, and no examples")
        rows = rows_of(pairs)
        outcomes = {}
        for row in rows:
            verdict = self._verdict(row, loaded)
            outcomes[row["pair_id"]] = [(verdict, 0.0)]
        return frame(outcomes)

    def _verdict(self, row: dict, prompt: Prompt) -> Verdict:
        """What the function gives one pair."""
        try:
            score = self.f(row["context"], row["response"])
            return Verdict("ok", score_llm=on_scale("score", score, prompt))
        except Unclear as unclear:
            return Verdict("malformed", reason=unclear.reason)
        except Exception as error:
            return Verdict("error", reason=repr(error))
