"""Dialogues of many forms as messages: who speaks, and what is said.

A dialogue is a list of texts, a list of messages, the JSON or Python text of such a list, or a text
with one turn a line. What things are called stands in `dre.datasets.aliases`. What is not spoken
(tool calls, system prompts, thoughts, images) is left out and counted. What has the outer shape of
a dialogue and cannot be one is a ValueError that quotes it.
"""

import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dre.datasets import aliases

#: An error shows at most so many characters of a wrong value.
_LONGEST_QUOTE = 60
#: An error shows at most so many characters of a list of names.
_LONGEST_LIST = 200
#: Lists in lists, texts of texts: more levels than this are not unpacked.
_DEEPEST = 6

#: White space, and signs without a width.
_INVISIBLE = "\u00a0\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2800\u3000\ufeff \t\n\r\f\v"
#: Keys of a message that say who speaks, without a doubt.
SPEAKER_KEYS = ("role", "from", "speaker", "sender")
#: The sides of a dialogue, and what is no side of it.
SIDES = ("user", "assistant", "system", "tool")
#: How a text begins that is a list or an object, and not something that was said.
_LIKE_DATA = re.compile(r"""\s*(?:\[\s*(?:["'{\[]|\(\s*["']|array\()|\{\s*["']|array\()""")
#: Two texts or objects of a list without a comma between them, or something that looks like it.
_LIKE_JOINED = re.compile(r"""["']\s*["']|[}\]]\s*[{\["']|["']\s*[{\[]""")
_MESSAGE_CLASS = re.compile(r"message(?:chunk)?$")
_TAG_OF_BLOCK = re.compile(r"\W{0,3}(\w[\w ]{0,15}?)\W{0,3}:")
_BLANK_LINE = re.compile(r"\n\s*\n")
#: The two characters of a line end in a text that was escaped once too often.
_LITERAL_LINE_END = re.compile(r"[.?!\"'…]\s*(?:\\r)?\\n")
#: A list as Spark or a spreadsheet shows it.
_UNQUOTED_LIST = re.compile(r"\[[^\[\]]*, [^\[\]]*\]")
#: What a note counts: lists that `_with_commas` has mended.
WITHOUT_COMMAS = "lists without commas"


