"""What a reader of scores has to know besides: replies without a score, texts that were misread."""

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from dre.score.systems import words_of

if TYPE_CHECKING:
    from dre.slm.model import SLM

#: Tokens a word above which a tokeniser does not know a language; of English they are 1.0 to 1.25.
MOST_TOKENS_A_WORD = 1.35
FEWEST_WORDS = 20  # fewer words of the Latin alphabet do not tell their language
#: Share of a system's replies that may repeat their context; of seven rated sets at most 0.09 do.
MOST_ECHOES = 0.25
SHORTEST_ECHO = 4  # words; shorter replies may well consist of words of the context
SAMPLE = 1000  # replies of a system that are looked at


def notes(
    table: pd.DataFrame, pairs: pd.DataFrame, summary: dict[str, Any], slm: "SLM | None" = None
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
    shared, all_contexts = summary["shared_contexts"], summary["contexts"]
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
    for system, rows in pairs.groupby("system"):
        name = f" of {system!r}" if system else ""
        sentences += _misread(rows.head(SAMPLE), name, slm.encoder.tokenizer)
    return sentences


def _without_score(table, pairs):
    """Return a sentence for each system and each reason why its replies have no score."""
    sentences = []
    failed = table[table["status"] != "ok"]
    for (system, status), rows in failed.groupby(["system", "status"]):
        name = f" of {system!r}" if system else ""
        first_pair = pairs["pair_id"][rows.index[0]]
        sentences.append(
            f"{len(rows):,} pairs{name} have no score: the judge's reply is {status} "
            f"(first {first_pair}: {rows['reason'].iloc[0]})"
        )
    return sentences


def _misread(rows, name, tokenizer):
    """Return what a small model may get wrong about the rows of a system, which ``name`` names."""
    sentences = []
    contexts = rows["context"].map(" ".join)
    for kind, texts in (("contexts", contexts), ("responses", rows["response"])):
        tokens_a_word = _tokens_a_word(texts.unique().tolist(), tokenizer)
        unknown = [text for text in texts if _is_in_unknown_script(text, tokenizer)]
        if unknown:
            sentences.append(
                f"{len(unknown):,} of {len(rows):,} {kind}{name} are in a script that the SLM does "
                f"not know ({_script_of(unknown[0])}): distrust their scores"
            )
        elif tokens_a_word > MOST_TOKENS_A_WORD:
            sentences.append(
                f"{kind}{name} are in no language that the SLM knows (it makes "
                f"{tokens_a_word:.1f} pieces of a word, of English 1.0): distrust its scores"
            )
    n_echoes = sum(map(_is_echo, rows["context"], rows["response"]))
    if n_echoes > MOST_ECHOES * len(rows):
        sentences.append(
            f"{n_echoes:,} of {len(rows):,} replies{name} only repeat words of their context: an "
            "SLM may reward that"
        )
    return sentences


def _tokens_a_word(texts, tokenizer):
    """Return how many tokens a tokeniser makes of a word, many in a language it does not know.

    Numbers and signs are left out, whatever the language. 0 where there are too few words to tell.
    """
    words = [word for text in texts for word in re.findall(r"[^\W\d_]+", text)]
    if len(words) < FEWEST_WORDS:
        return 0
    token_ids = tokenizer(" ".join(words), add_special_tokens=False, verbose=False)["input_ids"]
    return len(token_ids) / len(words)


def _is_in_unknown_script(text, tokenizer):
    """Return whether a text is in a script other than the Latin one that a tokeniser does not know.

    It does not know a script of whose words it makes many tokens, or the one for what is unknown.
    """
    if _script_of(text) in ("", "Latin"):
        return False
    token_ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    n_words = len(re.findall(r"\w+|[^\w\s]", text))
    has_unknown = tokenizer.unk_token_id in token_ids
    return has_unknown or len(token_ids) > MOST_TOKENS_A_WORD * n_words


def _script_of(text):
    """Return the script of most letters of a text, such as Latin or Arabic; "" without letters."""
    letters = [sign for sign in unicodedata.normalize("NFKC", text) if sign.isalpha()]
    scripts = [unicodedata.name(letter, "unknown").split()[0].capitalize() for letter in letters]
    if not scripts:
        return ""
    return max(sorted(set(scripts)), key=scripts.count)


def _is_echo(turns: Iterable[str], response: str) -> bool:
    """Return whether a reply of some length holds nothing but words of its context."""
    words = words_of([response])
    return len(words) >= SHORTEST_ECHO and set(words) <= set(words_of(turns))
