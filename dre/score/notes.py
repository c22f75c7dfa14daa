"""What a reader of scores has to know besides: replies without a score, texts that were misread."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

from dre.datasets import readers
from dre.score import language
from dre.score.systems import words_of

if TYPE_CHECKING:
    from dre.slm.model import SLM

#: Share of a system's replies that may repeat their context; of seven rated sets at most 0.09 do.
_MOST_ECHOES = 0.25
_SHORTEST_ECHO = 4  # words; shorter replies may well consist of words of the context
_MOST_TAGS = 0.5  # share of turns that may begin with what looks like a speaker's name
_TAG = re.compile(r"[A-Z][\w ]{0,15}: ")
SAMPLE = 1000  # replies of a system that are looked at


def notes(
    table: pd.DataFrame, pairs: pd.DataFrame, summary: dict, slm: "SLM | None" = None
) -> list[str]:
    """Return the sentences that belong beside scores.

    Parameters
    ----------
    table
        The scores, row by row those of ``pairs``.
    pairs
        The contexts and responses that were scored.
    summary
        What `dre.score.systems.summarise` says about the scores.
    slm
        The small model that scored them; None if none did.
    """
    sentences = _without_score(table, pairs)
    shared = summary["shared_contexts"]
    all_contexts = summary["contexts"]
    if len(summary["systems"]) > 1 and shared < all_contexts:
        sentences.append(
            f"only {shared:,} of {all_contexts:,} contexts have a score of every system, so means "
            "are of different ones: look at the comparisons, each on the contexts of both, which "
            "the ranks are made of"
        )
    for text, used_end in (("response", "beginning"), ("context", "end")):
        n_cut = table["reason"].str.contains(f"the {text} is cut").sum()
        if n_cut:
            sentences.append(
                f"{n_cut:,} {text}s are longer than the encoder reads; only their {used_end} counts"
            )
    if slm is None:
        return sentences
    sentences += _tagged(pairs.head(SAMPLE))
    for system, rows in pairs.groupby("system"):
        name = f" of {system!r}" if system else ""
        sentences += _repeating(rows.head(SAMPLE), table, name)
    return sentences


def _without_score(table, pairs):
    """Return a sentence for each system and each reason why its replies have no score."""
    sentences = []
    failed = table[table["status"] != "ok"]
    for (system, status), rows in failed.groupby(["system", "status"]):
        name = f" of {system!r}" if system else ""
        first_pair = pairs["pair_id"][rows.index[0]]
        cause = f"the judge's reply is {status}"
        if status == language.STATUS:
            cause = "the small model cannot read them"
        sentences.append(
            f"{len(rows):,} pairs{name} have no score: {cause} "
            f"(first {first_pair}: {rows['reason'].iloc[0]})"
        )
    return sentences


def _tagged(pairs):
    """Return a sentence if most turns begin with the name of a speaker, such as ``A:``."""
    turns = [turn for context in pairs["context"] for turn in context]
    tagged = [turn for turn in turns if _TAG.match(turn)]
    if len(tagged) <= _MOST_TAGS * len(turns):
        return []
    return [
        f"{len(tagged):,} of {len(turns):,} turns begin with a speaker, such as "
        f"{tagged[0][:20]!r}: the SLM reads them as words, so take off what nobody said"
    ]


def _repeating(rows, table, name):
    """Return a sentence on a system, which ``name`` names, if it mostly repeats its contexts."""
    is_echo = [_is_echo(*pair) for pair in zip(rows["context"], rows["response"])]
    echoes = rows.index[is_echo]
    if len(echoes) <= _MOST_ECHOES * len(rows):
        return []
    # A model that leaves out what is repeated cannot reward it; others can.
    left_out = table.loc[echoes, "left_out"][table.loc[echoes, "status"] == "ok"]
    effect = "an SLM may reward that"
    if len(left_out) and not left_out.map(readers.absent).any():
        effect = (
            "the small model does not read what is repeated, so a reply without a word of its own "
            "scores like an empty one"
        )
    return [
        f"{len(echoes):,} of {len(rows):,} replies{name} only repeat words of their context: "
        f"{effect}"
    ]


def _is_echo(turns: Iterable[str], response: str) -> bool:
    """Return whether a reply of some length holds nothing but words of its context."""
    words = words_of([response])
    return len(words) >= _SHORTEST_ECHO and set(words) <= set(words_of(turns))
