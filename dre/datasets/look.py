"""A look at the pairs that were read of a file: do they look as dialogues do?

A file can be read without a fault and still be read wrongly, if several turns stand in one text or
speakers' names before them. This looks at what was read, whatever the form of the file was.
"""

import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import pandas as pd

#: From so many pairs on a finding of the first three kinds is a reason to stop.
ENOUGH = 10
#: What may stand between turns: signs between blanks, doubled signs, <turn>, [SEP], __eou__.
_MARK = re.compile(
    r"\s[^\w\s]{1,3}\s|[^\w\s'’\"“”.,!?…*-]{2,}|<[^<>\s]{1,20}>|\[[A-Za-z_]{1,10}\]|__\w+?__"
    r"|\\[nt]|\s{3,}|[\t\n¦⏎]"
)
#: Signs that stand between blanks in plain texts as well, above all in texts cut into tokens.
_USUAL = set("\".,!?'’“”&–—/$%#*…") | {"...", ". .", "..", "!!", "??", "--", "''", "``"}
#: A time, number or name before a turn: User:, **Bot**:, [10:02] Ann:, 2., [ask].
_NAME = re.compile(
    r"\W{0,4}(?:\d+:\d\d\S*\s+)?\W{0,3}([A-Za-z][\w .]{0,18}?)\W{0,4}:\W{0,2}\s"
    r"|\s*[\[(]([a-z_]{2,20})[\])]\s|\s*(\d{1,2}[.)])\s|<\|im_start\|>(\w+)",
)
#: Marks of texts that were not decoded: entities, byte pairs, pieces of words, broken UTF-8.
_RAW = re.compile(
    r"_comma_|[ĠĊ▁]|@[,.-]@|\w@@ | ##\w|<(?:unk|pad|eos|s)>|</s>|<\|\w+\|>|</?think>|\[/?INST\]"
    r"|â€|Ã[©¨¤¶¼]|\\u[0-9a-f]{4}|__(?:unk|end)__"
)
_SPEAKERS = {"user", "human", "assistant", "bot", "ai", "system", "agent", "customer"}
_PERSONA = ("your persona:", "partner's persona:", "__knowledge__")
_MISSING = {"nan", "NaN", "None", "null", "undefined", "<NA>"}


class Finding(NamedTuple):
    """A sentence on what was read, and whether it is a reason to stop."""

    sentence: str
    stops: bool


class _Pair(NamedTuple):
    turns: Sequence[str]
    response: str
    system: str
    has_roles: bool


def findings(pairs: pd.DataFrame, records: Iterable[dict] = ()) -> list[Finding]:
    """Return what looks wrong in pairs that were read.

    Parameters
    ----------
    pairs : ``context`` (turns), ``response``, ``system``; and ``has_roles``, whether messages with
        roles said who speaks. Such texts are never searched for names or marks between turns.
    records : the records of the file, in which ratings may stand.
    """
    columns = ["context", "response", "system", "has_roles"]
    read = [
        _Pair(turns or (), response if isinstance(response, str) else "", system, has_roles)
        for turns, response, system, has_roles in pairs[columns].itertuples(index=False)
    ]
    if not read:
        return []
    serious = [_marks(read), _names(read), _ends_with_response(read)]
    others = [
        _repeated(read),
        _counted(read, 0.1, "have marks of text that was not decoded", _has_raw_text),
        _counted(read, 0.3, "have a persona or knowledge among their turns", _has_persona),
        _counted(read, 0.3, "have a response that repeats the context first", _repeats),
        _counted(read, 0.0, "have data or a missing value as a text", _has_data),
        _systems(read),
        *_ratings(records),
    ]
    stops = len(read) >= ENOUGH
    return [
        *(Finding(sentence, stops) for sentence in serious if sentence),
        *(Finding(sentence, False) for sentence in others if sentence),
    ]


def _marks(read):
    """Say which mark stands inside most contexts, and hardly in responses."""
    plain = [pair for pair in read if not pair.has_roles]
    n_turns = sum(len(pair.turns) for pair in plain)
    in_contexts, in_turns, in_responses = Counter(), Counter(), Counter()
    examples = {}
    for pair in plain:
        by_turn = [_marks_in(turn) for turn in pair.turns]
        in_turns.update(mark for marks in by_turn for mark in marks)
        in_responses.update(_marks_in(pair.response))
        for mark in set().union(*by_turn):
            in_contexts[mark] += 1
            examples.setdefault(mark, next(turn for turn in pair.turns if mark in _marks_in(turn)))
    for mark, count in in_contexts.most_common():
        is_in_most = count > len(read) / 2 and in_turns[mark] > n_turns / 4
        is_rare_in_responses = in_turns[mark] / n_turns > 3 * in_responses[mark] / len(plain)
        if is_in_most and is_rare_in_responses:
            return (
                f"{mark!r} stands in {_of(count, read, 'contexts')}, as in {examples[mark]!r:.80}: "
                "does it separate turns?"
            )
    return ""


