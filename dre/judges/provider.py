"""What a provider of language models is to this package: one class in `dre.judges.providers`.

The SDKs' own retries are off, because `dre.judges.asking` retries in one place. No SDK follows a
redirect, so no key can be taken along to another host.
"""

import contextlib
import functools
import importlib
import json
import re
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dre.judges import likelihoods, outcomes, wire
from dre.judges.failures import CallFailed
from dre.judges.store import Reply, clean, is_thought
from dre.judges.wire import NoReply

Messages = list[dict[str, str]]
Params = Mapping[str, Any]
Schema = dict[str, Any] | None


class Target(NamedTuple):
    """Which model is asked where, with which key ("no-key" for none).

    ``is_own_host`` says whether the address is the provider's own, ``is_public`` whether it is one
    of the known services. ``timeout`` is in seconds, for an SDK that has to know.
    """

    model: str
    address: str
    key: str
    is_own_host: bool
    is_public: bool
    timeout: float


class Provider:
    """All that is known of a provider, and an open client of its SDK.

    Attributes
    ----------
    name : str
        How its judges begin: ``name:model``.
    address : str
        The address that is asked unless another is given.
    host : str
        The only host that is sent the provider's key, and only by https.
    domains : tuple of str
        The domains of its services, which answer many calls at once.
    key_variables : tuple of str
        The environment variables with its key. The first one that is set counts.
    base_url_variable : str
        The variable in which its SDK looks for another address ("" if there is none).
    endpoints : tuple of str
        The paths of its calls, which no address may end in.
    added_paths : str
        A pattern of all paths that its SDK adds to an address.
    version_path : str
        The path that addresses of its protocol usually end in ("" if there is none).
    listed_as : str
        What `genai_prices` calls it ("" if it is not in there).
    gives_logprobs : bool
        Whether log-probabilities of tokens come with its replies.
    less_thinking : str
        What to do about a reply that is all thinking, in words.
    is_own_machine : bool
        Whether its models run on the user's machine. They cost nothing, answer one call at a time,
        and may think. A model with "cloud" in its name is another matter.
    harmless_parameters : tuple of str
        Parameters of its own that make no token dearer and no reply longer, so that they may be set
        where a ceiling has to hold.
    own_parameters : tuple of str
        Parameters that OpenAI's protocol, which batch files have, does not know.
    """

    name = ""
    address = ""
    host = ""
    domains: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    base_url_variable = ""
    endpoints: tuple[str, ...] = ()
    added_paths = "(?!)"
    version_path = ""
    listed_as = ""
    gives_logprobs = False
    less_thinking = "ask for less thinking"
    is_own_machine = False
    harmless_parameters: tuple[str, ...] = ()
    own_parameters: tuple[str, ...] = ()

    sdk: Any = None

    def __init__(self, target: Target):
        self.target = target

    @classmethod
    def open(cls, target: Target) -> "Provider":
        """Return a client for a model. A missing SDK is a ModuleNotFoundError."""
        return cls(target)

    @classmethod
    def complete(cls, address: str) -> str:
        """Complete an address as its SDK does."""
        return address

    @classmethod
    def advice_on_address(cls, address: str) -> str:
        """Return what may be wrong with an address at which a server has no such path."""
        path = urlsplit(address).path
        added = re.search(cls.added_paths, path)
        if added:
            return f"leave {added[0]} out of the address, since it is added: "
        if cls.version_path and not re.search(r"/v\d", path):
            return (
                f"the address has no {cls.version_path}, which most servers want; "
                f"try {address}{cls.version_path}: "
            )
        return ""

    def parameters(self) -> set[str] | None:
        """Return the parameters that its API takes; None where others may be taken, too."""
        return None

    def names(self) -> tuple[str, ...]:
        """Return by which names parameters are sent, if a server may know them by others."""
        return ()

    def learn(self, failure: CallFailed, payload: Any) -> None:
        """Take note of what a failed call says about the names of parameters."""

    def build(self, messages: Messages, params: Params, schema: Schema) -> Any:
        """Return what is sent: messages, parameters with ``max_tokens``, and a JSON schema."""
        raise NotImplementedError

    async def send(self, request: Any) -> Any:
        """Send what `build` made, and return the body of the answer."""
        raise NotImplementedError

    def join(self, pieces: list[dict]) -> dict:
        """Return the body that the objects of a stream make."""
        raise NotImplementedError

    def parse(self, body: dict[str, Any]) -> Reply:
        """Return the reply in the body of an answer."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the client."""
        await self.sdk.close()


