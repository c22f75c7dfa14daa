"""Ask a model through its provider's own SDK.

Each provider is a small class of the same form: it names the parameters that its API takes, builds
a request, sends it, and reads the reply. The SDKs' own retries are off, because
`dre.judges.asking` retries in one place. No SDK follows a redirect, so no key can be taken along
to another host.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import importlib
import inspect
import json
import os
import re
import ssl
import threading
import urllib.request
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dre.environment import how_to_install
from dre.errors import DreError
from dre.judges import failures, likelihoods, outcomes, wire
from dre.judges.failures import CallFailed, redact
from dre.judges.store import Reply, clean, count, is_thought
from dre.judges.wire import NoReply

Messages = list[dict[str, str]]
Params = Mapping[str, Any]
Schema = dict[str, Any] | None


class Provider(NamedTuple):
    """Where a provider is reached, and which environment variables belong to it.

    Parameters
    ----------
    address : str
        The address that is asked unless another is given.
    host : str
        The only host that is sent the provider's key, and only by https.
    base_url_variable : str
        The variable in which the provider's SDK looks for another address ("" if there is none).
    key_variables : tuple of str
        The environment variables with its key. The first one that is set counts.
    """

    address: str
    host: str
    base_url_variable: str
    key_variables: tuple[str, ...]


PROVIDERS = {
    "openai": Provider(
        address="https://api.openai.com/v1",
        host="api.openai.com",
        base_url_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
    ),
    "anthropic": Provider(
        address="https://api.anthropic.com",
        host="api.anthropic.com",
        base_url_variable="ANTHROPIC_BASE_URL",
        key_variables=("ANTHROPIC_API_KEY",),
    ),
    "gemini": Provider(
        address="https://generativelanguage.googleapis.com",
        host="generativelanguage.googleapis.com",
        base_url_variable="",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "ollama": Provider(
        address="http://127.0.0.1:11434",
        host="ollama.com",
        base_url_variable="OLLAMA_HOST",
        key_variables=("OLLAMA_API_KEY",),
    ),
}
_PUBLIC_DOMAINS = ("openai.com", "anthropic.com", "googleapis.com", "ollama.com", "azure.com")


# Addresses and keys


def address_of(provider: str, base_url: str = "") -> str:
    """Return the address that is asked.

    Parameters
    ----------
    provider : str
        One of `PROVIDERS`.
    base_url : str
        The address that the user gave. Without one, the variable of the provider's SDK is looked
        up, and then the provider's own address is taken.

    Raises
    ------
    DreError
        If the address is not of the form ``http://host:port/path``, or is the provider's own host
        without https.
    """
    defaults = PROVIDERS[provider]
    from_environment = os.environ.get(defaults.base_url_variable, "")
    address = str(base_url or from_environment).strip() or defaults.address
    if provider == "ollama":
        address = _ollama_address(address)
    source = "the base URL" if base_url else defaults.base_url_variable
    # The address is stored with each reply, so it must not contain a password or a key.
    has_known_form = re.fullmatch(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", address)
    if not has_known_form or not _has_valid_port(address):
        raise DreError(
            f"{source} must look like http://host:port/path, without user name, password or query"
        )
    url = urlsplit(address)
    added = re.search(r"/(chat/completions|messages|api/chat|api/generate)/?$", url.path)
    if added:
        raise DreError(f"{source} ends in {added[0]}, which is added to it: leave that out")
    if url.hostname == defaults.host and url.scheme != "https":
        raise DreError(
            f"{source} is {address}: {defaults.host} is asked by https only; write https://"
        )
    return address.rstrip("/")


def _has_valid_port(address: str) -> bool:
    """Return whether an address has no port, or a port that exists."""
    try:
        port = urlsplit(address).port
    except ValueError:
        return False
    return port != 0


def _ollama_address(address: str) -> str:
    """Complete an address as Ollama's client does: ``host`` or ``:port`` alone is enough."""
    match = re.fullmatch(r"(\[.*\]|[^:/]*)(:\d+)?(/.*)?", address)
    if match is None:
        return address
    host = match[1]
    if host in ("", "0.0.0.0", "localhost"):
        host = "127.0.0.1"
    port = match[2] or ":11434"
    path = match[3] or ""
    return f"http://{host}{port}{path}"