@dataclass(frozen=True)
class Form:
    """What a user says about the form of a file.

    Attributes
    ----------
    fields : columns by the names of fields, where they have other names; "" where no column has
        the field.
    roles : sides (user, assistant, system, tool) by the file's own words for them.
    separator : what stands between the turns of a context that is one text; "" for line ends.
    last_turn : whether the last turn of a dialogue is its response, where no column has one.
    keep_tags : whether what looks like a speaker's tag or a separator is text.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    last_turn: bool = False
    keep_tags: bool = False


#: The form of a file of which nothing is said.
PLAIN = Form()
#: The keys of Gemini's parts, which have no type, and what they are counted as.
_UNTYPED_PARTS = {
    "functioncall": "tool calls",
    "functionresponse": "tool results",
    "inlinedata": "images and files",
    "filedata": "images and files",
}


class Message(NamedTuple):
    """What one speaker says. The side is user, assistant, or "" where it is not known."""

    side: str
    name: str
    text: str


def quote(value: object) -> str:
    """Return the beginning of a wrong value, for an error."""
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


def names(words: Any) -> str:
    """Return names of columns, keys or roles, for an error."""
    text = ", ".join(dict.fromkeys(map(str, words))) or "nothing"
    return text if len(text) <= _LONGEST_LIST else text[:_LONGEST_LIST] + "..."


def in_small_letters(record: dict) -> dict:
    """Return an object with its keys as texts in small letters."""
    return {str(key).lower(): entry for key, entry in record.items()}


def is_blank(text: str) -> bool:
    """Return whether a text has nothing that can be seen."""
    return not text.strip() or (not text.isascii() and not text.strip(_INVISIBLE))


def looks_like_data(value: object) -> bool:
    """Return whether a value is a list, an object, or a text that begins like one."""
    if isinstance(value, str):
        is_written_twice = value[:2] in ('"[', '"{') and value.endswith('"')
        return is_written_twice or bool(_LIKE_DATA.match(value))
    return isinstance(value, (list, tuple, dict)) or hasattr(value, "tolist")


def messages_of(value: Any, form: Form, left_out: Counter) -> list[Message]:
    """Return the messages of a dialogue, oldest first. Blank ones are left out.

    Parameters
    ----------
    value
        A list of texts or messages, a text, or what `unpacked` makes one of.
    form
        What the user says about the file.
    left_out
        Counts what is left out, by what it is.

    Raises
    ------
    ValueError
        If the value is no dialogue. The message quotes what was found.
    """
    value = unpacked(value, left_out)
    if isinstance(value, str):
        return [Message("", "", turn) for turn in _turns_of_text(value, form)]
    if not isinstance(value, list):
        raise ValueError(f"found {quote(value)}, expected turns, oldest first, or chat messages")

    _refuse_other_items(value)
    messages = []
    for number, item in enumerate(value, 1):
        messages += _messages_of_item(item, number, form, left_out)
    return _sides(messages, form, left_out)


def unpacked(value: Any, left_out: Counter, depth: int = 0) -> Any:
    """Return the list or text that a value stands for.

    It may be an array, the JSON or Python text of a list, an object with a dialogue under one of
    its keys, or an object of lists, one for each key of a message.
    """
    if depth > _DEEPEST:
        raise ValueError(f"found {quote(value)}: it is packed too deeply")
    if isinstance(value, str):
        if value.strip() in ("[]", "{}"):
            return []
        if not _LIKE_DATA.match(value):
            return _twice_written(value, left_out, depth)
        return unpacked(_parsed(value, left_out), left_out, depth + 1)
    if hasattr(value, "tolist"):  # an array, as Parquet has them
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    if not isinstance(value, dict):
        return value

    keys = {str(key).lower(): key for key in value}
    has_speaker = any(key in keys for key in SPEAKER_KEYS)
    text_key = next((keys[key] for key in aliases.TEXT_KEYS if key in keys), None)
    if text_key is not None and has_speaker:
        as_rows = _rows_of_columns(value, value[text_key])
        return [value] if as_rows is None else as_rows
    dialogues = [keys[name] for name in (*aliases.DIALOGUES, *aliases.HISTORIES) if name in keys]
    dialogues = [key for key in dialogues if looks_like_data(value[key])]
    if len(dialogues) > 1:
        raise ValueError(f"found an object with {names(dialogues)}: expected one dialogue")
    if dialogues:
        return unpacked(value[dialogues[0]], left_out, depth + 1)
    return value


def _twice_written(text, left_out, depth):
    """Return what a tuple, or JSON that was written as JSON again, stands for; else the text."""
    value = text
    if text[:2] in ("b'", 'b"') and text[-1] == text[1]:
        raise ValueError(f"found {quote(text)}, which is bytes and no text: decode them")
    try:
        if text.startswith("(") and text.endswith(")"):
            value = ast.literal_eval(text)
        elif text.startswith('"') and text.endswith('"'):
            value = json.loads(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    if isinstance(value, tuple) or (value != text and looks_like_data(value)):
        return unpacked(value, left_out, depth + 1)
    return text


def _rows_of_columns(columns, texts):
    """Return messages of an object whose values are lists of one length; None if it is another.

    ``{"role": ["user"], "content": ["Hi."]}`` is what tables of messages become in Parquet.
    """
    lists = {key: entry for key, entry in columns.items() if isinstance(entry, list)}
    has_speaker = any(str(key).lower() in SPEAKER_KEYS for key in lists)
    is_table = has_speaker and isinstance(texts, list)
    if not is_table or any(len(entry) != len(texts) for entry in lists.values()):
        return None
    return [dict(zip(lists, row)) for row in zip(*lists.values())]


def _parsed(text, left_out):
    """Return the value of a text that is written as JSON or Python; ValueError if it is neither."""
    stripped = text.strip()
    with suppress(ValueError, RecursionError):
        return json.loads(stripped)
    with_commas = _with_commas(stripped)
    try:
        value = ast.literal_eval(with_commas or stripped)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(
            f"found {quote(text)}, which begins like a list or an object and cannot be read as "
            "JSON or Python"
        ) from None
    if with_commas:
        left_out[WITHOUT_COMMAS] += 1
    return value


def _with_commas(text):
    """Return the text of a list with the commas that numpy leaves out; None if none is missing.

    ValueError if only some of them are missing, so that texts were joined.
    """
    if not text.startswith("[") or not _LIKE_JOINED.search(text):
        return None
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return None
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    depth = 0
    commas = 0
    depths = set()
    cuts = []
    ends_element = False
    for token in tokens:
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.ENDMARKER):
            continue
        begins_element = token.type == tokenize.STRING or token.string in ("{", "[", "(")
        if ends_element and begins_element:
            depths.add(depth)
            row, column = token.start
            cuts.append(starts[row - 1] + column)
        depth += token.string in ("{", "[", "(")
        depth -= token.string in ("}", "]", ")")
        commas += depth == 1 and token.string == ","
        ends_element = token.type == tokenize.STRING or token.string in ("}", "]", ")")
    if not cuts or 0 in depths:
        return None
    if commas or depths != {1}:
        raise ValueError(f"found {quote(text)}, a list in which a comma between texts is missing")
    starts = [0, *cuts]
    ends = [*cuts, len(text)]
    segments = [text[start:end] for start, end in zip(starts, ends)]
    return ",".join(segments)


def _turns_of_text(text, form):
    """Return the turns of a text: its lines, or what a separator or speakers' tags set apart."""
    if form.separator:
        return [" ".join(piece.split()) for piece in pieces_of(text, form) if piece.strip()]
    pieces = text.split("\n")
    if _UNQUOTED_LIST.fullmatch(text.strip()) and not form.keep_tags:
        raise ValueError(
            f"found {quote(text)}, a list without quotation marks: write it as JSON; --keep-tags "
            "reads it as it is"
        )
    if len(pieces) == 1 and not form.keep_tags and _LITERAL_LINE_END.search(text):
        raise ValueError(
            f"found {quote(text)}, one line with a backslash and n where lines end: "
            "--separator '\\n' splits it there, --keep-tags reads it as it is"
        )
    if not form.keep_tags and ":" in text:
        # A message of a transcript may have several lines; then blank lines stand between them.
        blocks = [block.strip() for block in _BLANK_LINE.split(text) if block.strip()]
        if 1 < len(blocks) < len(pieces) and all(map(_begins_with_side, blocks)):
            pieces = [" ".join(block.split()) for block in blocks]
    stripped = [piece.strip() for piece in pieces]
    return [piece for piece in stripped if not is_blank(piece)]


