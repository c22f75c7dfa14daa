"""What a provider of language models is to this package: messages in, a `Reply` out."""

import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dre.errors import DreError
from dre.judges import transport

TRIES = 5  # that an SDK makes again after what may pass; it waits longer before each
_MOST_TOKENS = 2**53  # what is more is no count
_PLACES = 32  # of a reply, from its beginning, whose likeliest tokens are kept


class Reply(NamedTuple):
    """A provider's answer.

    ``outcome`` is ``ok``, ``refused`` or ``truncated``. Numbers of tokens are None if the provider
    does not say them; ``cached_tokens`` of the input came from its cache. ``top`` has a pair for
    each of the first tokens: the token, and the log-probabilities of its alternatives.
    """

    text: str
    outcome: str = "ok"
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    top: list | None = None


class Provider:
    """A model of a provider; called with messages, it returns a `Reply`.

    Attributes
    ----------
    name : str
        How its judges begin: ``name:model``.
    address, host : str
        Where it is asked unless another address is given, and the only host that is sent its key.
    key_variables : tuple of str
        The environment variables with its key. The first one that is set counts.
    base_url_variable : str
        The variable in which its SDK looks for another address.
    key_header, key_form : str
        The header that has the key, and in which form.
    listed_as : str
        What `genai_prices` calls it.
    gives_logprobs : bool
        Whether log-probabilities of tokens come with its replies.
    """

    name = ""
    address = ""
    host = ""
    key_variables: tuple[str, ...] = ()
    base_url_variable = ""
    key_header = "authorization"
    key_form = "Bearer {}"
    listed_as = ""
    gives_logprobs = False
    sdk: Any = None

    def __init__(self, model: str, address: str, key: str, timeout: float):
        self.model = model
        self.at = address
        self.key = key
        self.timeout = timeout

    def http_options(self, library: Any) -> dict[str, Any]:
        """Return the options of the SDK's HTTP client (`dre.judges.transport`)."""
        is_own = self.is_own_host(self.at)
        header = {} if is_own else {self.key_header: self.key_form.format(self.key or "no-key")}
        return transport.http_options(library, self.at, self.timeout, header)

    def __call__(
        self,
        messages: Any,
        max_tokens: int,
        params: dict[str, Any],
        schema: dict[str, Any] | None,
    ) -> Reply:
        """Ask once. Whatever the SDK raises is an error of the server, or of what was sent."""
        raise NotImplementedError

    def sdk_options(self) -> dict[str, Any]:
        """Return the options that the SDKs of OpenAI and Anthropic have in common."""
        import httpx2

        return {
            "base_url": self.at,
            "api_key": self.key or "no-key",
            "timeout": self.timeout,
            "max_retries": TRIES,
            "http_client": httpx2.Client(**self.http_options(httpx2)),
        }

    def close(self) -> None:
        """Close the connections."""
        close = getattr(self.sdk, "close", None)  # which one retired SDK does not have
        if close:
            close()

    @classmethod
    def is_own_host(cls, address: str) -> bool:
        """Return whether an address is the provider's own host, by https: there its key may go."""
        url = urlsplit(address)
        return (url.scheme, url.hostname) == ("https", cls.host) and url.port in (None, 443)

    @classmethod
    def complete(cls, address: str) -> str:
        """Return an address as it is asked; `DreError` if it is none."""
        try:
            is_known = re.fullmatch(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", address)
            url = urlsplit(address)
            is_known = is_known and url.port != 0
        except ValueError:
            is_known = False
        if not is_known:
            raise DreError(
                f"the address of {cls.name} must look like http://host:port/path, without user "
                "name, password or query"
            )
        if url.hostname == cls.host and url.scheme != "https":
            raise DreError(f"{address}: {cls.host} is asked by https only: write https://")
        return address.rstrip("/")


def count(tokens: Any) -> int | None:
    """Return a number of tokens; None if it is none."""
    is_number = isinstance(tokens, int) and 0 <= tokens < _MOST_TOKENS
    return int(tokens) if is_number else None


def likeliest(tokens: Any) -> list | None:
    """Return the first tokens of a reply with the log-probabilities of their alternatives."""
    places = []
    for token in [*(tokens or [])][:_PLACES]:
        candidates = [*(token.top_logprobs or ()), token]
        places.append([token.token, {one.token: one.logprob for one in candidates}])
    return places or None
