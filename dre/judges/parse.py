"""Read a verdict from a reply. A reply is read or it is malformed: nothing is guessed, clipped or set to 0.

Thinking is dropped (left open, the reply is ``truncated``); then the first of these decides:

1. the JSON object that was asked for, as the whole reply; with a schema, whatever the dialogue holds;
2. objects on lines of their own and values with a label (``Score: 3``), as far as they are the judge's own, if all
   agree, or the last is called final and repeats the one before;
3. a value alone: the sole line, the line above a reason, the line below a whole sentence.

With a schema, only an object, or a value that is the whole reply, can be a verdict. Not the judge's own is what the
dialogue holds, what is quoted, and what a sentence reports or supposes. Time is linear in the length of a reply.
"""

import functools
import json
import re
import unicodedata
from typing import NamedTuple

LONGEST = 40_000  # characters of a reply that is read, without its thinking
MARK = "\ue000"  # stands for a JSON object
regex = functools.partial(re.compile, flags=re.IGNORECASE | re.MULTILINE)
THINK = r"(?:think|thinking|thought|reasoning|scratchpad)\s*>"
TAG = regex(rf"<\s*+/?+\s*+{THINK}")
THOUGHT = regex(rf"\A(?s:<\s*{THINK}.*?<\s*/\s*{THINK}|.*?^[ \t]*<\s*/\s*{THINK}[ \t]*$)")
REFUSAL = regex(
    r"\b(?:can(?:['\u2019]t|not)|could(?:n['\u2019]t| not)|won['\u2019]t|will not|(?:decline|refuse|unable) to)"
    r"\s+(?:\w+\s+){0,3}?(?:rat|scor|judg|evaluat|assess|assign|classify|label|assist|help(?! but)|comply|provid)"
    r"|\b(?:sorry|apologi[sz]e),?\s+but\b|\bas an ai\b"
)
REPORT_OR_CONDITION = regex(
    r"\b(?:(?:ask|claim|contain|demand|hold|instruct|mean|order|read|request|say|state|tell|want|write)s|said|told"
    r"|wrote|spells|quot(?:e[sd]?|ing)|translat(?:ed|ion)|decoded|inject(?:s|ed|ion)|in english|if|unless)\b"
)
SENTENCE_END = re.compile(r"[.!?][\"')\]]* |(?<!:)\n")
PLAIN = str.maketrans(dict.fromkeys("*_#$", " ") | dict.fromkeys("\u201c\u201d\u00ab\u00bb`", '"'))
LABELS = {  # what is asked for, and what may stand before it in words
    "score": "score|rating|grade|verdict|answer|score llm",
    "influence": "s inf|(?:degree of )?influence(?: (?:degree|score))?",
    "label": "label|prediction|classification|class|answer|verdict",
}
LABEL_START = r"(?:^|(?<=[.,;!?]) )[ |\u2022-]*(?:[0-9]{1,3}[.)] )?(?:(?:(?P<final>final|overall)|the|its|my|llm) )*"
LABEL_END = r"(?:[\"')\] ]*(?:[(\[][^()\[\]\n]{0,40}[)\]])?[\"' ]*(?:[:=|]+|$)|(?<!answer) is )"
I_GIVE = r"I(?:['\u2019]d| would)? (?:give|rate|score|put) (?:this|it|(?:the|this) re(?:sponse|ply)) (?:an? |at )?"
SHORT = re.compile("(?:overall|final|llm)_|_degree")  # what is more than the name in a key
# What makes a number another one: more digits, letters or words, a range, another denominator, a question.
MORE = r"\w|[.,]\d| ?(?:[%?]|[-\u2013\u2014~+/^\u00b1,] ?[0-9]|\(out )"
MORE += r"| (?!(?:as|because|for|since)\b|\w+:|(?-i:[A-Z]))\w"
ALONE_AFTER = r"\A|(?<=[.!?:)\"]\n)|^(?=(?:[-\u2022] )?(?:response|output|reply) ?:)"
ALONE_BEFORE = (
    r"\Z|\n(?:rationale|reason(?:s|ing)?|explanation|analysis|justification|because|since)\b"
)


class Verdict(NamedTuple):
    """What a reply says (ok), or why not: malformed, refused, truncated, empty; without one, error or missing."""

    status: str
    score_llm: float | None = None
    s_inf: float | None = None
    label: str | None = None
    responses: dict | None = None
    reason: str = ""


class Unclear(ValueError):
    """A reply without one clear verdict: why, and its status where that is known."""