def pieces_of(text: str, form: Form) -> list[str]:
    r"""Return the pieces of a text between separators; ``\t`` is also the sign that it means."""
    separator = form.separator.replace("\\t", "\t").replace("\\n", "\n")
    return text.replace(form.separator, separator).split(separator)


def _begins_with_side(block):
    """Return whether a block of a transcript begins with a word for one of the two sides."""
    match = _TAG_OF_BLOCK.match(block)
    tag = match[1].strip().lower() if match else ""
    return tag in aliases.USER_TAGS or tag in aliases.ASSISTANT_TAGS


def _messages_of_item(item, number, form, left_out):
    """Return the messages of one entry of a list, mostly one. It may be an object as text."""
    if item is None or (isinstance(item, str) and is_blank(item)):
        left_out["blank turns"] += 1
        return []
    if isinstance(item, str):
        if not item.startswith(("{", "[")) or not _LIKE_DATA.match(item):
            return [Message("", "", item)]
        item = _parsed(item, left_out)
    if isinstance(item, (list, tuple)) and item:
        is_pair = len(item) == 2 and all(isinstance(entry, str) for entry in item)
        if is_pair and _side(item[0], form):
            item = {"role": item[0], "content": item[1]}
        elif all(isinstance(entry, tuple) and len(entry) == 2 for entry in item):
            item = dict(item)  # a map of Parquet
    if isinstance(item, dict):
        return _messages_of_object(item, number, form, left_out)
    raise ValueError(f"turn {number} is {quote(item)}: expected a text, or a message with a role")