def is_own_host(provider: str, address: str) -> bool:
    """Return whether an address is the provider's own host, by https: only there its key goes."""
    url = urlsplit(address)
    has_own_port = url.port in (None, 443)
    return url.scheme == "https" and url.hostname == PROVIDERS[provider].host and has_own_port


def is_public_service(address: str) -> bool:
    """Return whether an address is a provider's or Azure's, which answer many calls at once."""
    host = urlsplit(address).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in _PUBLIC_DOMAINS)


def is_same_model(model: str, served: str) -> bool:
    """Return whether the name that a server gives its model means the requested model.

    A path in front of the name and a date, ``latest`` or ``@main`` behind it make no difference.
    """
    name = model.rpartition("/")[2]
    name = re.escape(re.sub("-latest$", "", name))
    version = r"-\d{4}-\d\d-\d\d|-\d{8}|-\d{4}|[-:]latest|@main"
    return re.fullmatch(rf"(.*/)?{name}({version})?", served) is not None


def _key_for(provider: str, address: str, key_env: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the key for an address ("" for none), and the variables in which it was looked for."""
    if key_env:
        names = (key_env,)
    elif is_own_host(provider, address):
        names = PROVIDERS[provider].key_variables
    else:
        return "", ()
    for name in names:
        key = os.environ.get(name, "").strip()
        if key:
            return key, names
    raise DreError(
        f"{' or '.join(names)} is not set: export it with your key for {provider}, then run again"
    )


# Asking


class Connection:
    """An open connection to one model of one provider, made by `connect`."""

    def __init__(
        self,
        client: Any,
        model: str,
        key: str,
        key_variables: tuple[str, ...],
        provider: str = "",
        address: str = "",
    ):
        self._client = client
        self._model = model
        self._key = key
        self._key_variables = key_variables
        self._provider = provider
        self._address = address

    async def ask(self, messages: Messages, params: Params, schema: Schema) -> Reply:
        """Ask once, and return the reply.

        Parameters
        ----------
        messages : list of dict
            ``role`` and ``content`` of each message; a system message comes first.
        params : dict
            Parameters of the provider's API, and ``max_tokens``.
        schema : dict or None
            The JSON schema that the reply must follow.

        Raises
        ------
        CallFailed
            If no reply came, or none that can be understood.
        """
        request = failures.SentRequest(messages, params, schema, self._provider, self._address)
        names_before = self._client.names()
        try:
            return await self._ask(request)
        except CallFailed:
            # A parameter may have another name here. Another call may have found that out.
            if self._client.names() == names_before:
                raise
        return await self._ask(request)

    async def _ask(self, request):
        """Send a request once, and return the reply."""
        try:
            payload = self._client.build(request.messages, request.params, request.schema)
            if isinstance(payload, dict):  # what cannot be written as JSON cannot be sent
                json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
        except Exception as error:
            reason = redact(f"the request cannot be made: {error!r}", self._key)
            raise CallFailed(reason, "skip", sent=False) from None

        try:
            return await self._exchange(payload, request)
        except CallFailed as failure:
            self._client.learn(failure, payload)
            raise

    async def _exchange(self, payload, request):
        """Send what a client has built, and return the reply that came."""
        received = wire.receive()
        body = None
        try:
            body = await self._client.send(payload)
        except wire.TooLarge:
            received.is_too_large = True
        except Exception as error:
            if not received.is_success:  # else what came is looked at here
                if getattr(error, "code", None) == "content_filter":
                    return self._filtered(error)
                raise failures.of_error(error, self._key, self._key_variables, request) from None
        return self._reply_in(received, body, request)

    def _reply_in(self, received, body, request):
        """Return the reply that came; `CallFailed` if it is none."""
        if received.is_too_large:
            return Reply.from_answer("", "malformed", self._model)
        try:
            if received.status:
                body = wire.body_of(received, self._client.join)
            failure = failures.in_body(body, self._key, request)
            if failure is not None:
                raise failure
            reply = self._client.parse(body)
        except NoReply as error:
            reason = redact(f"it answered with {error}", self._key)
            raise CallFailed(reason, "late", billed=True, answered=True) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            reason = redact(f"it answered with no reply of this provider's: {error!r}", self._key)
            raise CallFailed(reason, "late", billed=True, answered=True) from None
        return _without_key(reply, self._key)

    def _filtered(self, error):
        """Return the refusal of a provider's filter, which comes as an error."""
        details = {"content_filter": redact(str(getattr(error, "message", error)), self._key)}
        return Reply.from_answer(outcomes.with_details("", details), "refused", self._model)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


def connect(
    provider: str,
    model: str,
    address: str,
    timeout: float = 120.0,
    key_env: str | None = None,
    params: Params | None = None,
) -> Connection:
    """Open a connection to a model.

    The provider's key goes to the provider's own host only. Any other server gets the key that
    ``key_env`` names, or none, and no header that the SDK takes from the environment, such as
    those that name an organisation.

    Parameters
    ----------
    provider, model, address : str
        One of `PROVIDERS`, the model's name, and where to ask (see `address_of`).
    timeout : float
        Seconds that a call may take, for an SDK that has to know.
    key_env : str or None
        The variable that holds the key for this address.
    params : mapping or None
        The parameters that will be sent with each call. Those that the API does not take are
        refused here.

    Raises
    ------
    DreError
        If a key or an SDK is missing, or the API does not take one of the parameters.
    """
    key, key_variables = _key_for(provider, address, key_env)
    target = _Target(model, address, key or "no-key", is_own_host(provider, address), timeout)
    try:
        client = _make_client(provider, target)
    except ModuleNotFoundError as error:
        package = (error.name or provider).replace(".", "-")
        raise DreError(f"{package} is not installed: {how_to_install('judges')}") from None
    except (ImportError, ValueError) as error:
        raise DreError(_about_proxies(error)) from None
    _check_parameters(provider, client, params or {})
    return Connection(client, model, key, key_variables, provider, address)


def _about_proxies(error):
    """Say why an HTTP client cannot be made: mostly because of a proxy in the environment."""
    variables = []
    for name, value in os.environ.items():
        if re.fullmatch("(all|https?)_proxy", name, re.IGNORECASE) and value:
            variables.append(f"{name}={_without_password(value)}")
    named = f" ({', '.join(variables)})" if variables else ""
    if "socks" in str(error).lower():
        return (
            f"the environment names a SOCKS proxy{named}, for which a package is missing: "
            "pip install 'httpx[socks]', unset the variable, or name the host of the judge in "
            "NO_PROXY"
        )
    reason = redact(" ".join(str(error).split()))
    return f"no HTTP client can be made{named}: {_without_password(reason)}"


def _without_password(text):
    """Return a text with addresses in it, but without the name and password before their host."""
    return re.sub(r"//[^/@\s]*@", "//", text)


def proxy_in_words(address: str) -> str:
    """Say through which proxy of the environment calls to an address go; "" if through none."""
    url = urlsplit(address)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(url.netloc):
        return ""
    return (
        f"; calls go through the proxy {_without_password(proxy)} of {url.scheme.upper()}_PROXY or "
        f"ALL_PROXY: NO_PROXY={url.hostname} asks the server itself"
    )


def _make_client(provider, target):
    """Return the client of one of `PROVIDERS`."""
    makers = {
        "openai": _OpenAI,
        "anthropic": _Anthropic,
        "gemini": _gemini,
        "ollama": _Ollama,
    }
    return makers[provider](target)


def _gemini(target):
    """Return the client of Gemini, which has two SDKs: the new one is tried first."""
    try:
        return _Gemini(target)
    except ModuleNotFoundError as missing:
        try:
            return _RetiredGemini(target)
        except ModuleNotFoundError:
            raise missing from None


def _check_parameters(provider, client, params):
    """Refuse parameters by name that the API does not take, and values that its SDK does not."""
    accepted = client.parameters()
    if accepted is not None:
        unknown = sorted(set(params) - accepted - {"max_tokens"})
        if unknown:
            raise DreError(
                f"{provider} takes no parameter {', '.join(unknown)}: leave it out. "
                f"It takes {', '.join(sorted(accepted))}"
            )
    message = {"role": "user", "content": "a trial, which is not sent"}
    try:
        client.build([message], {"max_tokens": 1, **params}, None)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise DreError(f"{provider} does not take these parameters: {reason}") from None


# The smallest length of a key that is replaced in a reply. Real keys are longer. What is shorter,
# such as the key "3" of a server at home, may stand in a reply by chance, and replacing it would
# spoil the reply.
_SHORTEST_KEY = 12


def _without_key(reply, key):
    """Return a reply in which `key` is replaced by ``[key]``, in case a server repeats it.

    Only the key itself is replaced, as a word of its own, so that the rest can be read as before.
    The likeliest tokens, which may spell the key piece by piece, are dropped from such a reply.
    """
    if len(key) < _SHORTEST_KEY:
        return reply
    pattern = re.compile(rf"(?<!\w){re.escape(key)}(?!\w)")
    text, replaced = pattern.subn("[key]", reply.text)
    reply = reply._replace(text=text, model=pattern.sub("[key]", reply.model))
    return reply._replace(top=None) if replaced else reply


# What the providers share


class _Target(NamedTuple):
    """Which model is asked where, with which key ("no-key" for none)."""

    model: str
    address: str
    key: str
    is_own_host: bool
    timeout: float


# A foreign server gets nothing but these and the key that is meant for it.
_PLAIN_HEADERS = {
    "accept",
    "accept-encoding",
    "anthropic-version",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
}


class _PlainHeaders:
    """Removes the headers that an SDK adds from the environment, for a foreign server."""

    def __init__(self, key_header, key_value):
        self.key_header = key_header
        self.key_value = key_value

    async def __call__(self, request):
        for name in list(request.headers):
            if name.lower() not in _PLAIN_HEADERS:
                del request.headers[name]
        request.headers[self.key_header] = self.key_value


@functools.cache  # reading the certificates takes longer than a call to a local server
def _certificates() -> ssl.SSLContext | bool:
    """Return what HTTP clients verify a server by: the library's default, made once.

    True leaves it to an older library to make its own.
    """
    try:
        httpx2 = importlib.import_module("httpx2")
    except ImportError:
        return True
    return httpx2.create_ssl_context()


def _http_options(target: _Target, key_header: str, key_value: str) -> dict[str, Any]:
    """Return the options of an HTTP client: no redirects, no time limit, plain headers."""
    # OpenAI's SDK looks at httpx while it sends, if it is there. It must not be there in part, as
    # where the SDK of another judge is just importing it in a thread of its own.
    with contextlib.suppress(ImportError):
        importlib.import_module("httpx")
    options: dict[str, Any] = {
        "follow_redirects": False,
        "timeout": None,
        "verify": _certificates(),
        "event_hooks": {"response": [wire.note]},
    }
    if not target.is_own_host:
        options["event_hooks"]["request"] = [_PlainHeaders(key_header, key_value)]
    return options


class _Client:
    """What the clients of all providers have."""

    def names(self) -> tuple[str, ...]:
        """Return by which names parameters are sent, if a server may know them by others."""
        return ()

    def learn(self, failure: CallFailed, payload: Any) -> None:
        """Take note of what a failed call says about the names of parameters."""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _quarter(tokens):
    """Return a quarter of a number of tokens, rounded up."""
    return (tokens + 3) // 4


def _likeliest_tokens(tokens):
    """Return the likeliest tokens of a reply as they are stored, or None without any."""
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        return likelihoods.keep(tokens)


def _split_system(messages):
    """Return the system message's text (None without one) and the other messages."""
    if messages[0]["role"] == "system":
        return messages[0]["content"], messages[1:]
    return None, messages


# OpenAI's Chat Completions, which many other servers speak as well

_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
# Why a reply ended, in the words of many servers (in lower case). What is not here is an end.
_TRUNCATED = {"length", "max_tokens", "max_length", "model_length", "max_output_tokens"}
_REFUSED = {
    *("content_filter", "content-filter", "safety", "recitation", "refusal", "sensitive"),
    *("blocklist", "prohibited_content", "spii", "guardrails"),
}
_BROKEN = {
    *("error", "abort", "aborted", "cancelled", "canceled", "timeout", "network_error"),
    "insufficient_system_resource",
}


class _OpenAI(_Client):
    def __init__(self, target):
        import openai

        self.limit_name = ""  # of the limit on a reply, if the server wants another than usual
        self.refused_names = set()
        http = _http_options(target, "authorization", f"Bearer {target.key}")
        self.target = target
        self.sdk = openai.AsyncOpenAI(
            api_key=target.key,
            base_url=target.address,
            timeout=None,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(**http),
        )

    def parameters(self):
        if not self.target.is_own_host:
            return None  # servers of others take more, such as top_k
        from openai.types.chat import completion_create_params

        return set(completion_create_params.CompletionCreateParamsBase.__annotations__)

    def build(self, messages, params, schema):
        body = completion_body(self.target.model, self.target.address, messages, params, schema)
        for name in _LIMIT_NAMES:
            if name in body and self.limit_name:
                body[self.limit_name] = body.pop(name)
        return body

    def names(self):
        return (self.limit_name,)

    def learn(self, failure, payload):
        """Send the limit on a reply by its other name from now on, if a server refuses this one."""
        sent, other = _LIMIT_NAMES
        if sent not in payload:
            sent, other = other, sent
        if self.limit_name in ("", sent) and failures.refuses_name(str(failure), sent):
            self.refused_names.add(sent)
            if other not in self.refused_names:
                self.limit_name = other

    async def send(self, request):
        return await self.sdk.post("/chat/completions", cast_to=object, body=request)

    join = staticmethod(wire.join_completion)

    def parse(self, body):
        return parse_completion(body)

    async def close(self):
        await self.sdk.close()


def completion_body(
    model: str, base_url: str, messages: Messages, params: Params, schema: Schema
) -> dict[str, Any]:
    """Return the body of a chat completion, also for a line of a batch.

    OpenAI knows the limit on a reply as ``max_completion_tokens``; the servers of others know it
    by its older name ``max_tokens``. A `base_url` of "" means OpenAI.
    """
    body = {"model": model, "messages": messages, **params}
    is_openai = not base_url or is_public_service(base_url)
    if is_openai or re.match(r"o\d|gpt-[5-9]", model):
        body["max_completion_tokens"] = body.pop("max_tokens")
    if schema:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "schema": schema, "strict": True},
        }
    return body


