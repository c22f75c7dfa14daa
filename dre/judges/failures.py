"""Calls that bring no reply: what a provider's error means, and how long to wait.

Messages quote the provider's words, and never contain a key.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

_LONGEST_MESSAGE = 300  # characters of an error that are kept
_LONGEST_WORDS = 4000  # characters of a server's own words that are looked at
# Seconds; the longest wait for a date that can only be compared with this machine's clock.
_UNSURE_WAIT = 60.0

# A quota that will not be there again soon; a limit per minute may speak of billing, too.
_SPENT = re.compile("insufficient_quota|PerDay|credit balance|API_KEY_INVALID|API key not valid")
# A prompt that does not fit, in the words of OpenAI, vLLM, llama.cpp, llama-cpp-python, Anthropic,
# Gemini and Ollama.
_TOO_LONG = re.compile(
    r"context[ _](length|size|window)|maximum model length|prompt is too long"
    r"|input token count .{0,40}exceeds|could not broadcast input array",
    re.IGNORECASE,
)
# A request that is larger than all that a limit per minute allows, in OpenAI's words.
_NEVER_FITS = re.compile("request too large|must be reduced", re.IGNORECASE)
_LOGPROBS = re.compile("logprobs")
_STRUCTURED = re.compile(
    "response_format|json_schema|output_config|response_?schema|response_?mime_?type", re.IGNORECASE
)
_ABOUT_STRUCTURE = re.compile("schema|structured|json|format", re.IGNORECASE)
# Messages of servers about a parameter that they do not accept, or not with this value.
_COMPLAINT = re.compile(
    "support|unknown|unrecogni|unexpected|invalid|permitted|allowed|deprecat|remov|must|should"
    "|expected|maximum|minimum|exceed|greater|less than|range|incompatib|only|cannot|extra",
    re.IGNORECASE,
)
# Parameters whose names are ordinary words. They are meant where they stand in quotation marks, in
# a path, or first and before a colon.
_ORDINARY_WORDS = {
    "effort",
    "reasoning",
    "seed",
    "speed",
    "stop",
    "store",
    "think",
    "thinking",
    "user",
}
_SECRETS = re.compile(
    r"\b(?:sk|rk|pk|sess|gsk)-[\w-]{6,}|\bAIza[\w-]{8,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}"
)
_UNSENT = re.compile(
    "Connect(Error|Timeout)|NewConnection|NameResolution|ProxyError|SSLCert|refused"
    "|Failed to connect"
)


class SentRequest(NamedTuple):
    """What was sent: messages, parameters, and the JSON schema of the reply (None without one)."""

    messages: list[dict[str, str]]
    params: Mapping[str, Any]
    schema: dict[str, Any] | None


class CallFailed(Exception):
    """A call brought no reply.

    Parameters
    ----------
    message : str
        What happened, in one sentence. It is cut after some 300 characters.
    then : str
        What to do: ask ``again``; make all calls ``slower``; ask again, but not often (``late``:
        nothing came in time, or nothing that can be understood); ``skip`` this request; ``stop``
        the run.
    wait : float or None
        Seconds to wait first, if the server said so.
    billed, sent : bool
        Whether the call may have been billed, and whether it reached a server.
    """

    def __init__(
        self,
        message: str,
        then: str = "again",
        wait: float | None = None,
        billed: bool = False,
        sent: bool = True,
    ):
        one_line = " ".join(str(message).split())
        super().__init__(redact(one_line)[:_LONGEST_MESSAGE])
        self.then = then
        self.wait = wait
        self.billed = billed
        self.sent = sent


def redact(text: str, key: str = "") -> str:
    """Return a text without `key`, the keys in the environment, and what looks like a key."""
    secrets = [key]
    for name, value in os.environ.items():
        if re.search(r"(KEY|TOKEN|SECRET|PASSWORD)$", name):
            secrets.append(value)
    for secret in secrets:
        if len(secret) >= 6:
            text = text.replace(secret, "[key]")
    return _SECRETS.sub("[key]", text)


def of_error(
    error: Exception, key: str, key_variables: tuple[str, ...], request: SentRequest | None = None
) -> CallFailed:
    """Return the failure that an error of an SDK means.

    Parameters
    ----------
    error : Exception
        Each SDK has its own errors; a status, a response and a message are found in all of them.
    key : str
        The key that was sent, which must not be shown.
    key_variables : tuple of str
        The variables in which the key was looked for; empty if none was sent.
    request : SentRequest or None
        What was sent, so that a server's echo of it is not mistaken for the server's own words.
    """
    response = _response_of(error)
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if not isinstance(status, int):
        status = getattr(response, "status_code", None)
    if not isinstance(status, int):  # a broken line, or an answer of another form
        cause = redact(repr(error.__cause__ or error), key)
        sent = not _UNSENT.search(cause)
        return CallFailed(f"no answer, or none of this provider's: {cause}", billed=sent, sent=sent)

    headers = getattr(response, "headers", None)
    body = redact(getattr(response, "text", ""), key)
    message = redact(str(error), key)
    failure = of_status(status, message, headers, body, request)
    if status == 401 and not key_variables:
        return CallFailed(f"no key was sent, name its variable with --key-env: {failure}", "stop")
    return failure


def _response_of(error):
    """Return the HTTP response that an error or its cause carries, or None."""
    for carrier in (error, error.__context__):
        response = getattr(carrier, "response", None)
        if response is not None:
            return response
    return None


def of_status(
    status: int,
    message: str,
    headers: Mapping[str, str] | None = None,
    body: str = "",
    request: SentRequest | None = None,
) -> CallFailed:
    """Return the failure that an HTTP status means.

    What may pass (408, 409, 429, 5xx) is tried again. What meets every call alike stops the run: a
    wrong key, a spent quota, another address, a parameter or a form of reply that the model does
    not have. What is wrong with this request alone is skipped.

    Parameters
    ----------
    status : int
        The HTTP status.
    message : str
        The message of the SDK, which is used where the body has none.
    headers, body : mapping and str
        Of the response.
    request : SentRequest or None
        What was sent.
    """
    headers = headers or {}
    words = _server_words(body or message)
    decision = _decide(status, words, request, headers.get("location"))
    text = f"HTTP {status}: {decision.advice}{words.sentence or message}"
    return CallFailed(text, decision.then, _wait_of(headers, body or message))


class _Decision(NamedTuple):
    """What to do after a failure (see `CallFailed`), and what goes before the server's words."""

    then: str
    advice: str = ""