def _refuse_other_items(items):
    """Raise ValueError if a list holds numbers, or texts beside messages."""
    has_message = any(isinstance(item, dict) for item in items)
    for number, item in enumerate(items, 1):
        is_text_among_others = isinstance(item, str) and has_message
        if is_text_among_others or not isinstance(item, (str, dict, list, tuple, type(None))):
            raise ValueError(
                f"turn {number} is {quote(item)}: expected texts alone, or messages alone"
            )


def _messages_of_object(item, number, form, left_out):
    """Return the messages of one object: none if nothing in it is spoken."""
    role = item.get("role")
    text = item.get("content")
    if type(role) is str and type(text) is str and len(item) == 2:
        side = _side(role, form)
        if side in ("user", "assistant") and not is_blank(text):
            return [Message(side, "", text)]

    item = _unwrapped(item)
    unspoken = _unspoken_type(item.get("type"))
    if unspoken:
        left_out[unspoken] += 1
        return []
    n_left_out = left_out.total()
    for key in aliases.TOOL_CALLS:
        if item.get(key):
            calls = item[key]
            left_out["tool calls"] += len(calls) if isinstance(calls, list) else 1
    text = _text_of(item, number, left_out)
    if text is None:
        return _messages_by_side(item, number, form, left_out)
    side, name = _speaker(item, number, text, form)
    if side == "tool":
        left_out["tool results"] += 1
        return []
    if is_blank(text):
        # A turn without text may be a call of a tool or an image, which has been counted.
        if left_out.total() == n_left_out:
            left_out["blank turns"] += 1
        return []
    return [Message(side, name, text)]


def _unwrapped(item):
    """Return a message with keys in small letters, taken out of what it is wrapped in."""
    for _ in range(_DEEPEST):
        item = in_small_letters(item)
        wrappers = [key for key in aliases.WRAPPERS if isinstance(item.get(key), dict)]
        has_text = any(isinstance(item.get(key), (str, list)) for key in aliases.TEXT_KEYS)
        if not wrappers or has_text:
            break
        wrapper = wrappers[0]
        inner = in_small_letters(item[wrapper])
        if not any(key in inner for key in (*aliases.TEXT_KEYS, *aliases.WRAPPERS)):
            break
        outer = {key: entry for key, entry in item.items() if key != wrapper}
        if wrapper == "kwargs":
            # LangChain writes the class of a message: ["langchain", "schema", "HumanMessage"].
            path = outer.pop("id", None)
            outer.pop("type", None)
            if isinstance(path, list) and path:
                outer["role"] = path[-1]
        item = outer | inner
    return item


def _unspoken_type(value):
    """Return what a message or part of this type is counted as; "" if it may be spoken."""
    if not isinstance(value, str) or value.lower() in aliases.SPOKEN_TYPES:
        return ""
    for end, kind in aliases.UNSPOKEN_TYPES.items():
        if value.lower().endswith(end):
            return kind
    return ""


def _text_of(item, number, left_out):
    """Return the text of a message, None if it has no key for one."""
    texts = {}
    for key in aliases.TEXT_KEYS:
        entry = item.get(key)
        if entry is not None:
            texts[key] = text_of_content(entry, f"{key} of message {number}", left_out)
        elif key in item:
            texts[key] = ""
    spoken = {key: text for key, text in texts.items() if text.strip()}
    if not texts:
        return None
    if len({" ".join(text.split()) for text in spoken.values()}) > 1:
        raise ValueError(
            f"message {number} has different texts as {' and '.join(spoken)}: leave one of them out"
        )
    return next(iter(spoken.values()), "")


def text_of_content(content: Any, location: str, left_out: Counter) -> str:
    """Return the spoken text of a message's content: a text, or a list of parts.

    ValueError, which says ``location``, if it has something else.
    """
    if isinstance(content, str):
        return content
    if hasattr(content, "tolist"):
        content = content.tolist()
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, (list, tuple)):
        raise ValueError(f"{location} is {quote(content)}: expected a text")
    texts = [_text_of_part(content_part, location, left_out) for content_part in content]
    return " ".join(text for text in texts if text.strip())