def parse_completion(body: dict[str, Any]) -> Reply:
    """Return the reply in a chat completion, also in that of a line of a batch."""
    choice = _first_of(body, "choices")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise NoReply(f"a choice without a message (it has {_keys(choice)})")
    finish_reason = choice.get("finish_reason")
    outcome = _outcome_of(finish_reason)
    text = message.get("content")
    if not isinstance(text, str | list | None):
        raise NoReply(f"a content that is no text: {json.dumps(text)[:80]}")
    if message.get("refusal"):
        text = message["refusal"]
        outcome = "refused"
    details = _details_of(message, text)
    if outcome == "refused":
        details["finish_reason"] = finish_reason
    text, outcome = _told(text, outcome, details)

    usage = _dict(body.get("usage"))
    input_tokens = count(usage.get("prompt_tokens"))
    output_tokens = count(usage.get("completion_tokens"))
    total_tokens = count(usage.get("total_tokens"))
    if input_tokens is not None and output_tokens is not None and total_tokens is not None:
        # Gemini, by this protocol, counts the tokens of its thinking in the total only.
        output_tokens = max(output_tokens, total_tokens - input_tokens)
    details = _dict(usage.get("prompt_tokens_details"))
    cached_tokens = details.get("cached_tokens")
    if input_tokens is not None:
        # A token that is written to the cache, where these are counted, is billed as 1.25 tokens.
        input_tokens += _quarter(count(details.get("cache_write_tokens")) or 0)

    top = _likeliest_tokens(_dict(choice.get("logprobs")).get("content"))
    model = body.get("model")
    return Reply.from_answer(text, outcome, model, input_tokens, output_tokens, cached_tokens, top)