def read(prompt, reply, row=None, structured=False):
    """Return the `Verdict` of a reply to a `dre.judges.prompts.Prompt` that was rendered with `row`; never raises.

    Words of the row's texts are never the verdict. `structured`: the prompt's schema went with the request.
    """
    text, texts = (reply or "").replace(MARK, "").strip(), _texts(row or {})
    try:
        if TAG.search(text) and not text.startswith("{") and not TAG.search("\n".join(texts)):
            text = THOUGHT.sub("", text).strip()
            if TAG.search(text):
                raise Unclear("the reply breaks off while thinking", "truncated")
        if not text:
            raise Unclear("the reply is empty, or nothing but thinking", "empty")
        found = _found(text, texts, prompt, structured)
    except Unclear as error:
        reason, *status = error.args
        return Verdict(
            *(status or ["refused" if REFUSAL.search(text[:400]) else "malformed"]), reason=reason
        )
    responses = found if prompt.kind == "generate" else None
    return Verdict("ok", found.get("score"), found.get("influence"), found.get("label"), responses)


def _texts(row):
    """The texts of a row that a judge may quote."""
    shown, found = row.get("examples"), []
    for one in (row, *(shown if isinstance(shown, list) else ())):
        turns = one.get("context") or ()
        found += [
            *([turns] if isinstance(turns, str) else turns),
            *map(one.get, ("response", "reference", "facts")),
        ]
    return tuple(text.strip() for text in found if isinstance(text, str))


def _found(reply, texts, prompt, structured):
    """The value of each field that is asked for."""
    rest, objects = _objects(reply)
    text, said, fields, found = _plain(rest), _dialogue(texts), set(prompt.fields), {}
    asked = (text if structured else rest) == MARK and objects[0].keys() == fields
    if not (asked and (structured or reply not in texts)):
        places = zip(re.finditer(MARK, text), objects)
        objects = [
            one
            for mark, one in places
            if fields <= one.keys() and _own_object(one, mark, text, fields, said)
        ]
    marked = re.search('[>`"\u201c\u201d\u00ab\u00bb]', rest)
    for field in prompt.fields:
        values = [_value(field, one[field], prompt) for one in objects]
        if prompt.kind != "generate":
            values += _stated(
                field, prompt, text, said, marked, not objects, structured and not objects
            )
        if not values:
            plain = ": give --plain if the model has no structured output" if structured else ""
            raise Unclear(f"no {field} of the judge's own in the reply{plain}")
        if any(value != values[-1] for value in values):
            raise Unclear(f"the {field} is given more than once, and not the same")
        found[field] = values[-1]
    return found


def _objects(text):
    """A reply with a mark in place of each outermost JSON object, and the objects."""
    if len(text) > LONGEST or text.count("{") > 100:
        raise Unclear(f"the reply has more than {LONGEST:,} characters or 100 braces")
    decoder = json.JSONDecoder(
        object_pairs_hook=lambda pairs: {SHORT.sub("", key.casefold()): x for key, x in pairs}
    )
    objects, at = [], text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
            text, objects = text[:at] + MARK + text[end:], [*objects, value]
        except (
            ValueError,
            RecursionError,
        ):  # also an integer of thousands of digits, or nesting as deep
            pass
        at = text.find("{", at + 1)
    if not objects and re.search(r'\{\s*(?:"|\Z)', text[text.rfind("}") + 1 :]):
        raise Unclear("the JSON object breaks off", "truncated")
    return text, objects


def _own_object(value, mark, text, fields, said):
    """Whether an object stands by itself, is not reported, and has nothing that the dialogue holds."""
    alone = text[: mark.start()].rstrip(" ")[-1:] in ("", *f"{MARK}\n:[(.!?")
    texts = [
        value[field] if isinstance(value[field], list) else [f"{field} {value[field]}"]
        for field in fields
    ]
    copied = any(all(_words(str(one)) in said[0] for one in some) for some in texts)
    return alone and not copied and not _told(text, mark.start())


def _stated(field, prompt, text, said, marked, alone, whole):
    """The judge's own values with a label; without any, if `alone`, values by themselves; `whole`: as all there is."""
    alone = alone and len(prompt.fields) == 1 and not REFUSAL.search(text[:400])
    _, labelled, lone = _patterns(field, prompt)
    for pattern in (labelled, lone)[: 1 + alone]:
        values, final = [], False
        for match in [pattern.fullmatch(text)] if whole else [*pattern.finditer(text)][-100:]:
            place = match and match.start("words" if pattern is labelled else 0)
            if match and not (
                _copied(match, text, said, marked, pattern is labelled) or _told(text, place)
            ):
                values.append(_value(field, match["value"], prompt))
                final = match.groupdict().get("final")
        if values:  # the last is enough where it is final and repeats the one before
            return values[-1:] if len(values) > 2 and final and values[-1] == values[-2] else values
    return []


