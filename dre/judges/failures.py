"""Calls that bring no reply: what a provider's error means, and how long to wait.

Messages quote the provider's words, and never contain a key.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from dre.judges import wire

_LONGEST_MESSAGE = 300  # characters of an error that are kept
_DEEPEST_ERROR = 3  # errors within errors that are looked at
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
# A quota that is full until another day.
_PER_DAY = re.compile(r"per[ -_]?day|daily|\b[RT]PD\b|24 ?hours", re.IGNORECASE)
# No such path on this server: what LM Studio, FastAPI, llama.cpp, nginx and others say.
_NO_PATH = re.compile(
    r"unexpected endpoint|no route|(route|endpoint|path|url|page|file)\b.{0,60}\bnot found"
    r"|not found on this server|cannot (post|get) /|unknown (endpoint|path|route|url)",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model\b.{0,80}(not found|does not exist|not exist|unknown|no such)|unknown model"
    r"|no models? (is |are )?loaded",
    re.IGNORECASE,
)
_NO_RIGHT = re.compile(
    r"unauthorized|invalid.{0,20}(api.?key|token)|authentication|permission|forbidden",
    re.IGNORECASE,
)
_TOO_MANY = re.compile(r"rate.?limit|too many requests|quota", re.IGNORECASE)
_LOGPROBS = re.compile("logprobs")
# What a server says of a number that is too large for it, such as of alternatives.
_BOUND = re.compile(
    r"at most|less than|greater than|more than|maximum|\bmax\b|range|between|exceed|up to|<=?|\.\."
    r"|limit",
    re.IGNORECASE,
)
_STRUCTURED = re.compile(
    "response_format|json_schema|output_config|response_?schema|response_?mime_?type"
    "|guided[ _-]?(decoding|json|generation|grammar)|structured[ _-]?outputs?|xgrammar|llguidance"
    "|outlines|lm.format.enforcer|json[ _]mode|constrained (decoding|generation)"
    "|(pars|compil|fail|invalid|unsupported|error).{0,40}grammar"
    "|grammar.{0,40}(pars|compil|fail|invalid|unsupported|error)",
    re.IGNORECASE,
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
# How the limit on a reply, ``max_tokens`` here, is called in what is sent.
_NAMES_OF_THE_LIMIT = ("max_completion_tokens", "max_output_tokens", "num_predict")
_SECRETS = re.compile(
    r"\b(?:sk|rk|pk|sess|gsk)-[\w-]{6,}|\bAIza[\w-]{8,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}"
)
_UNSENT = re.compile(
    "Connect(Error|Timeout)|NewConnection|NameResolution|ProxyError|SSLCert|refused"
    "|Failed to connect"
)


class SentRequest(NamedTuple):
    """What was sent, and where.

    ``schema`` is the JSON schema of the reply (None without one), and ``advice_on_address`` what
    may be wrong with the address ("" for nothing).
    """

    messages: Sequence[dict[str, str]] = ()
    params: Mapping[str, Any] = {}
    schema: dict[str, Any] | None = None
    address: str = ""
    advice_on_address: str = ""


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
    answered : bool
        Whether a server answered, with what is no reply.
    broken : bool
        Whether the line broke before a server said anything.
    later : bool
        Whether the same call may succeed on another day.
    """

    def __init__(
        self,
        message: str,
        then: str = "again",
        wait: float | None = None,
        billed: bool = False,
        sent: bool = True,
        answered: bool = False,
        broken: bool = False,
        later: bool = False,
    ):
        one_line = " ".join(str(message).split())
        super().__init__(redact(one_line)[:_LONGEST_MESSAGE])
        self.then = then
        self.wait = wait
        self.billed = billed
        self.sent = sent
        self.answered = answered
        self.broken = broken
        self.later = later


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
    error: Exception, key: str, key_variables: tuple[str, ...], request: SentRequest
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
    request : SentRequest
        What was sent, so that a server's echo of it is not mistaken for the server's own words.
    """
    response = _response_of(error)
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if not isinstance(status, int):
        status = getattr(response, "status_code", None)
    if not isinstance(status, int):
        return _without_status(error, key, request)

    headers = getattr(response, "headers", None)
    body = redact(getattr(response, "text", ""), key)
    message = redact(str(error), key)
    failure = of_status(status, message, headers, body, request)
    if status == 401 and not key_variables:
        return CallFailed(f"no key was sent, name its variable with --key-env: {failure}", "stop")
    return failure


def _without_status(error, key, request):
    """Return the failure of a call to which no HTTP status came."""
    causes = [error]
    while causes[-1].__cause__ or causes[-1].__context__:
        causes.append(causes[-1].__cause__ or causes[-1].__context__)
    chain = redact(" ".join(repr(cause) for cause in causes), key)
    cause = redact(repr(error.__cause__ or error), key)
    speaks_http = request.address.startswith("http:")
    certificate = re.search(r"certificate verify failed:? ?(.*?)\s*(\(_ssl|['\"]\)|$)", chain)
    advice = ""
    if certificate:
        advice = (
            f"the server's certificate is not accepted ({certificate[1]}): set SSL_CERT_FILE to a "
            "file with the certificate of its authority, or mend the certificate"
        )
    elif "WRONG_VERSION_NUMBER" in chain or "record layer failure" in chain:
        advice = "the server does not speak https at this address: write http:// (or another port)"
    elif speaks_http and re.search(r"illegal status line.{0,20}\\x1[56]\\x03", chain):
        advice = "the server speaks https at this address: write https://"
    if advice:
        return CallFailed(advice, "stop", sent=False)
    sent = not _UNSENT.search(cause) and not _UNSENT.search(chain)
    is_broken = sent and re.search("ReadError|RemoteProtocolError", chain) is not None
    if is_broken and speaks_http:
        advice = "the line broke (if the server speaks https, write https://); "
    return CallFailed(
        f"{advice}no answer, or none of this provider's: {cause}",
        billed=sent,
        sent=sent,
        broken=is_broken,
    )


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
    request = request or SentRequest()
    return _failure(f"HTTP {status}", status, body or message, request, headers or {}, message)


def in_body(body: Mapping[str, Any], key: str, request: SentRequest) -> CallFailed | None:
    """Return the failure that the body of a response with status 200 tells of, or None.

    Parameters
    ----------
    body : mapping
        The JSON that came. Proxies put errors of others into it, in several forms.
    key : str
        The key that was sent, which must not be shown.
    request : SentRequest
        What was sent.
    """
    error = _error_in(body)
    if isinstance(error, list):
        error = error[0]
    if error is None:
        return None
    text = redact(json.dumps({"error": error}, ensure_ascii=False, default=str), key)
    status = _status_in(error) or _status_in(body)
    event = "HTTP 200 with an error"
    if status:
        event += f" ({status})"
    failure = _failure(event, status, text, request, {})
    failure.answered = True
    return failure


def _failure(event, status, body, request, headers, message=""):
    """Return the failure that a server's words mean, with its HTTP status or without one."""
    words = _server_words(body)
    own_words = _without_echo(f"{words.sentence} {words.codes}", request)
    if status is None:
        decision = _decide_by_words(own_words, words.parameter, request)
    else:
        location = headers.get("location")
        decision = _decide(status, own_words, words.parameter, request, location)
    said = words.sentence or message or words.codes or body
    is_full_for_a_day = status in (None, 402, 403, 429) and _PER_DAY.search(own_words) is not None
    return CallFailed(
        f"{event}: {decision.advice}{said}",
        decision.then,
        _wait_of(headers, body),
        later=is_full_for_a_day,
    )