def _decide(status, words, request, location):
    """Return what to do after an error, by its HTTP status and by what the server says."""
    own_words = _without_echo(f"{words.sentence} {words.codes}", request)
    sent_schema = request is None or request.schema is not None
    is_bad_request = status in (400, 422)

    if 300 <= status < 400:
        host = f" ({location.partition('?')[0]})" if location else ""
        return _Decision(
            "stop", f"the server passes calls on to another address{host}; give that: "
        )
    if status in (401, 402, 403, 404):
        return _Decision("stop")
    if status in (400, 429) and _SPENT.search(own_words):
        return _Decision("stop")
    if status == 429:
        return _Decision("skip" if _NEVER_FITS.search(own_words) else "slower")
    if (is_bad_request or status in (413, 500)) and _TOO_LONG.search(own_words):
        advice = "the prompt is longer than the server's context, "
        return _Decision("skip", advice + "start it with a longer one, if it is yours: ")
    if (is_bad_request or status == 500) and _LOGPROBS.search(own_words):
        advice = "it gives no log-probabilities: leave logprobs out, "
        return _Decision("stop", advice + "or start it so that it does: ")
    if is_bad_request:
        parameter = _refused_parameter(own_words, words.parameter, request)
        if parameter:
            return _Decision("stop", f"it does not take this {parameter}, change or omit it: ")
    if (is_bad_request or status == 500) and sent_schema and _STRUCTURED.search(own_words):
        return _Decision("stop", "it has no structured output, give --plain: ")
    if is_bad_request and sent_schema and _ABOUT_STRUCTURE.search(own_words):
        return _Decision("skip", "if the model has no structured output, give --plain: ")
    if status in (408, 409) or status >= 500:
        return _Decision("again")
    return _Decision("skip")