def _first_of(body, name):
    """Return the first of the choices, or candidates, of an answer; `NoReply` if there is none."""
    entries = body.get(name)
    if isinstance(entries, list) and entries and isinstance(entries[0], dict):
        return entries[0]
    if name not in body:
        raise NoReply(f"JSON without {name} (it has {_keys(body)})")
    raise NoReply(f"JSON whose {name} are {json.dumps(entries)[:80]}")


def _keys(content):
    """Say which keys an object has."""
    return ", ".join(list(map(str, content))[:8]) or "no keys"


def _outcome_of(finish_reason):
    """Return the outcome that a server's reason for the end of a reply means."""
    reason = str(finish_reason or "").lower()
    if reason in _BROKEN:
        raise NoReply(f"a reply that was broken off (finish_reason {finish_reason})")
    if reason in _TRUNCATED:
        return "truncated"
    return "refused" if reason in _REFUSED else "ok"


def _details_of(message, content):
    """Return what came beside the text of a message: thoughts, and tools that were called."""
    details = {}
    for name in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(name), str) and name not in details:
            details[name] = message[name]
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and is_thought(part):
            thought = part.get("thinking") or part.get("text")
            details["thinking"] = details.get("thinking", "") + clean(thought)
    for name in ("tool_calls", "function_call"):
        if message.get(name):
            details[name] = message[name]
    return details


