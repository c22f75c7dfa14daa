"""What a server sent, byte by byte, before anybody takes it for a reply.

A reply is JSON. Some servers stream it although they were not asked to, in which case the pieces
are put together. Others send a page, nothing at all, or gigabytes. Each of these is told apart, so
that an error can say what came.
"""

import contextvars
import json
import re
from collections.abc import Callable
from typing import Any

#: The most bytes of a response that are read, once they are unpacked. The longest verdict with its
#: thinking and its log-probabilities has some megabytes.
MOST_BYTES = 16_000_000
_LONGEST_QUOTATION = 100  # characters of an odd answer that an error repeats

_EVENT = re.compile(r"^(?:data|event):", re.MULTILINE)
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_HIDDEN = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)


class NoReply(LookupError):
    """A server answered, but not with a reply: the message says with what."""


class TooLarge(Exception):
    """A response has more than `MOST_BYTES`."""


class Received:
    """What came in answer to a call.

    Attributes
    ----------
    status : int
        The HTTP status; 0 as long as no response was read.
    content_type : str
        As the server says, in lower case.
    content : bytes
        The body, or its beginning.
    is_too_large : bool
        Whether the body goes on behind `MOST_BYTES`.
    """

    def __init__(self):
        self.status = 0
        self.content_type = ""
        self.content = b""
        self.is_too_large = False

    @property
    def is_success(self) -> bool:
        """Whether the status says that all went well."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text, without a byte order mark."""
        charset = re.search(r"charset=\"?([\w-]+)", self.content_type)
        encoding = charset[1] if charset else "utf-8"
        try:
            text = self.content.decode(encoding, "replace")
        except LookupError:  # no such encoding
            text = self.content.decode("utf-8", "replace")
        return text.removeprefix("\ufeff")


_receiving: contextvars.ContextVar[Received | None] = contextvars.ContextVar("received")


def receive() -> Received:
    """Return where the responses to the calls of this task are noted from now on."""
    received = Received()
    _receiving.set(received)
    return received


async def note(response: Any) -> None:
    """Read a response of httpx as far as it may go, and note it: a hook of an HTTP client."""
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MOST_BYTES:
            break
    is_too_large = len(content) > MOST_BYTES
    if is_too_large:
        del content[_LONGEST_QUOTATION:]
        await response.aclose()
    # What the client's own reading would give. It is not read twice.
    response._content = bytes(content)
    received = _receiving.get(None)
    if received is not None:
        received.status = response.status_code
        received.content_type = response.headers.get("content-type", "").lower()
        received.content = response._content
        received.is_too_large = is_too_large


def limit_size(response: Any, **_: Any) -> None:
    """Read a response of requests, but no more than `MOST_BYTES`: a hook of its session."""
    content = bytearray()
    for piece in response.iter_content(65_536):
        content += piece
        if len(content) > MOST_BYTES:
            response.close()
            raise TooLarge
    response._content = bytes(content)


def body_of(received: Received, join: Callable[[list[dict]], dict]) -> Any:
    """Return the JSON that was received.

    Parameters
    ----------
    received : Received
        Of a call that went well.
    join : callable
        Puts the objects of a stream together, in the way of a provider.

    Raises
    ------
    NoReply
        If it is none, or a stream that broke off.
    """
    text = received.text
    if not text.strip():
        raise NoReply(f"an empty body (HTTP {received.status})")
    body = _json(text)
    if body is None:
        pieces = _pieces(text)
        if pieces:
            return join(pieces)
        raise NoReply(_in_words(text, received.content_type))
    if isinstance(body, list):
        are_objects = all(isinstance(piece, dict) for piece in body)
        if len(body) > 1 and are_objects:
            return join(body)
        if len(body) == 1:
            [body] = body
    if not isinstance(body, dict):
        raise NoReply(f"JSON that is no object: {quoted(text)}")
    return body


def _json(text):
    """Return what a text is as JSON, or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pieces(text):
    """Return the objects of a stream, by server-sent events or one on each line; [] for none."""
    lines = text.splitlines()
    if _EVENT.search(text):
        lines = []
        for event in re.split(r"\r?\n\r?\n", text):
            data = [line[5:] for line in event.splitlines() if line.startswith("data:")]
            lines.append("\n".join(data))
    pieces = []
    for line in lines:
        if line.startswith(":") or not line.strip():  # a comment, such as a sign of life
            continue
        if line.strip() == "[DONE]":
            pieces.append({"done": True})
            continue
        piece = _json(line)
        if not isinstance(piece, dict):
            if pieces:
                raise NoReply(f"a stream with what is no JSON: {quoted(line)}")
            return []
        pieces.append(piece)
    return pieces


def _in_words(text, content_type):
    """Say what a text is that is no JSON."""
    if _PAGE.match(text) or "html" in content_type:
        return f"a page (HTML) in place of JSON: {quoted(words_of_page(text))}"
    kind = content_type.partition(";")[0] or "no type"
    return f"what is no JSON ({kind}): {quoted(text)}"


def words_of_page(text: str) -> str:
    """Return the title and the words of a page, or any other text as it is."""
    title = _TITLE.search(text)
    visible = _HIDDEN.sub(" ", text)
    words = re.sub("<[^>]*>", " ", visible).split()
    words = " ".join(words)
    title_words = " ".join(title[1].split()) if title else ""
    return words if words.startswith(title_words) else f"{title_words} {words}"


def quoted(text: str) -> str:
    """Return the beginning of what a server sent, in quotation marks."""
    one_line = " ".join(text.split())
    return f"{one_line[:_LONGEST_QUOTATION]!r}"


_OF_ONE_PIECE = ("role", "type", "id")  # texts of a message that come whole, and may come again


def add(message: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a piece of a message to what came before: texts and lists grow, the rest is replaced."""
    for name, value in delta.items():
        previous = message.get(name)
        if isinstance(value, list) and isinstance(previous, list):
            message[name] = [*previous, *value]
        elif isinstance(value, str) and isinstance(previous, str) and name not in _OF_ONE_PIECE:
            message[name] = f"{previous}{value}"
        elif value is not None:
            message[name] = value