def _refused_parameter(own_words, blamed, request):
    """Return the parameter of this request that a server complains about, or "" if it is none.

    `blamed` is the parameter that the server names in a field of its own, as OpenAI does.
    """
    if request is None:
        return ""
    if blamed in request.params:
        return blamed
    if not _COMPLAINT.search(own_words):
        return ""
    for name in request.params:
        word = re.escape(name)
        if name in _ORDINARY_WORDS:
            pattern = rf"['\"`.]{word}['\"`:]|^{word}: "
        else:
            pattern = rf"\b{word}\b"
        if re.search(pattern, own_words):
            return name
    return ""


# What a server says


class _ServerWords(NamedTuple):
    """A server's own sentence about an error, its codes, and the parameter that it blames."""

    sentence: str
    codes: str = ""
    parameter: str = ""


def _server_words(body):
    """Return the message in the body of any provider's error, without the echoed input."""
    try:
        content = json.loads(body)
    except ValueError:
        return _ServerWords(re.sub("<[^>]*>", " ", body)[:_LONGEST_WORDS])
    if isinstance(content, list) and content:
        content = content[0]
    if not isinstance(content, dict):
        return _ServerWords("")

    error = content.get("error", content)
    if isinstance(error, str):
        return _ServerWords(error[:_LONGEST_WORDS])
    if not isinstance(error, dict):
        return _ServerWords("")
    sentences = []
    for field in ("message", "msg", "detail"):
        value = error.get(field)
        if isinstance(value, str):
            sentences.append(value)
        elif isinstance(value, list):  # FastAPI's: each with a location, a message and the input
            sentences.extend(_validation_message(entry) for entry in value)
    codes = [str(error[field]) for field in ("code", "type", "status") if error.get(field)]
    if error.get("details"):
        codes.append(json.dumps(error["details"]))
    parameter = error.get("param")
    return _ServerWords(
        " ".join(sentences)[:_LONGEST_WORDS],
        " ".join(codes)[:_LONGEST_WORDS],
        parameter if isinstance(parameter, str) else "",
    )


def _validation_message(entry):
    """Return the field and the message of one entry of a list of validation errors."""
    if not isinstance(entry, dict):
        return str(entry)
    steps = entry.get("loc")
    location = ".".join(str(step) for step in steps) if isinstance(steps, list) else ""
    return f"{location}: {entry.get('msg', '')}"


def _without_echo(text, request):
    """Return a text without the passages of four and more words that were sent in the messages.

    A dialogue may speak of anything, also of contexts, windows and temperatures.
    """
    if request is None:
        return text
    # Where each passage of four words begins in the text.
    words = list(re.finditer(r"\w+", text))
    passages = {}
    for start in range(len(words) - 3):
        passage = tuple(word[0] for word in words[start : start + 4])
        passages.setdefault(passage, []).append(start)

    # The numbers of the words that belong to a passage of a message.
    echoed = set()
    for message in request.messages:
        latest = ()
        for word in re.finditer(r"\w+", message["content"]):
            latest = (*latest[-3:], word[0])
            for start in passages.get(latest, ()):
                echoed.update(range(start, start + 4))

    # Cut the echoed words out of the text.
    pieces = []
    end = 0
    for number, word in enumerate(words):
        if number in echoed:
            pieces.append(text[end : word.start()])
            end = word.end()
    pieces.append(text[end:])
    return "".join(pieces)


# How long to wait


def _wait_of(headers: Mapping[str, str], body: str) -> float | None:
    """Return the seconds that a server asks to wait, in any form that is in use, or None.

    A date is compared with the server's own clock, if it says its time. Else only this machine's
    clock is left, which may be wrong; no more than a minute is then waited.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        header = (headers.get(name) or "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", header):
            return float(header) * unit
    until = _date(headers.get("retry-after"))
    if until is not None:
        now = _date(headers.get("date"))
        if now is not None:
            return max(0.0, (until - now).total_seconds())
        return min(_UNSURE_WAIT, max(0.0, (until - datetime.now(UTC)).total_seconds()))
    # Gemini says it in the body.
    delay = re.search(r"retry_?delay[\s\"':{]*(?:seconds)?[\s:]*(\d+(?:\.\d+)?)", body, re.I)
    return float(delay[1]) if delay else None


def _date(text):
    """Return the moment that an HTTP date names, or None."""
    with contextlib.suppress(ValueError, TypeError):
        moment = parsedate_to_datetime((text or "").strip())
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