def _told(text, outcome, details):
    """Return text and outcome of a reply; what came beside an empty text takes its place."""
    cleaned = clean(text)
    shown = outcomes.with_details(cleaned, details)
    if shown != cleaned and outcome == "ok":
        outcome = "empty"
    return shown, outcome


# Anthropic's Messages


class _Anthropic(_Client):
    _OUTCOMES = {
        "refusal": "refused",
        "max_tokens": "truncated",
        "model_context_window_exceeded": "truncated",
        "pause_turn": "truncated",
    }

    def __init__(self, target):
        import anthropic

        http = _http_options(target, "x-api-key", target.key)
        self.target = target
        self.sdk = anthropic.AsyncAnthropic(
            api_key=target.key,
            base_url=target.address,
            timeout=None,
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(**http),
        )

    def parameters(self):
        if not self.target.is_own_host:
            return None
        from anthropic.types import message_create_params

        return {*message_create_params.MessageCreateParamsBase.__annotations__, "effort"}

    def build(self, messages, params, schema):
        system, messages = _split_system(messages)
        body = {"model": self.target.model, "messages": messages, **params}
        if system is not None:
            body["system"] = system

        # How much to think and in which form to answer are two fields of one parameter.
        output_config = {}
        if "effort" in body:
            output_config["effort"] = body.pop("effort")
        if schema:
            output_config["format"] = {"type": "json_schema", "schema": schema}
        if output_config:
            body["output_config"] = output_config
        return body

    async def send(self, request):
        return await self.sdk.post("/v1/messages", cast_to=object, body=request)

    join = staticmethod(wire.join_message)

    def parse(self, body):
        usage = _dict(body.get("usage"))
        input_tokens = count(usage.get("input_tokens"))
        written_tokens = count(usage.get("cache_creation_input_tokens")) or 0
        cached_tokens = count(usage.get("cache_read_input_tokens")) or 0
        if input_tokens is not None:
            # Both come on top. A token that is written to the cache is billed as 1.25 tokens.
            input_tokens += written_tokens + _quarter(written_tokens) + cached_tokens
        outcome = self._OUTCOMES.get(body.get("stop_reason"), "ok")
        if not isinstance(body.get("content"), str | list):
            raise NoReply(f"JSON without content (it has {_keys(body)})")
        details = _details_of(body, body["content"])
        text, outcome = _told(body["content"], outcome, details)
        model = body.get("model")
        output_tokens = usage.get("output_tokens")
        return Reply.from_answer(text, outcome, model, input_tokens, output_tokens, cached_tokens)

    async def close(self):
        await self.sdk.close()