def _text_of_part(content_part, location, left_out):
    """Return the spoken text of one part of a content; "" if it is something else, which counts."""
    if isinstance(content_part, str):
        return content_part
    if not isinstance(content_part, dict):
        raise ValueError(f"{location} has {quote(content_part)}: expected a text")
    content_part = in_small_letters(content_part)
    unspoken = _unspoken_type(content_part.get("type"))
    if content_part.get("thought") is True:
        unspoken = "thoughts"
    for key, value in content_part.items():
        kind = _UNTYPED_PARTS.get(key.replace("_", ""))
        unspoken = kind if kind and value else unspoken
    if unspoken:
        left_out[unspoken] += 1
        return ""
    for key in ("text", "value", "content", "refusal", "body", "message", "parts"):
        entry = content_part.get(key)
        if isinstance(entry, str):
            return entry
        if isinstance(entry, (dict, list)):
            return text_of_content(entry, location, left_out)
    raise ValueError(f"{location} has a part with {names(content_part)}: expected its text")


def _messages_by_side(item, number, form, left_out):
    """Return the messages of an object without a key for the text.

    Its keys may be words for the sides: ``{"user": "Hi.", "bot": "Ho."}``.
    """
    if any(item.get(key) for key in aliases.TOOL_CALLS):
        return []
    sides = {key: _side(key, form) for key in item}
    are_texts = all(isinstance(text, str) for text in item.values())
    if item and are_texts and all(sides.values()):
        messages = []
        for key, text in item.items():
            message = {"role": key, "content": text}
            messages += _messages_of_object(message, number, form, left_out)
        return messages
    if any(item.get(key) for key in ("event", "type")):
        left_out["messages without text"] += 1
        return []
    raise ValueError(
        f"message {number} has {names(item)}: expected who speaks and a text, such as role and "
        "content"
    )


def _side(word, form):
    """Return the side that a word means, "" if it is not known."""
    word = str(word).strip().lower()
    own_roles = {key.lower(): side for key, side in form.roles.items()}
    return own_roles.get(word) or aliases.ROLES.get(_MESSAGE_CLASS.sub("", word), "")


def _speaker(item, number, text, form):
    """Return the side and the name of a message's speaker."""
    role = None
    for key in aliases.ROLE_KEYS:
        entry = item.get(key)
        if isinstance(entry, dict):  # {"author": {"role": "user"}}
            entry = entry.get("role")
        is_neutral = key == "type" and str(entry).lower() in aliases.NEUTRAL_TYPES
        is_name = key == "author" and not _side(entry, form)
        if isinstance(entry, str) and entry and not is_neutral and not is_name:
            role = (key, entry)
            break
    name = ""
    for key in (*aliases.NAME_KEYS, "from"):
        entry = item.get(key)
        if isinstance(entry, dict):
            entry = entry.get("name")
        elif key == "from":
            continue
        if isinstance(entry, (str, int)) and str(entry).strip():
            name = str(entry).strip()
            break

    if role is None and not name:
        raise ValueError(
            f"message {number} has {names(item)}, and none of them says who speaks: expected a "
            "role, or a list of texts"
        )
    if role is None:
        side = _side(name, form)
        is_decided = name.lower() in map(str.lower, form.roles)
        # A dialogue system is often called "system": `_sides` decides what is meant.
        return ("speaking system" if side == "system" and not is_decided else side), name
    key, word = role
    side = _side(word, form)
    if not side and not text.strip():
        return "", ""
    if not side:
        raise ValueError(
            f"message {number} has the {key} {quote(word)}: expected one of "
            f"{names(aliases.ROLES)}; --role {word}=user or --role {word}=assistant says which"
        )
    return side, name


