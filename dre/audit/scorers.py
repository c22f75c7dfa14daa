"""What gives pairs a score, to be audited: a judge, one of our metrics, a function, or a file."""

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dre import metrics
from dre.datasets import readers, recordings
from dre.datasets.registry import read_jsonl
from dre.errors import DreError
from dre.judges import AnyJudge, is_recording, prompts
from dre.progress import Progress

_BLOCK = 32  # pairs that are scored before it may be said how far the audit is
METHODS = (*metrics.BY_NAME, "cosine", "slm")


def by_method(
    name: str, pairs: pd.DataFrame, slm: str | None = None, progress: bool = False
) -> tuple[pd.Series, str]:
    """Score pairs by one of `METHODS`.

    They are those of `dre.metrics.BY_NAME`, and two that need a model. ``cosine``: of context and
    response, by the encoder before any training. ``slm``: a small model, by default the one that
    comes with the package. With ``progress`` it is printed how far the work is.

    Returns
    -------
    scores : Series
        By pair id.
    name : str
        What made them.
    """
    if name not in METHODS:
        names = ", ".join(METHODS).replace("slm", "small")
        raise DreError(f"method is {name!r}: expected one of {names}")
    if slm and name != "slm":
        raise DreError(f"method is {name!r}: leave --slm out")
    if name in metrics.BY_NAME:
        metric = metrics.BY_NAME[name]
        return _by_pair_id(pairs, metric.score(pairs)), metric.shown_as

    # Only these two need the packages of the extra `slm`.
    from dre.slm.model import SLM
    from dre.slm.provenance import find_slm

    if name == "cosine":
        untrained = SLM.untrained()
        distances = _in_blocks(
            pairs, lambda block: untrained.distances(block)["distance"], progress
        )
        return _by_pair_id(pairs, -distances), "cosine, untrained encoder"
    model = SLM.load(find_slm(slm))
    scores = _in_blocks(pairs, lambda block: model.score(block)["score_slm"], progress)
    return _by_pair_id(pairs, scores), f"slm:{model.provenance.get('name', slm)}"


def _in_blocks(pairs, score, progress):
    """Return the scores of pairs that a function gives block by block; may say how far it is."""
    scores = []
    with Progress(len(pairs), "pairs", is_silent=not progress) as bar:
        for first in range(0, len(pairs), _BLOCK):
            block = pairs.iloc[first : first + _BLOCK]
            scores.append(np.asarray(score(block), float))
            bar.update(len(block))
    return np.concatenate(scores)


def by_function(name: str, pairs: pd.DataFrame, progress: bool = False) -> tuple[pd.Series, str]:
    """Score pairs by a function of the user's.

    Parameters
    ----------
    name : str
        ``module:function``, of a module that can be imported from the current folder. The function
        takes a context (a tuple of turns) and a response (a text) and returns a number.
    pairs : DataFrame
        ``pair_id, context, response``.
    progress : bool
        Whether to print how far the work is.

    Raises
    ------
    DreError
        Without such a function; or where it raises or returns no number: the message names the
        pair, and the line of the user's code.
    """
    function = _import_function(name)
    scores = _in_blocks(pairs, lambda block: _scores_of_function(function, name, block), progress)
    return _by_pair_id(pairs, scores), f"metric:{name}"


def _scores_of_function(function, name, pairs):
    """Return what a function of the user's gives each pair."""
    scores = []
    for pair_id, context, response in zip(pairs["pair_id"], pairs["context"], pairs["response"]):
        pair = f"for pair {pair_id} (response {response!r:.80})"
        try:
            score = function(context, response)
        except (Exception, SystemExit) as error:  # any kind: the code is the user's
            line = _line_of_user_code(error)
            raise DreError(
                f"{name} raised {type(error).__name__}: {error} {pair}{line}: "
                "expected a number for every context (turns) and response"
            ) from error
        try:
            scores.append(float(score))
        except (Exception, SystemExit):  # of the user's own kinds of numbers, too
            raise DreError(
                f"{name} returned {_beginning(score)} {pair}: expected a number"
            ) from None
    return scores


def _beginning(value):
    """Return how a value of the user's code is written, as far as it goes into a sentence."""
    try:
        return f"{value!r:.60}"
    except (Exception, SystemExit):  # an integer of thousands of digits has no text, for one
        return f"something of type {type(value).__name__}"


def _import_function(name: str) -> Callable[..., float]:
    """Return the function that ``module:function`` names."""
    module, _, function = name.partition(":")
    sys.path.insert(0, "")  # the folder that the user is in
    try:
        return getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # any kind: the module is the user's
        reason = str(error)
        if not isinstance(error, ImportError | AttributeError | ValueError):
            reason = f"{type(error).__name__}: {error}"
        raise DreError(
            f"no metric {name!r} ({reason}): "
            "expected module:function, of a module that can be imported here"
        ) from None
    finally:
        sys.path.remove("")


def _line_of_user_code(error: BaseException) -> str:
    """Return ", in FILE, line N: CODE" of the user's code, "" if it is not written in Python."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first is our call
    if not frames:
        return ""
    # The function may have called a library: its own file's last line is what the user can mend.
    frame = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f", in {frame.filename}, line {frame.lineno}: {frame.line}"


def by_file(path: str | Path, pairs: pd.DataFrame) -> tuple[pd.Series, str]:
    """Take scores of pairs from a file with ``id`` (or ``pair_id``) and ``score``."""
    table = readers.scores(path, ("id", "pair_id"))
    ids = table["id"]
    doubled = list(ids[ids.duplicated()])
    if doubled:
        raise DreError(
            f"{path}: {len(doubled):,} ids stand there more than once, first {doubled[0]!r}: "
            "expected one score for each pair"
        )
    score_by_id = dict(zip(table["id"], table["score"]))
    scores = pd.Series(pairs["pair_id"]).map(score_by_id)
    if scores.isna().all():
        raise DreError(
            f"{path} has no score of a pair of this audit: "
            "score the pairs that --write FILE gives, and keep their ids"
        )
    return _by_pair_id(pairs, scores), f"scores:{path}"


def by_judge(
    judge: AnyJudge, pairs: pd.DataFrame, prompt: str = "llm_only", public: bool = False
) -> tuple[pd.Series, str]:
    """Ask a judge; a recorded one answers for texts that it was shown, and gives NaN for others.

    ``public``: whether there are pairs of `dre.audit.kinds.graded`.
    """
    if not is_recording(judge.spec):
        table = judge.score(pairs, prompt)
        return _by_pair_id(pairs, table["score_llm"]), judge.signature

    # A recording is looked up by its texts: its pairs may have had other ids.
    name = judge.spec.removeprefix("recorded:")
    if not recordings.exists(name):
        raise DreError(f"{judge.spec} knows no pair of the audit: name a judge that can be asked")
    folder = recordings.folder(name)
    loaded = prompts.load(prompt)
    recordings.check_hash(folder, loaded.name, loaded)
    path = folder / "audit.jsonl"
    records = [*read_jsonl(path)] if path.is_file() else []
    records = [record for record in records if record["prompt"] == loaded.name]
    if public and loaded.name == "llm_only" and folder.name == recordings.NAME:
        records += recordings.graded().to_dict("records")
    score_by_hash = {recordings.hash_of(record): record["score"] for record in records}
    scores = pd.Series(pairs["pair_id"]).map(score_by_hash)
    return _by_pair_id(pairs, scores), judge.spec


def _by_pair_id(pairs: pd.DataFrame, scores: ArrayLike) -> pd.Series:
    return pd.Series(np.asarray(scores, float), index=pairs["pair_id"])