def _copied(match, text, said, marked, labelled):
    """Whether words of a reply are those of the dialogue: where nothing is marked, of a whole line of it."""
    known = said[marked is None and (match["words"] == text or not labelled)]
    return _words(match["words"]) in known and (marked or labelled or match.start())


def _told(text, place):
    """Whether what stands at a place is quoted, or in a sentence that reports it or sets a condition."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    sentence = SENTENCE_END.split(text[max(0, place - 300) : place])[-1]
    return line.startswith(">") or line.count('"') % 2 or REPORT_OR_CONDITION.search(sentence)


def _plain(text):
    """A text without Markdown's signs, empty lines and runs of spaces, its quotation marks all the same."""
    lines = re.sub(r"```(?:\w*$)?", "", text, flags=re.MULTILINE).translate(PLAIN).splitlines()
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


def _words(text):
    """The words and numbers of a text in one form, which no kind of quotation changes."""
    text = unicodedata.normalize("NFKC", re.sub(r"\\[nrt]", " ", text)).casefold()
    words = re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+", text)
    words = [
        re.sub(r"\.0+$", "", word.replace(",", ".")) if word[0].isdigit() else word
        for word in words
    ]
    return f" {' '.join(words)} "


@functools.lru_cache(maxsize=1024)
def _dialogue(texts):
    """What a reply may quote: all words in order, and those of each text and line."""
    lines = "\n".join(texts).splitlines()
    return _words(" ".join(lines)), {_words(part) for part in (*texts, *lines)}


@functools.lru_cache
def _patterns(field, prompt):
    """Patterns of a field's value, of one with a label in a line or sentence, and of one alone on a line."""
    labels, bullet, opening = LABELS[field], "[-\u2022]", ""
    if field == "score":
        labels += f"|{re.escape(_plain(prompt.criterion or 'overall'))}"
    if field == "label":
        words = "|".join(re.escape(_plain(label)) for label in prompt.labels)
        value = rf"\b(?:adversarial )?(?P<value>{words})\b(?: response\b)?"
        value += rf"(?![\s\"']*(?:\?|(?:or|and|[/,|])[\s\"']*(?:{words})\b))"
        opening = r"|(?: ?[.,:;!\u2013\u2014-] |\n(?!(?-i:[a-z])))"  # "No. It asks again.", and no other label
        opening += rf"(?!(?s:.*)\b(?:{words})\b)"
    else:
        low, high = prompt.scale if field == "score" else prompt.influence
        sign, bullet = (
            ("[-+\u2212]?", "\u2022") if low < 0 else ("", bullet)
        )  # "- 0.5" may be below 0
        value = rf"(?P<value>{sign}[0-9]++(?:\.[0-9]++)?+(?:e[-+]?[0-9]+)?+)(?: ?(?:/|\(?out of) ?"
        value += rf"{re.escape(f'{high:g}')}(?:\.0+)?+\)?)?+(?: (?:points?|stars?)\b)?+(?!{MORE})"
    label = rf"(?:(?:{labels}){LABEL_END}{f'|{I_GIVE}' if field == 'score' else ''})"
    alone = (
        rf"(?:{bullet} )?(?:(?:response|output|reply) ?:)?[\s\"(\[]*(?P<words>{value})[\s\")\]!.]*"
    )
    alone = rf"(?:{ALONE_AFTER}){alone}(?:\([^()\d]*\)\.?)?(?={ALONE_BEFORE}{opening})"
    return regex(value), regex(rf"{LABEL_START}(?P<words>{label}[\s\"'(\[]*{value})"), regex(alone)


def _value(field, given, prompt):
    """A number on its scale, the meaning of a label, or five different texts of a kind."""
    if prompt.kind == "generate":
        texts = (
            tuple(text.strip() for text in given if isinstance(text, str))
            if isinstance(given, list)
            else ()
        )
        if (
            len({" ".join(text.casefold().split()) for text in texts} - {""}) != 5
            or len(texts) != 5
        ):
            raise Unclear(f"{len(texts)} {field} responses, expected 5, none of them twice")
        return texts
    match = _patterns(field, prompt)[0].fullmatch(_plain(str(given)))
    if not match:
        raise Unclear(f"the {field} is {str(given)[:40]!r}")
    if field == "label":
        return {_plain(word).casefold(): label for word, label in prompt.labels.items()}[
            match["value"].casefold()
        ]
    return on_scale(field, match["value"].replace("\u2212", "-"), prompt)


def on_scale(field, given, prompt):
    """Return a score or an influence as a number; `Unclear` if it is off the prompt's scale."""
    (low, high), number = prompt.scale if field == "score" else prompt.influence, float(given)
    if not low <= number <= high:
        raise Unclear(f"the {field} is {number:g}, off the scale {low:g}-{high:g}")
    return number