def _error_in(body):
    """Return the error in a body that has one, else None."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, dict) and first.get("error"):
        return first["error"]
    for name in ("error", "errors"):
        if body.get(name):
            return body[name]
    if body.get("object") == "error" or body.get("type") == "error":
        return dict(body)
    has_reply = any(body.get(name) for name in ("choices", "candidates", "content"))
    has_message = isinstance(body.get("message"), dict)
    if has_reply or has_message:
        return None
    for name in ("detail", "message", "msg", "error_message", "error_msg"):
        if body.get(name):
            return {**body, "message": body[name]}
    return None


def _status_in(error):
    """Return the HTTP status that an error names, or None."""
    if not isinstance(error, Mapping):
        return None
    for name in ("code", "status", "status_code", "http_code"):
        value = error.get(name)
        text = str(value) if isinstance(value, int | str) else ""
        if re.fullmatch("[45][0-9][0-9]", text):
            return int(text)
    return None


def _decide_by_words(own_words, blamed, request):
    """Return what to do after an error that names no status, by what the server says."""
    status = 400
    if _NO_PATH.search(own_words) or _NO_MODEL.search(own_words):
        status = 404
    elif _NO_RIGHT.search(own_words):
        status = 401
    elif _TOO_MANY.search(own_words):
        status = 429
    decision = _decide(status, own_words, blamed, request)
    is_known = status != 400 or decision.advice or decision.then == "stop"
    return decision if is_known else _Decision("again")


class _Decision(NamedTuple):
    """What to do after a failure (see `CallFailed`), and what goes before the server's words."""

    then: str
    advice: str = ""


