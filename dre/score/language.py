"""Texts that a small model cannot read: in a script or in a language that it does not know.

A tokeniser makes many pieces of a word that it does not know. Names and rare words are in pieces,
too, so a text of the Latin alphabet counts as another language only if it also lacks the small
words that every English sentence of some length has.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

import pandas as pd

#: The status of a pair that the small model cannot read.
STATUS = "other_language"
#: Pieces a word above which the texts of a system are in a language that a tokeniser does not know.
_MOST_TOKENS_A_WORD = 1.35
#: The same of a single text, of which less is known.
_MOST_TOKENS_A_WORD_OF_ONE = 1.5
_FEWEST_WORDS = 20  # fewer words of a system do not tell their language
_FEWEST_WORDS_OF_ONE = 6  # nor do fewer of a single text
SAMPLE = 1000  # texts of a system that are looked at for its language
#: Small words of English that are not words of other languages of Europe.
_ENGLISH_WORDS = (
    "the and you that what with this your they about would like just them when which know "
    "think there how don't it's i'm that's been our then than very much were could should "
    "she his yes because please any more where who good it does did going really from"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())


def what_is_not_read(pairs: pd.DataFrame, tokenizer: Any) -> list[str]:
    """Return for each pair why a small model cannot read it; "" if it can.

    Parameters
    ----------
    pairs
        ``context`` (turns), ``response`` and ``system`` of each pair.
    tokenizer
        That of the model's encoder.
    """
    texts = pairs.assign(context=[" ".join(turns) for turns in pairs["context"]])
    reasons = pd.DataFrame("", index=range(len(pairs)), columns=["context", "response"])
    for rows in texts.groupby("system").indices.values():
        for name in reasons:
            of_system = texts[name].iloc[rows]
            distinct = list(dict.fromkeys(of_system))
            is_foreign = _tokens_a_word(distinct[:SAMPLE], tokenizer) > _MOST_TOKENS_A_WORD
            by_text = {text: _reason(text, name, tokenizer, is_foreign) for text in distinct}
            reasons.loc[rows, name] = [by_text[text] for text in of_system]
    return [of_context or of_response for of_context, of_response in reasons.to_numpy()]


def _reason(text, name, tokenizer, is_foreign_system):
    """Return why a text is not read, in words; "" if it is read."""
    script = _script_of(text)
    if script not in ("", "Latin"):
        is_unknown = _is_in_unknown_script(text, tokenizer)
        reason = f"the {name} is in a script that the small model does not know ({script})"
        return reason if is_unknown else ""
    if _has_english_words(text):
        return ""
    n_words = len(_words(text))
    pieces = _tokens_a_word([text], tokenizer, _FEWEST_WORDS_OF_ONE)
    is_foreign_text = n_words >= _FEWEST_WORDS_OF_ONE and pieces > _MOST_TOKENS_A_WORD_OF_ONE
    if is_foreign_text or (is_foreign_system and n_words):
        return f"the {name} is in a language that the small model does not know"
    return ""


def _words(text):
    return re.findall(r"[^\W\d_]+", text)


def _has_english_words(text):
    words = re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower().replace("\u2019", "'"))
    return not _ENGLISH.isdisjoint(words)


def _tokens_a_word(texts: Sequence[str], tokenizer: Any, fewest: int = _FEWEST_WORDS) -> float:
    """Return how many tokens a tokeniser makes of a word, many in a language it does not know.

    Numbers and signs are left out, whatever the language. 0 where there are too few words to tell.
    """
    words = [word for text in texts for word in _words(text)]
    if len(words) < fewest:
        return 0.0
    token_ids = tokenizer(" ".join(words), add_special_tokens=False, verbose=False)["input_ids"]
    return len(token_ids) / len(words)


def _is_in_unknown_script(text: str, tokenizer: Any) -> bool:
    """Return whether a text that is not in Latin script is in one that a tokeniser does not know.

    It does not know a script of whose words it makes many tokens, or the one for what is unknown.
    """
    token_ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    n_words = len(re.findall(r"\w+|[^\w\s]", text))
    has_unknown = tokenizer.unk_token_id in token_ids
    return has_unknown or len(token_ids) > _MOST_TOKENS_A_WORD * n_words


def _script_of(text: str) -> str:
    """Return the script of most letters of a text, such as Latin or Arabic; "" without letters."""
    if text.isascii():  # nearly every English text, and much faster
        return "Latin" if re.search("[A-Za-z]", text) else ""
    letters = [sign for sign in unicodedata.normalize("NFKC", text) if sign.isalpha()]
    names = [unicodedata.name(letter, "unknown") for letter in letters]
    scripts = [name.split()[0].capitalize() for name in names]
    if not scripts:
        return ""
    return max(sorted(set(scripts)), key=scripts.count)