def _marks_in(text):
    """Return the marks within a text that are not usual in texts."""
    inside = [match for match in _MARK.finditer(text.strip()) if match.start() > 0]
    marks = {match[0].strip() or match[0][0] for match in inside}
    return {mark for mark in marks - _USUAL if not re.fullmatch(r"[:;=()-]+", mark)}  # :-)


def _names(read):
    """Say with which names turns begin often, in contexts or in the replies of a system."""
    names, sizes, examples = Counter(), Counter(), {}
    for pair in read:
        if pair.has_roles:
            continue
        places = [(None, turn) for turn in pair.turns] + [(pair.system, pair.response)]
        sizes.update({None, pair.system})
        for place, text in places:
            match = _NAME.match(text)
            if match:
                name = re.sub(r"\d+", "0", next(filter(None, match.groups())).strip().lower())
                names[place, name] += 1
                examples.setdefault(name, text)
    found = {}
    for (place, name), count in names.items():
        if count >= max(1 if name in _SPEAKERS else 2, 0.3 * sizes[place]):
            found[name] = found.get(name, 0) + count
    if not found:
        return ""
    first = next(iter(found))
    return (
        f"{sum(found.values()):,} turns begin with {', '.join(map(repr, [*found][:3]))}, as in "
        f"{examples[first]!r:.80}: is this who speaks, and not what was said?"
    )


def _ends_with_response(read):
    return _counted(read, 0.3, "have a context that ends with the response", _is_at_the_end)


def _is_at_the_end(pair):
    return bool(pair.turns) and pair.turns[-1].strip() == pair.response.strip()


def _repeated(read):
    """Say how many pairs are there again, such as in a table with one row a rater."""
    distinct = {(tuple(pair.turns), pair.response, pair.system) for pair in read}
    n_repeated = len(read) - len(distinct)
    if n_repeated <= 0.2 * len(read):
        return ""
    return (
        f"{_of(n_repeated, read, 'pairs')} are there before, with the same context, response and "
        "system: has the file a row for each rater?"
    )


def _counted(read, share, what, applies):
    """Say how many pairs something applies to, if more than a share of them."""
    found = [pair for pair in read if applies(pair)]
    if len(found) <= share * len(read):
        return ""
    example = next((text for text in found[0].turns if applies(_alone(text))), found[0].response)
    return f"{_of(len(found), read, 'pairs')} {what}, as in {example!r:.80}"


def _alone(text):
    return _Pair((text,), "", "", False)


def _has_raw_text(pair):
    text = "\n".join((*pair.turns, pair.response))
    return bool(_RAW.search(text)) or html.unescape(text) != text


def _has_persona(pair):
    return any(turn.lower().startswith(_PERSONA) for turn in pair.turns)


def _repeats(pair):
    return bool(pair.turns) and len(pair.turns[0]) > 10 and pair.response.startswith(pair.turns[0])


def _has_data(pair):
    for text in (*pair.turns, pair.response):
        text = text.strip()
        is_list = text[:1] + text[-1:] in ("[]", "{}") and re.match(r"[\[{]\s*(['\"\[{]|$)", text)
        if is_list or text in _MISSING or re.match(r"[\[{]\s*[\]}]$|b'.*'$", text):
            return True
    return False


def _systems(read):
    """Say which names of systems differ in nothing but capitals, or are missing beside others."""
    names = sorted({pair.system for pair in read})
    is_alike = len({name.strip().lower() for name in names}) < len(names)
    if not is_alike and not (len(names) > 1 and "" in names):
        return ""
    return f"the systems are {', '.join(map(repr, names[:6]))}: are all of them meant?"


def _ratings(records):
    """Say in which columns of numbers there is one negative value, such as -1 for "not rated"."""
    numbers = defaultdict(Counter)
    for record in records:
        for column, value in record.items():
            for entry in value if isinstance(value, list) else [value]:
                with suppress(TypeError, ValueError):
                    numbers[column][float(entry)] += 1
    for column, counts in numbers.items():
        negative = [number for number in counts if number < 0]
        others = [number for number in counts if number >= 0]
        if len(negative) == 1 and len(others) > 2:
            yield (
                f"{column} is {negative[0]:g} in {counts[negative[0]]:,} places and else not "
                "negative: does it mean that nobody rated?"
            )


def _of(count, read, kind):
    return f"{count:,} of {len(read):,} {kind}"
