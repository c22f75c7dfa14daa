"""Judges that ask no model: a recording of a judge, and a Python function.

A recording is a folder with two files. ``manifest.json`` has, under ``prompts``, a key for each
prompt that was asked, and may say under ``judgements`` how many lines the other file has.
``judgements.jsonl`` has one judgement a line:

- ``pair_id`` and ``prompt``: what was judged, and the name of the prompt,
- ``repeat``: which of several replies to the same prompt this is (default 0),
- ``score`` (0 to 5), ``label`` (Positive or Negative) and ``influence`` (0 to 1), or in their place
  ``status``, why there is none,
- ``shown``: whose numbers of a small model the judge was shown, if another pair's.

`dre.datasets.recordings` checks that the prompts and texts are those that were recorded.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from dre.datasets import readers, recordings
from dre.errors import DreError
from dre.judges import prices, prompts
from dre.judges.asking import Run
from dre.judges.judge import AGAIN, frame, rows_of
from dre.judges.parse import Unclear, Verdict, on_scale
from dre.judges.prompts import Prompt

_HIGHEST = {"score": 5, "influence": 1}
_LABELS = ("Positive", "Negative")


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
        If there is no such recording, or a line of it is not as the module's description says.
    """

    price = prices.Price(0.0, 0.0, "a recording")
    max_usd = None

    def __init__(self, name: str, repeat: int = 0, repeats: int = 1):
        self.spec = f"recorded:{name}"
        self.repeat = repeat
        self.repeats = repeats
        self.last = Run()
        self._folder = recordings.folder(name)
        recording = _load(self._folder)
        self._verdicts = recording.verdicts
        sha256 = recording.sha256[:12]
        self.signature = f"{self.spec} repeat={repeat} repeats={repeats} sha256={sha256}"

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

        verdicts_by_pair = {}
        for row in rows:
            pair_id = row["pair_id"]
            verdicts_by_pair[pair_id] = [
                verdicts[pair_id] for verdicts in verdicts_by_repeat if pair_id in verdicts
            ]

        missing = [
            pair_id
            for pair_id, verdicts in verdicts_by_pair.items()
            if len(verdicts) < self.repeats
        ]
        if ask and missing:
            raise DreError(
                f"{self.spec} is a recording and knows only its own pairs, {self.known(name)}: it "
                f"lacks prompt {name}, repeats {repeats}, for {len(missing)} of {len(rows)} pairs, "
                f"first {missing[0]}. Score pairs that it knows, or name a judge that can be asked"
            )
        for row in rows:
            if verdicts_by_pair[row["pair_id"]]:
                self._check_texts(row)
        outcomes: dict[str, list[tuple[Verdict, float | None]]] = {
            pair_id: [(verdict, 0.0) for verdict in verdicts]
            for pair_id, verdicts in verdicts_by_pair.items()
        }
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


class _Recording(NamedTuple):
    """The verdicts by prompt and repeat, then by pair id; and the sha256 of their file."""

    verdicts: dict[tuple[str, int], dict[str, Verdict]]
    sha256: str


@functools.lru_cache(maxsize=4)
def _load(folder):
    """The `_Recording` of a folder."""
    path = folder / "judgements.jsonl"
    manifest = _load_manifest(folder / "manifest.json")
    verdicts: dict[tuple[str, int], dict[str, Verdict]] = {}
    pairs_shown = []
    for line, record in readers.records(path):
        location = f"{path}:{line}"
        record = record if isinstance(record, dict) else {}
        prompt, repeat, pair_id = _key_of(record, manifest, location)
        verdicts_of_repeat = verdicts.setdefault((prompt, repeat), {})
        if pair_id in verdicts_of_repeat:
            raise DreError(
                f"{location}: expected a prompt of the manifest and a pair_id, once a repeat; "
                f"{pair_id} is there twice"
            )
        verdicts_of_repeat[pair_id] = _verdict_of(record, location)
        if "shown" in record:
            pairs_shown.append((location, record["shown"], pair_id, verdicts_of_repeat))

    # Whose numbers were shown is only known when all lines are.
    for location, other_id, pair_id, verdicts_of_repeat in pairs_shown:
        is_recorded = isinstance(other_id, str) and other_id in verdicts_of_repeat
        if not is_recorded or other_id.partition("/")[0] != pair_id.partition("/")[0]:
            raise DreError(
                f"{location}: shown is {other_id!r:.60}, expected a pair of the same set that was "
                "judged by this prompt, too"
            )

    n_judgements = sum(len(verdicts_of_repeat) for verdicts_of_repeat in verdicts.values())
    n_expected = manifest.get("judgements", n_judgements)
    if n_judgements != n_expected:
        raise DreError(
            f"{path}: found {n_judgements:,} judgements, but its manifest says "
            f"{_number_in_words(n_expected)}: get the file again"
        )
    return _Recording(verdicts, hashlib.sha256(path.read_bytes()).hexdigest())


