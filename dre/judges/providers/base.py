"""What every provider does: build a request, ask, read the reply, and say what a failure means."""

import abc
import os
import re
from dataclasses import dataclass, field

from dre.errors import DreError
from dre.judges.limits import retry_after


@dataclass(slots=True)
class Reply:
    """A provider's answer.

    Attributes
    ----------
    text : str
    outcome : str
        ``ok``, ``refused`` (by the model or a content filter), ``truncated`` (by length) or ``empty``.
    input_tokens, output_tokens : int or None
    served_model : str
        The model the provider says it used.
    logprobs : list or None
        ``[token, logprob, [[token, logprob], ...]]`` a token.
    headers : dict
        Names in lower case.
    """

    text: str
    outcome: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    served_model: str = ""
    logprobs: list | None = None
    headers: dict = field(default_factory=dict)


class CallFailed(Exception):
    """A call brought no reply.

    ``billed``: the provider may charge for it all the same; ``sent``: it reached a server; ``status``: the HTTP status
    of the answer, None if there was none.
    """

    status = None

    def __init__(self, message, headers=None, wait=None, billed=False, sent=True):
        super().__init__(" ".join(redact(message).split())[:300])
        self.headers = headers or {}
        self.wait = retry_after(self.headers) if wait is None else wait
        self.billed, self.sent = billed, sent


class Transient(CallFailed):
    """Worth another attempt: overload, rate limit, time-out, lost connection."""


class Rejected(CallFailed):
    """This request is bad; another may not be."""


class Fatal(CallFailed):
    """No request can succeed: a bad key, no such model, no money left."""


_QUOTA = re.compile(r"insufficient_quota|billing|exceeded your current quota|credit balance|PerDay", re.IGNORECASE)
_SECRETS = re.compile(r"\b(?:sk|rk|pk|sess|gsk)-[\w-]{6,}|\bAIza[\w-]{8,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}")
# What --param may not set: the bound on a call's cost hangs on it, or an option sets it.
_OURS = {"max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict", "n", "candidate_count"}
_OURS |= {"messages", "model", "stream", "temperature", "top_p", "seed", "logprobs", "response_format", "output_config"}
_KEY_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")


def redact(text):
    """Return a text without keys: the values of key-like environment variables, and what looks like a key."""
    text = str(text)
    for name, value in os.environ.items():
        if len(value) >= 6 and _KEY_NAMES.search(name) and value in text:
            text = text.replace(value, "[key]")
    return _SECRETS.sub("[key]", text)


def failure(status, message, headers=None):
    """Return the failure an HTTP status stands for.

    408, 409, 429 and 5xx pass; 401, 402, 403, 404 and spent quota stop a run; other 4xx concern one request.
    """
    said = f"HTTP {status}: {message}"
    if status in (401, 402, 403, 404) or (status in (400, 429) and _QUOTA.search(str(message))):
        kind = Fatal
    else:
        kind = Transient if status in (408, 409, 429) or status >= 500 else Rejected
    failed = kind(said, headers)
    failed.status = status
    return failed


class Provider(abc.ABC):
    """One model of one provider.

    A subclass says its ``name``, the variable its key is in (``key_env``), whether it cannot do without one, and
    whether it takes a JSON schema (``structured``), returns log-probabilities and takes a seed.
    """

    name = ""
    key_env = ""
    needs_key = True
    structured = True
    logprobs = False
    seeds = True

    def __init__(self, model, base_url="", key_env=None):
        self.model, self.base_url = model, base_url
        self.key_env = key_env or self.key_env

    def __repr__(self):
        return f"{type(self).__name__}({self.model!r}, {self.base_url!r})"

    def key(self):
        """Return the key from the environment; it is held by the SDK's client and nowhere else."""
        key = os.environ.get(self.key_env, "").strip()
        if not key and self.needs_key and not self.base_url:
            raise DreError(f"{self.key_env} is not set: export it with your key for {self.name}, then run again")
        return key or "no-key"

    def params(self, prompt, *, max_tokens, temperature=None, top_p=None, seed=None, plain=False, logprobs=False,
               extra=None):  # fmt: skip
        """Return the parameters that are sent and are part of a judgement's key.

        Raises
        ------
        DreError
            If the provider has no such parameter.
        """
        if logprobs and not self.logprobs:
            raise DreError(f"{self.name} returns no log-probabilities: use --mode single or mean, or another judge")
        if seed is not None and not self.seeds:
            raise DreError(f"{self.name} takes no seed: leave --seed out")
        if spoilt := sorted(_OURS & (extra or {}).keys()):
            raise DreError(f"--param {spoilt[0]}: has an option of its own, or would break the count of money")
        structured = prompt.schema is not None and self.structured and not plain
        params = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
        params |= {"structured": "json_schema" if structured else "plain", "extra": extra or None}
        params |= {"logprobs": True if logprobs else None}
        return {name: value for name, value in params.items() if value is not None}

    @abc.abstractmethod
    def connect(self, timeout):
        """Create the SDK's client, its own retries off. Called once, inside the running event loop."""

    @abc.abstractmethod
    def request(self, messages, params, schema):
        """Return the body of a request as the provider's API takes it."""

    @abc.abstractmethod
    async def ask(self, body):
        """Send one request.

        Returns
        -------
        Reply

        Raises
        ------
        CallFailed
        """

    @abc.abstractmethod
    def read(self, body):
        """Return the `Reply` a response body (as JSON) holds; raise `Transient` if it is not one."""

    @abc.abstractmethod
    async def close(self):
        """Close the client."""


def missing(package, extra="judges"):
    """Return the error for an SDK that is not installed."""
    return DreError(f'{package} is not installed: pip install "dre[{extra}]"')


def lower(headers):
    """Return headers as a dict with names in lower case."""
    return {name.lower(): value for name, value in headers.items()}


def unsent(error):
    """Return the failure for an SDK's connection error: whether the request left is in its cause."""
    cause = error.__cause__ or error
    sent = type(cause).__name__ not in ("ConnectError", "ConnectTimeout")
    return Transient(f"no connection: {cause}", billed=sent, sent=sent)


def settled(text, outcome):
    """Return the outcome, or ``empty`` where a text was to come and none did."""
    return "empty" if outcome == "ok" and not (text or "").strip() else outcome


def alternatives(token):
    """Return a token of a reply as the store keeps it: [text, log-probability, [[text, log-probability], ...]]."""
    others = [[one["token"], one["logprob"]] for one in token.get("top_logprobs") or []]
    return [token["token"], token["logprob"], others]