# Google's Gemini, by google-genai


class _Gemini(_Client):
    def __init__(self, target):
        genai = importlib.import_module("google.genai")
        httpx2 = importlib.import_module("httpx2")  # what google-genai sends its requests with

        self.types = importlib.import_module("google.genai.types")
        self.target = target
        self.http = httpx2.AsyncClient(**_http_options(target, "x-goog-api-key", target.key))
        self.sdk = genai.Client(
            vertexai=False,
            api_key=target.key,
            http_options={
                "base_url": target.address,
                "httpx_async_client": self.http,
                "client_args": {"verify": _certificates()},
            },
        )

    def parameters(self):
        ours = {
            "http_options",
            "should_return_http_response",
            "system_instruction",
            "response_mime_type",
            "response_schema",
            "response_json_schema",
        }
        accepted = set(self.types.GenerateContentConfig.model_fields) - ours
        return accepted | {"top_logprobs"}

    def build(self, messages, params, schema):
        system, messages = _split_system(messages)
        config = dict(params)
        config["max_output_tokens"] = config.pop("max_tokens")
        if "top_logprobs" in config:  # the names are OpenAI's; here the number is called logprobs
            config["response_logprobs"] = config["logprobs"]
            config["logprobs"] = config.pop("top_logprobs")
        config["system_instruction"] = system
        config["automatic_function_calling"] = {"disable": True}
        # The reply is read from the JSON itself, so that new fields and values cannot spoil it.
        config["should_return_http_response"] = True
        if schema:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = schema
        contents = [{"role": "user", "parts": [{"text": messages[-1]["content"]}]}]
        return contents, self.types.GenerateContentConfig(**config)

    async def send(self, request):
        contents, config = request
        response = await self.sdk.aio.models.generate_content(
            model=self.target.model, contents=contents, config=config
        )
        return json.loads(response.sdk_http_response.body)

    join = staticmethod(wire.join_candidate)

    def parse(self, body):
        return _parse_gemini(body, self.target.model)

    async def close(self):
        await self.http.aclose()