def _sides(messages, form, left_out):
    """Return the messages without system prompts, those of one speaker in a row as one."""
    sides = {message.side for message in messages}
    if "speaking system" in sides:
        messages = _named_systems(messages, sides)
    elif "system" in sides and "assistant" not in sides:
        _refuse_late_system(messages, form)
    spoken = []
    for message in messages:
        if message.side == "system":
            left_out["system prompts"] += 1
            continue
        has_speaker = message.side or message.name
        if spoken and has_speaker and spoken[-1][:2] == message[:2]:
            text = f"{spoken[-1].text} {message.text}"
            spoken[-1] = spoken[-1]._replace(text=text)
        else:
            spoken.append(message)
    return spoken


def _named_systems(messages, sides):
    """Return messages whose speaker is called "system" with the side that is meant.

    It is the dialogue system unless somebody else is an assistant.
    """
    of_system = [i for i, message in enumerate(messages) if message.side == "speaking system"]
    if "assistant" not in sides and of_system == [0] and len(messages) > 1:
        raise ValueError(
            f"the first speaker of {len(messages)} is {messages[0].name!r}, who says "
            f"{quote(messages[0].text)}: is it a prompt or a dialogue system? "
            f"--role {messages[0].name}=system or --role {messages[0].name}=assistant decides"
        )
    side = "system" if "assistant" in sides else "assistant"
    return [
        message._replace(side=side) if message.side == "speaking system" else message
        for message in messages
    ]


def _refuse_late_system(messages, form):
    """Raise ValueError if a role "system" speaks after the user, and nobody is the assistant."""
    if any(side == "system" for side in form.roles.values()):
        return
    has_user = False
    for number, message in enumerate(messages, 1):
        has_user = has_user or message.side == "user"
        if message.side == "system" and has_user:
            raise ValueError(
                f"message {number} is of 'system', and none is of an assistant: is it a prompt or "
                "a dialogue system? --role system=system or --role system=assistant decides"
            )


def turns_of(value: Any) -> tuple[str, ...]:
    """Return the turns of a dialogue as texts; see `messages_of`."""
    return tuple(message.text for message in messages_of(value, PLAIN, Counter()))


def reply_in(value: Any, location: str, left_out: Counter) -> Any:
    """Return the text of a response that may be a message or the answer of a service.

    Values that are neither are returned as they are. ValueError if there are several replies.
    """
    if isinstance(value, str) or not isinstance(value, (list, dict)):
        return value
    if isinstance(value, dict):
        for key in aliases.ANSWERS:
            if isinstance(value.get(key), (list, dict)):
                return reply_in(value[key], f"{location}.{key}", left_out)
        item = _unwrapped(value)
        if not any(key in item for key in aliases.TEXT_KEYS):
            return value
        return _text_of(item, 1, left_out)
    if not value or not all(isinstance(item, dict) for item in value):
        return value
    texts = []
    for item in value:
        item = _unwrapped(item)
        unspoken = _unspoken_type(item.get("type"))
        if unspoken:
            left_out[unspoken] += 1
        elif _side(item.get("role"), PLAIN) == "tool":
            left_out["tool results"] += 1
        else:
            text = _text_of(item, 1, left_out)
            if text is not None and text.strip():
                texts.append(text)
    if len(texts) > 1:
        raise ValueError(f"{location} has {len(texts)} texts: expected one reply")
    return texts[0] if texts else value


def split(messages: list[Message], form: Form, left_out: Counter) -> tuple[list[Message], str]:
    """Return the messages before a response, and the response.

    That is the last message of the assistant, or with ``last_turn`` the last of all. ValueError if
    there is none.
    """
    if form.last_turn:
        if not messages:
            raise ValueError("the dialogue has no turn")
        return messages[:-1], messages[-1].text
    for i in reversed(range(len(messages))):
        if messages[i].side == "assistant":
            behind = len(messages) - i - 1
            if behind:
                left_out["messages behind the last reply"] += behind
            return messages[:i], messages[i].text
    speakers = names(message.name or message.side for message in messages if any(message[:2]))
    if speakers == "nothing":
        raise ValueError(
            f"the dialogue has {len(messages)} turns that say something, and none says who "
            "speaks: --last-turn takes "
            "the last as the response, --field response=COLUMN another column"
        )
    raise ValueError(
        f"no message is of the assistant (found: {speakers}): --role NAME=assistant says who it "
        "is, --last-turn takes the last turn as the response"
    )
