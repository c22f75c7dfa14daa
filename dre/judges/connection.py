"""An open connection to one model: where it is reached, with which key, and what a call brings."""

import json
import os
import re
import urllib.request
from urllib.parse import urlsplit

from dre.environment import how_to_install
from dre.errors import DreError
from dre.judges import failures, outcomes, wire
from dre.judges.failures import CallFailed, redact
from dre.judges.provider import Messages, Params, Provider, Schema, Target
from dre.judges.providers import PROVIDERS
from dre.judges.store import Reply
from dre.judges.wire import NoReply


def address_of(provider: str, base_url: str = "") -> str:
    """Return the address that is asked.

    Parameters
    ----------
    provider : str
        One of `dre.judges.providers.PROVIDERS`.
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
    address = defaults.complete(address)
    source = "the base URL" if base_url else defaults.base_url_variable
    # The address is stored with each reply, so it must not contain a password or a key.
    has_known_form = re.fullmatch(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", address)
    if not has_known_form or not _has_valid_port(address):
        raise DreError(
            f"{source} must look like http://host:port/path, without user name, password or query"
        )
    url = urlsplit(address)
    endpoints = [path for other in PROVIDERS.values() for path in other.endpoints]
    added = re.search(rf"/({'|'.join(endpoints)})/?$", url.path)
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


def is_own_host(provider: str, address: str) -> bool:
    """Return whether an address is the provider's own host, by https: only there its key goes."""
    url = urlsplit(address)
    has_own_port = url.port in (None, 443)
    return url.scheme == "https" and url.hostname == PROVIDERS[provider].host and has_own_port


def is_public_service(address: str) -> bool:
    """Return whether an address is a provider's or Azure's, which answer many calls at once."""
    host = urlsplit(address).hostname or ""
    domains = [domain for provider in PROVIDERS.values() for domain in provider.domains]
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


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
        client: Provider,
        key: str,
        key_variables: tuple[str, ...],
    ):
        self._client = client
        self._model = client.target.model
        self._key = key
        self._key_variables = key_variables

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
        address = self._client.target.address
        advice = self._client.advice_on_address(address)
        request = failures.SentRequest(messages, params, schema, address, advice)
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
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            what = (
                error if isinstance(error, NoReply) else f"no reply of this provider's: {error!r}"
            )
            reason = redact(f"it answered with {what}", self._key)
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
        One of `dre.judges.providers.PROVIDERS`, the model's name, and where to ask (see
        `address_of`).
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
    target = Target(
        model=model,
        address=address,
        key=key or "no-key",
        is_own_host=is_own_host(provider, address),
        is_public=is_public_service(address),
        timeout=timeout,
    )
    try:
        client = PROVIDERS[provider].open(target)
    except ModuleNotFoundError as error:
        package = (error.name or provider).replace(".", "-")
        raise DreError(f"{package} is not installed: {how_to_install('judges')}") from None
    except (ImportError, ValueError) as error:
        raise DreError(_about_proxies(error)) from None
    _check_parameters(provider, client, params or {})
    return Connection(client, key, key_variables)


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