def _parse_gemini(body, model):
    """Return the reply in an answer of Gemini's, given as the JSON of its REST interface."""
    model = body.get("modelVersion") or model
    usage = _dict(body.get("usageMetadata"))
    input_tokens = count(usage.get("promptTokenCount"))
    total_tokens = count(usage.get("totalTokenCount"))
    cached_tokens = count(usage.get("cachedContentTokenCount"))
    output_tokens = None
    if input_tokens is not None and total_tokens is not None:
        output_tokens = total_tokens - input_tokens  # thinking is billed as output
    tokens = (input_tokens, output_tokens, cached_tokens)

    block_reason = _dict(body.get("promptFeedback")).get("blockReason")
    if block_reason:
        text = outcomes.with_details("", {"blockReason": block_reason})
        return Reply.from_answer(text, "refused", model, *tokens)
    candidate = _first_of(body, "candidates")
    outcome_by_reason = {
        None: "ok",
        "FINISH_REASON_UNSPECIFIED": "ok",
        "STOP": "ok",
        "MAX_TOKENS": "truncated",
    }
    outcome = outcome_by_reason.get(candidate.get("finishReason"), "refused")
    content = _dict(candidate.get("content")).get("parts")
    details = _details_of({}, content)
    if outcome == "refused":
        details["finishReason"] = candidate["finishReason"]
    text, outcome = _told(content, outcome, details)
    top = _likeliest_tokens(_gemini_logprobs(candidate))
    return Reply.from_answer(text, outcome, model, *tokens, top)


def _gemini_logprobs(candidate):
    """Return the log-probabilities of a candidate in OpenAI's form, or None without any."""
    result = _dict(candidate.get("logprobsResult"))
    steps = zip(result.get("chosenCandidates") or [], result.get("topCandidates") or [])
    tokens = []
    with contextlib.suppress(AttributeError, LookupError, TypeError):
        for chosen, top in steps:
            likeliest = [_openai_logprob(token) for token in top.get("candidates") or []]
            tokens.append({**_openai_logprob(chosen), "top_logprobs": likeliest})
        return tokens
    return None


def _openai_logprob(token):
    return {"token": token["token"], "logprob": token["logProbability"]}


# Google's Gemini, by google-generativeai, which is retired and cannot limit thinking


