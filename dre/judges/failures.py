"""Calls that bring no reply: what a provider's error stands for, and how long to wait. No key is in what is said."""

import contextlib
import os
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# What says that a quota will not be there again soon; a limit per minute may speak of billing, too.
_SPENT = re.compile("insufficient_quota|PerDay|credit balance|API_KEY_INVALID|API key not valid")
# What a server says to every call alike, and what to do; llama-cpp-python says so with status 500.
_UNABLE = {
    "logprobs": "it gives no log-probabilities: leave logprobs out, or start it so that it does",
    "response_format|json_schema": "it has no structured output: give --plain",
}
# A prompt that does not fit; the last is what llama-cpp-python says, with status 500.
_LONG = re.compile(
    "context.{0,20}(length|size|window)|prompt is too long|could not broadcast input array", re.I
)
_SECRETS = re.compile(
    r"\b(?:sk|rk|pk|sess|gsk)-[\w-]{6,}|\bAIza[\w-]{8,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}"
)
_UNSENT = re.compile(
    "Connect(Error|Timeout)|NewConnection|NameResolution|ProxyError|SSLCert|refused|Failed to connect"
)


class CallFailed(Exception):
    """A call brought no reply: what to do ``then``, after what ``wait``; whether it is ``billed``, was ``sent``.

    ``then``: ask ``again``, all calls ``slower``, again but not often (``late``: no word in time, or none that can be
    read), ``skip``, ``stop``.
    """

    def __init__(self, message, then="again", wait=None, billed=False, sent=True):
        super().__init__(redact(" ".join(str(message).split()))[:300])
        self.then, self.wait, self.billed, self.sent = then, wait, billed, sent


def redact(text, key=""):
    """Return a text without keys: a key, the values of key-like environment variables, and what looks like one."""
    named = [
        value
        for name, value in os.environ.items()
        if re.search(r"(KEY|TOKEN|SECRET|PASSWORD)$", name)
    ]
    for value in (key, *named):
        text = text.replace(value, "[key]") if len(value) >= 6 else text
    return _SECRETS.sub("[key]", text)


def of_status(status, message, headers=None, body=""):
    """Return the failure that an HTTP status stands for: 408, 409, 429 and 5xx pass, 401-404 and spent quota do not."""
    body = body or message
    then = (
        "slower" if status == 429 else "again" if status in (408, 409) or status >= 500 else "skip"
    )
    if status in (401, 402, 403, 404) or (status in (400, 429) and _SPENT.search(body)):
        then = "stop"
    elif status in (400, 413, 422, 500) and _LONG.search(body):
        what = "the prompt is longer than the server's context: start it with a longer one, if it is yours"
        message, then = f"{what}: {message}", "skip"
    elif status in (400, 422, 500) and (
        wrong := [what for said, what in _UNABLE.items() if re.search(said, body)]
    ):
        message, then = f"{wrong[0]}: {message}", "stop"
    elif status in (400, 422):
        message += "; if the model has no structured output, give --plain"
    return CallFailed(f"HTTP {status}: {message}", then, wait_of(headers or {}, body))


def of_error(error, key, named):
    """Return the failure that an SDK's error stands for; each SDK has its own errors, with the same attributes."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if not isinstance(status, int):  # a broken line, or an answer of another form
        cause = redact(repr(error.__cause__ or error), key)
        sent = not _UNSENT.search(cause)
        return CallFailed(f"no answer, or none of this provider's: {cause}", billed=sent, sent=sent)
    responses = [getattr(one, "response", None) for one in (error, error.__context__)]
    response = next((one for one in responses if one is not None), None)
    hint = (
        "; no key was sent: name its variable with --key-env" if status == 401 and not named else ""
    )
    said = redact(str(error), key) + hint
    return of_status(
        status, said, getattr(response, "headers", None), getattr(response, "text", "")
    )


def wait_of(headers, body):
    """Return the seconds that a server asks to wait, in any form that is in use, or None."""
    for name, parts in (("retry-after-ms", 1000), ("retry-after", 1)):
        told = (headers.get(name) or "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", told):
            return float(told) / parts
        with contextlib.suppress(ValueError, TypeError):
            return max(0.0, (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds())
    told = re.search(
        r"retry_?delay[\s\"':{]*(?:seconds)?[\s:]*(\d+(?:\.\d+)?)", body, re.I
    )  # where Gemini says it
    return float(told[1]) if told else None