def _load_manifest(path):
    """The manifest of a recording as a dict, whose ``prompts`` are a dict too."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise DreError(
            f"{path}: there is no such file, or it cannot be opened; a recording needs it: "
            "get the recording again"
        ) from None
    except ValueError as error:  # also another encoding
        raise DreError(f"{path}: expected JSON in UTF-8 ({error}): get the file again") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("prompts"), dict):
        raise DreError(
            f'{path}: expected an object with a key "prompts", which has a key for each prompt: '
            "get the file again"
        )
    return manifest


def _key_of(record, manifest, location) -> tuple[str, int, str]:
    """The prompt, the repeat and the pair id of a line."""
    prompt = record.get("prompt")
    pair_id = record.get("pair_id")
    is_known = isinstance(prompt, str) and prompt in manifest["prompts"]
    if not is_known or not isinstance(pair_id, str):
        raise DreError(
            f"{location}: expected a prompt of the manifest and a pair_id, once a repeat; "
            f"found prompt {prompt!r:.60} and pair_id {pair_id!r:.60}"
        )
    repeat = record.get("repeat", 0)
    if not isinstance(repeat, int) or isinstance(repeat, bool) or repeat < 0:
        raise DreError(f"{location}: repeat is {repeat!r:.60}, expected a whole number from 0 on")
    return prompt, repeat, pair_id


def _verdict_of(record, location):
    """The verdict of a line: what was given, or why nothing was."""
    for field, highest in _HIGHEST.items():
        number = record.get(field, 0)
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not 0 <= number <= highest:
            raise DreError(
                f"{location}: {field} is {number!r:.60}, expected a number from 0 to {highest}"
            )
    label = record.get("label")
    if label is not None and label not in _LABELS:
        raise DreError(f"{location}: label is {label!r:.60}, expected {' or '.join(_LABELS)}")

    has_verdict = "score" in record or label is not None
    if "status" not in record and not has_verdict:
        raise DreError(
            f"{location}: expected a score, a label, or a status that says why there is none"
        )
    status = record.get("status", "ok")
    if status not in ("ok", *AGAIN):
        raise DreError(f"{location}: status is {status!r:.60}, expected one of {', '.join(AGAIN)}")
    if (status == "ok") != has_verdict:
        raise DreError(
            f"{location}: expected either a score or a label, or a status that says why there is "
            "none; "
            f"status is {status!r}, and there is {'one' if has_verdict else 'neither'}"
        )
    return Verdict(
        status,
        score_llm=record.get("score"),
        s_inf=record.get("influence"),
        label=label,
    )


def _number_in_words(number):
    """A count as it is written in a message, whatever a file has in its place."""
    return f"{number:,}" if isinstance(number, int) else repr(number)


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
        outcomes: dict[str, list[tuple[Verdict, float | None]]] = {
            row["pair_id"]: [(self._verdict(row, loaded), 0.0)] for row in rows_of(pairs)
        }
        return frame(outcomes)

    def _verdict(self, row: dict[str, Any], prompt: Prompt) -> Verdict:
        """What the function gives one pair."""
        try:
            score = self.f(row["context"], row["response"])
            return Verdict("ok", score_llm=on_scale("score", score, prompt))
        except Unclear as unclear:
            return Verdict("malformed", reason=unclear.reason)
        except Exception as error:
            return Verdict("error", reason=repr(error))