class _RetiredGemini(_Client):
    def __init__(self, target):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its announcement that it is retired
            self.sdk = importlib.import_module("google.generativeai")
            language = importlib.import_module("google.ai.generativelanguage")

        self.target = target
        self.client = language.GenerativeServiceClient(
            transport="rest",
            client_options={"api_key": target.key, "api_endpoint": target.address},
        )
        session = self.client.transport._session
        session._max_refresh_attempts = 0  # else a bad key is tried three times
        session.max_redirects = 0
        session.hooks["response"].append(wire.limit_size)

    def parameters(self):
        ours = {"candidate_count", "response_mime_type", "response_schema"}
        return set(self.sdk.GenerationConfig.__dataclass_fields__) - ours

    def build(self, messages, params, schema):
        system, messages = _split_system(messages)
        config = dict(params)
        config["max_output_tokens"] = config.pop("max_tokens")
        if schema:
            config["response_mime_type"] = "application/json"
            config["response_schema"] = {
                name: value for name, value in schema.items() if name != "additionalProperties"
            }
        model = self.sdk.GenerativeModel(
            self.target.model, generation_config=config, system_instruction=system
        )
        contents = [{"role": "user", "parts": [messages[-1]["content"]]}]
        return model._prepare_request(contents=contents, tools=None, tool_config=None)

    async def send(self, request):
        # Its HTTP blocks, so it works in a thread. The interpreter would wait for the threads of a
        # pool when it ends; it does not wait for a daemon.
        answer = concurrent.futures.Future()
        answer.set_running_or_notify_cancel()
        threading.Thread(target=self._send_blocking, args=(request, answer), daemon=True).start()
        response = await asyncio.wrap_future(answer)
        return type(response).to_dict(
            response, use_integers_for_enums=False, preserving_proto_field_name=False
        )

    def _send_blocking(self, request, answer):
        try:
            response = self.client.generate_content(
                request, timeout=self.target.timeout, retry=None
            )
            answer.set_result(response)
        except Exception as error:
            answer.set_exception(error)

    def parse(self, body):
        return _parse_gemini(body, self.target.model)

    async def close(self):
        self.client.transport.close()


# Ollama


class _Ollama(_Client):
    # Options that Ollama takes and its SDK does not list.
    _UNLISTED_OPTIONS = {"min_p"}
    # Arguments of its SDK's `chat` that are ours to fill.
    _OUR_ARGUMENTS = {"self", "model", "messages", "tools", "stream", "format", "options"}

    def __init__(self, target):
        import ollama

        bearer = f"Bearer {target.key}"
        self.target = target
        self.sdk = ollama.AsyncClient(
            host=target.address,
            headers={"authorization": bearer},
            **_http_options(target, "authorization", bearer),
        )
        arguments = inspect.signature(ollama.AsyncClient.chat).parameters
        self.arguments = set(arguments) - self._OUR_ARGUMENTS
        self.options = set(ollama.Options.model_fields) | self._UNLISTED_OPTIONS

    def parameters(self):
        return self.arguments | self.options

    def build(self, messages, params, schema):
        # Ollama silently cuts a prompt to its window, into which the reply has to fit, too.
        options = {"num_ctx": 8192 + params["max_tokens"]}
        arguments = {}
        for name, value in params.items():
            if name == "max_tokens":
                options["num_predict"] = value
            elif name in self.arguments:
                arguments[name] = value
            else:
                options[name] = value
        return {
            "model": self.target.model,
            "messages": messages,
            "options": options,
            "format": schema,
            **arguments,
        }

    async def send(self, request):
        return await self.sdk.chat(**request)

    join = staticmethod(wire.join_chat)

    def parse(self, body):
        message = body.get("message")
        if not isinstance(message, dict):
            raise NoReply(f"JSON without a message (it has {_keys(body)})")
        text = message.get("content")
        if body.get("done_reason") == "load" and not text:
            raise NoReply("no reply, since it only loaded the model (done_reason load)")
        outcome = "truncated" if body.get("done_reason") == "length" else "ok"
        text, outcome = _told(text, outcome, _details_of(message, text))
        return Reply.from_answer(
            text,
            outcome,
            body.get("model"),
            body.get("prompt_eval_count"),
            body.get("eval_count"),
            top=_likeliest_tokens(body.get("logprobs")),
        )

    async def close(self):
        await self.sdk._client.aclose()
