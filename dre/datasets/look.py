"""A look at the pairs that were read of a file: do they look as dialogues do?

A file can be read without a fault and still be read wrongly, if several turns stand in one text or
speakers' names before them. This looks at what was read, whatever the form of the file was.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import pandas as pd

#: From so many pairs on a finding of the first three kinds may be a reason to stop.
ENOUGH = 10
_OFTEN, _MOSTLY = 0.3, 0.5  # shares of pairs for a finding, and for a reason to stop
#: What may stand between turns: brackets, underlines, signs between blanks, doubled signs, spaces.
_MARK = re.compile(
    r"<[^<>\s]{1,20}>|\[[A-Za-z_ ]{1,20}\]|(?<!\w)_{1,2}[A-Za-z]+?_{1,2}(?!\w)"
    r"|\b(?:EO[SUT]|eo[sut]|SEP)\b"
    r"|\s[^\w\s]{1,3}\s|(?<!:)(?:[-=]>|[|;/@#=~^%$&+*<>\\-]{2,})|[|^¦⏎\t\n\x1f\u2028]|\\n| {2,}",
)
#: Marks that nothing but a separator is, so that they are a reason to stop.
_SEPARATOR = re.compile(
    r"<.+>|\[.+\]|_+\w+_+|.*[|^¦⏎\t\x1f\u2028].*|;;|/{2,}|~+|@@|[-=]>|eo[sut]|sep|\\n",
    re.IGNORECASE,
)
_USUAL = {*".,!?'\"’“”()", "...", "..", "`", "```", "**"}
_COLON = re.compile(r"([^\W\d][\w .'()-]{0,40}?)\s?[:：>](?![/)(D])")
_DASH = re.compile(r"([^\W\d]\w{0,15} [-–—|>])\s")
_SIGNS = re.compile(r"(?=\S*[\[\](){}<>#@|*=~\\/:_]|\S*\d\S)(\S{1,25})\s+\S")
_ALL = "a name:"  # before all turns of a dialogue, whichever it is
#: Marks of texts that were not decoded, or not cut where a reply ends.
_RAW = re.compile(
    r"&(?:[a-z]{2,6}|#\d+);|_comma_|[ĠĊ▁]|@[,.-]@|\w@@ | ##\w|</?\w{1,8}>|<\|\w+\|>|\[/?INST\]"
    r"|â€|Ã[©¨¤¶¼]|\\u[0-9a-f]{4}|__(?:unk|end|eou|eot)__"
    r"|\n\s*(?:User|Human|Assistant|Bot|AI|Customer|System)\s?:"
)
_SPEAKERS = {"user", "human", "assistant", "bot", "ai", "system", "agent", "customer", _ALL}
_PERSONA = ("your persona:", "partner's persona:", "__knowledge__", "you are a ", "you are an ")
_MISSING = {"nan", "NaN", "None", "none", "null", "NULL", "undefined", "<NA>", "N/A", "NA", "#N/A"}
_MISSING |= {r"\N", "#NAME?", "-", "[deleted]", "[removed]"}
_QUESTIONS = ("question", "query", "input", "user_input", "instruction", "prompt")


class Finding(NamedTuple):
    """A sentence on what was read, and whether it is a reason to stop."""

    sentence: str
    stops: bool


class _Pair(NamedTuple):
    turns: Sequence[str]
    response: str
    system: str
    has_roles: bool

    def texts(self) -> tuple[str, ...]:
        return (*self.turns, self.response)


def findings(pairs: pd.DataFrame, records: Iterable[dict] = ()) -> list[Finding]:
    """Return what looks wrong in pairs that were read.

    Parameters
    ----------
    pairs : ``context`` (turns), ``response``, ``system``; and ``has_roles``, whether messages with
        roles said who speaks. Such texts are never searched for names or marks between turns.
    records : the records of the file, in which ratings and questions may stand.
    """
    columns = ["context", "response", "system", "has_roles"]
    read = [
        _Pair(turns or (), response if isinstance(response, str) else "", system, has_roles)
        for turns, response, system, has_roles in pairs[columns].itertuples(index=False)
    ]
    if not read:
        return []
    plain = [pair for pair in read if not pair.has_roles]
    serious = [
        *_marks(plain),
        *_names(plain),
        *_counted(read, _OFTEN, "have a context that holds the response", _holds_response),
    ]
    hints = [
        *_repeated(read),
        *_counted(read, 0.1, "have marks of text that was not decoded or cut", _has_raw_text),
        *_counted(read, _OFTEN, "have a persona, a prompt or knowledge as a turn", _has_persona),
        *_counted(read, _OFTEN, "have a response that repeats the context first", _repeats),
        *_counted(read, 0.0, "have data or a missing value as a text", _has_data),
        *_systems(read),
        *_columns(records),
    ]
    is_enough = len(read) >= ENOUGH
    return [
        *(Finding(sentence, is_enough and share >= _MOSTLY) for share, sentence in serious),
        *(Finding(sentence, False) for _, sentence in hints),
    ]


def _marks(read):
    """Say which mark stands inside most contexts, and hardly in responses."""
    in_contexts, examples = Counter(), {}
    occurrences = {"context": Counter(), "response": Counter()}
    lengths = Counter()
    for pair in read:
        lengths["context"] += sum(map(len, pair.turns))
        lengths["response"] += len(pair.response)
        occurrences["response"].update(_marks_in(pair.response))
        found = [(mark, turn) for turn in pair.turns for mark in _marks_in(turn)]
        occurrences["context"].update(mark for mark, _ in found)
        for mark, turn in dict(found).items():
            in_contexts[mark] += 1
            examples.setdefault(mark, turn)
    for mark, count in in_contexts.most_common():
        rates = {p: counts[mark] / max(1, lengths[p]) for p, counts in occurrences.items()}
        is_separator = _SEPARATOR.fullmatch(mark)
        if not is_separator and len(read) < ENOUGH:
            continue
        if count > _MOSTLY * len(read) and rates["context"] > 5 * rates["response"]:
            yield (
                count / len(read) if is_separator else 0,
                f"{mark!r} stands in {_of(count, read, 'contexts')}, as in {examples[mark]!r:.80}: "
                "does it separate turns?",
            )
            return


def _marks_in(text):
    """Return the marks within a text that are not usual in texts."""
    inside = [match[0] for match in _MARK.finditer(text.strip()) if match.start() > 0]
    return [mark for mark in (mark.strip() or mark[0] for mark in inside) if mark not in _USUAL]


def _names(read):
    """Say with which names turns begin often, in contexts or in the replies of a system."""
    counts, sizes, examples = Counter(), Counter(), {}
    for pair in read:
        sizes.update({None, pair.system})
        found = {(None, _name(turn)): turn for turn in pair.turns}
        found |= {(pair.system, _name(pair.response)): pair.response}
        texts = pair.texts() if len(pair.turns) == 1 else pair.turns
        if all(map(_name, texts)):  # perhaps other names in each dialogue
            found[None, _ALL] = pair.turns[0]
        for (place, name), text in found.items():
            counts[place, name] += bool(name)
            examples.setdefault(name, text)
    shares = {}
    for (place, name), count in counts.items():
        share = count / sizes[place]
        if share >= _OFTEN and count >= (1 if name in _SPEAKERS else 3):
            shares[name] = max(share, shares.get(name, 0))
    if shares:
        first = next(iter(shares))
        yield (
            max(shares.values()),
            f"turns begin with {', '.join(map(repr, [*shares][:3]))}, as in "
            f"{examples[first]!r:.80}: is this who speaks, and not what was said?",
        )


def _name(text):
    """Return what may be a name, a time or a number before a text; "" if there is none."""
    match = _COLON.match(text.strip()) or _DASH.match(text.strip()) or _SIGNS.match(text.strip())
    return re.sub(r"\d+", "0", match[1].lower()) if match and match[1].count(" ") < 4 else ""


def _repeated(read):
    """Say how many pairs are there again, such as in a table with one row a rater."""
    n = len(read) - len({(tuple(pair.turns), pair.response, pair.system) for pair in read})
    if n > 0.2 * len(read):
        yield (
            0,
            f"{_of(n, read, 'pairs')} are there before, with the same context, response and "
            "system: has the file a row for each rater?",
        )


def _counted(read, share, what, applies: Callable[[_Pair], str]):
    """Say how many pairs something applies to, if more than a share, with the text of the first."""
    examples = [text for text in map(applies, read) if text]
    if len(examples) > share * len(read):
        yield (
            len(examples) / len(read),
            f"{_of(len(examples), read, 'pairs')} {what}, as in {examples[0]!r:.80}",
        )


def _holds_response(pair):
    said = pair.response.strip()
    return said if said in [turn.strip() for turn in pair.turns] else ""


def _has_raw_text(pair):
    return next((text for text in pair.texts() if _RAW.search(text)), "")


def _has_persona(pair):
    return next((turn for turn in pair.turns if turn.lower().startswith(_PERSONA)), "")


def _repeats(pair):
    first = pair.turns[0] if pair.turns else ""
    return pair.response if len(first) > 10 and pair.response.startswith(first) else ""


def _has_data(pair):
    for text in map(str.strip, pair.texts()):
        is_list = text[:1] + text[-1:] in ("[]", "{}") and re.match(r"[\[{]\s*(['\"\[{]|$)", text)
        if is_list or text in _MISSING or re.match(r"[\[{]\s*[\]}]$|b'.*'$", text):
            return text
    return ""


def _systems(read):
    """Say which names of systems differ in nothing but capitals, or are missing beside others."""
    names = sorted({pair.system for pair in read})
    is_alike = len({name.lower() for name in names}) < len(names)
    if is_alike or (len(names) > 1 and "" in names):
        yield 0, f"the systems are {', '.join(map(repr, names[:6]))}: are all of them meant?"


def _columns(records):
    """Say in which columns a question stands beside the context, or one negative rating, as -1."""
    numbers = defaultdict(Counter)
    questions = Counter()
    for record in records:
        if isinstance(record.get("context"), list):
            texts = {name: record.get(name) for name in _QUESTIONS}
            questions.update(name for name in texts if str(texts[name] or "").strip())
        for column, value in record.items():
            for entry in value if isinstance(value, list) else [value]:
                with suppress(TypeError, ValueError, OverflowError):
                    numbers[column][float(entry)] += 1
    for name, count in questions.items():
        yield (
            0,
            f"{count:,} records have a {name} beside context: is context what was said, or what "
            f"the reply may draw on? --field context={name} takes the other",
        )
    for column, counts in numbers.items():
        negative = [number for number in counts if number < 0]
        others = [number for number in counts if number >= 0]
        if len(negative) == 1 and negative[0].is_integer() and len(others) > 2:
            yield (
                0,
                f"{column} is {negative[0]:g} in {counts[negative[0]]:,} places and else not "
                "negative: does it mean that nobody rated?",
            )


def _of(count, read, kind):
    return f"{count:,} of {len(read):,} {kind}"