def _decide(status, own_words, blamed, request, location=None):
    """Return what to do after an error, by its HTTP status and by what the server says.

    `blamed` is the parameter that the server names in a field of its own, as OpenAI does.
    """
    sent_schema = request.schema is not None
    is_bad_request = status in (400, 422)

    if 300 <= status < 400:
        host = f" ({location.partition('?')[0]})" if location else ""
        return _Decision(
            "stop", f"the server passes calls on to another address{host}; give that: "
        )
    if status in (404, 405, 410, 501):
        return _Decision("stop", "" if _NO_MODEL.search(own_words) else request.advice_on_address)
    if status in (401, 402, 403):
        return _Decision("stop")
    if status == 407:
        return _Decision("stop", "a proxy stands before the server and asks for a password: ")
    if status == 400 and "HTTPS port" in own_words:
        return _Decision("stop", "the server speaks https at this address, write https://: ")
    if status in (400, 429) and _SPENT.search(own_words):
        return _Decision("stop")
    if status == 429 and _PER_DAY.search(own_words):
        return _Decision("stop", "the quota of the day is used up: ")
    if status == 429:
        return _Decision("skip" if _NEVER_FITS.search(own_words) else "slower")
    if (is_bad_request or status in (413, 500)) and _TOO_LONG.search(own_words):
        advice = "the prompt is longer than the server's context, "
        return _Decision("skip", advice + "start it with a longer one, if it is yours: ")
    if (is_bad_request or status == 500) and _LOGPROBS.search(own_words):
        most = _most_alternatives(own_words, request)
        if most:
            advice = f"it gives at most {most} log-probabilities a token, "
            return _Decision("stop", advice + f"give --param top_logprobs={most}: ")
        advice = "it gives no log-probabilities: leave logprobs out, "
        return _Decision("stop", advice + "or start it so that it does: ")
    if is_bad_request:
        parameter = _refused_parameter(own_words, blamed, request)
        if parameter:
            return _Decision("stop", f"it does not take this {parameter}, change or omit it: ")
    if (is_bad_request or status == 500) and sent_schema and _STRUCTURED.search(own_words):
        return _Decision("stop", "it has no structured output, give --plain: ")
    if is_bad_request and sent_schema and _ABOUT_STRUCTURE.search(own_words):
        return _Decision("skip", "if the model has no structured output, give --plain: ")
    if status in (408, 409) or status >= 500:
        return _Decision("again")
    return _Decision("skip")


def _most_alternatives(own_words, request):
    """Return how many log-probabilities a token may have, if a server says so; else None."""
    n_asked = request.params.get("top_logprobs")
    if not isinstance(n_asked, int) or not _BOUND.search(own_words):
        return None
    # Names of models and versions have numbers, too.
    numbers = re.findall(r"(?<![\w.-])[0-9]+(?![\w-]|\.[0-9])", own_words)
    numbers += re.findall(r"\.\.=?([0-9]+)", own_words)
    below = [int(number) for number in numbers if 0 < int(number) < n_asked]
    if not below:
        return None
    is_strict = re.search(rf"less than {max(below)}\b", own_words)
    return max(below) - 1 if is_strict else max(below)


def refuses_name(failure_words: str, name: str) -> bool:
    """Return whether a server's words say that it has no parameter of this name.

    That its value is too large is another matter.
    """
    pattern = (
        r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|extra (inputs?|fields?)"
        r"|not (permitted|allowed)|deprecated|no longer|invalid (parameter|argument)"
        r"|use ['\"`]?max_"
    )
    is_named = re.search(rf"(?<![\w]){name}\b", failure_words) is not None
    return is_named and re.search(pattern, failure_words, re.IGNORECASE) is not None


def _refused_parameter(own_words, blamed, request):
    """Return the parameter of this request that a server complains about, or "" if it is none."""
    if blamed in request.params or (blamed in _NAMES_OF_THE_LIMIT):
        return blamed
    if not _COMPLAINT.search(own_words):
        return ""
    names = list(request.params)
    if "max_tokens" in names:
        names += _NAMES_OF_THE_LIMIT
    for name in names:
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
        return _ServerWords(wire.words_of_page(body)[:_LONGEST_WORDS])
    if isinstance(content, list) and content:
        content = content[0]
    if not isinstance(content, dict):
        return _ServerWords("")

    error = content.get("error") or content.get("errors") or content
    if isinstance(error, list):
        error = error[0]
    if isinstance(error, str):
        return _ServerWords(error[:_LONGEST_WORDS])
    if not isinstance(error, dict):
        return _ServerWords("")
    sentences = _sentences(error)
    codes = [str(error[field]) for field in ("code", "type", "status") if error.get(field)]
    if error.get("details"):
        codes.append(json.dumps(error["details"]))
    parameter = error.get("param")
    return _ServerWords(
        " ".join(sentences)[:_LONGEST_WORDS],
        " ".join(codes)[:_LONGEST_WORDS],
        parameter if isinstance(parameter, str) else "",
    )


def _sentences(error, depth=0):
    """Return what an error says, also where one object of an error holds another."""
    sentences = []
    for field in ("message", "msg", "detail"):
        value = error.get(field)
        if isinstance(value, str):
            sentences.append(value)
        elif isinstance(value, dict) and depth < _DEEPEST_ERROR:
            sentences.extend(_sentences(value, depth + 1))
        elif isinstance(value, list):  # FastAPI's: each with a location, a message and the input
            sentences.extend(_validation_message(entry) for entry in value)
    return sentences


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