# HTTP


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


def _plain_headers(key_header, key_value):
    """Return a hook that removes what an SDK adds from the environment, for a foreign server."""

    async def remove_others(request):
        for name in list(request.headers):
            if name.lower() not in _PLAIN_HEADERS:
                del request.headers[name]
        request.headers[key_header] = key_value

    return remove_others


@functools.cache  # reading the certificates takes longer than a call to a local server
def certificates() -> ssl.SSLContext | bool:
    """Return what HTTP clients verify a server by: the library's default, made once.

    True leaves it to an older library to make its own.
    """
    try:
        httpx2 = importlib.import_module("httpx2")
    except ImportError:
        return True
    return httpx2.create_ssl_context()


def http_options(target: Target, key_header: str, key_value: str) -> dict[str, Any]:
    """Return the options of an HTTP client: no redirects, no time limit, plain headers."""
    # OpenAI's SDK looks at httpx while it sends, if it is there. It must not be there in part, as
    # where the SDK of another judge is just importing it in a thread of its own.
    with contextlib.suppress(ImportError):
        importlib.import_module("httpx")
    options: dict = {
        "follow_redirects": False,
        "timeout": None,
        "verify": certificates(),
        "event_hooks": {"response": [wire.note]},
    }
    if not target.is_own_host:
        options["event_hooks"]["request"] = [_plain_headers(key_header, key_value)]
    return options


def stainless_client(package: str, client: str, target: Target, key_header: str, value: str) -> Any:
    """Return a client of an SDK that Stainless has made, such as OpenAI's and Anthropic's."""
    sdk = importlib.import_module(package)
    http = http_options(target, key_header, value)
    return getattr(sdk, client)(
        api_key=target.key,
        base_url=target.address,
        timeout=None,
        max_retries=0,
        http_client=sdk.DefaultAsyncHttpxClient(**http),
    )


# Replies


def as_dict(value: Any) -> dict[str, Any]:
    """Return a value that is a dict, else an empty one."""
    return value if isinstance(value, dict) else {}


def quarter(tokens):
    """Return a quarter of a number of tokens, rounded up."""
    return (tokens + 3) // 4


def likeliest_tokens(tokens):
    """Return the likeliest tokens of a reply as they are stored, or None without any."""
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        return likelihoods.keep(tokens)


def split_system(messages):
    """Return the system message's text (None without one) and the other messages."""
    if messages[0]["role"] == "system":
        return messages[0]["content"], messages[1:]
    return None, messages


def first_of(body, name):
    """Return the first of the choices, or candidates, of an answer; `NoReply` if there is none."""
    entries = body.get(name)
    if isinstance(entries, list) and entries and isinstance(entries[0], dict):
        return entries[0]
    if name not in body:
        raise NoReply(f"JSON without {name} (it has {keys(body)})")
    raise NoReply(f"JSON whose {name} are {json.dumps(entries)[:80]}")


def keys(content):
    """Say which keys an object has."""
    return ", ".join(list(map(str, content))[:8]) or "no keys"


def details_of(message, content):
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


def text_and_outcome(text, outcome, details):
    """Return text and outcome of a reply; what came beside an empty text takes its place."""
    cleaned = clean(text)
    shown = outcomes.with_details(cleaned, details)
    if shown != cleaned and outcome == "ok":
        outcome = "empty"
    return shown, outcome
