"""Ask a model, each provider through its own SDK, with the SDK's retries off: retrying is done once, in `asking`."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import re
import threading
import warnings
from typing import NamedTuple
from urllib.parse import urlsplit

from dre.errors import DreError
from dre.judges import failures, likelihoods
from dre.judges.failures import CallFailed, redact
from dre.judges.store import Reply, count


class Provider(NamedTuple):
    """A provider's own address, the variable in which its client finds another, its domain, variables of its key."""

    address: str
    variable: str
    domain: str
    keys: list


GEMINI = "https://generativelanguage.googleapis.com"
PROVIDERS = {
    "openai": Provider(
        "https://api.openai.com/v1", "OPENAI_BASE_URL", "openai.com", ["OPENAI_API_KEY"]
    ),
    "anthropic": Provider(
        "https://api.anthropic.com", "ANTHROPIC_BASE_URL", "anthropic.com", ["ANTHROPIC_API_KEY"]
    ),
    "gemini": Provider(GEMINI, "", "googleapis.com", ["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
    "ollama": Provider("http://127.0.0.1:11434", "OLLAMA_HOST", "ollama.com", ["OLLAMA_API_KEY"]),
}
_PUBLIC_DOMAINS = ("openai.com", "anthropic.com", "googleapis.com", "ollama.com", "azure.com")
_BESIDE = (
    "think",
    "keep_alive",
    "logprobs",
    "top_logprobs",
)  # of Ollama's parameters, what is no option


def address_of(provider, base_url=""):
    """Return the address that is asked: the one given, else the one in the client's variable, else the provider's."""
    own, variable, *_ = PROVIDERS[provider]
    url = str(base_url or os.environ.get(variable, "")).strip() or own
    if provider == "ollama" and (
        host := re.fullmatch(r"(\[.*\]|[^:/]*)(:\d+)?(/.*)?", url)
    ):  # as its client reads it
        name = "127.0.0.1" if host[1] in ("", "0.0.0.0", "localhost") else host[1]
        url = f"http://{name}{host[2] or ':11434'}{host[3] or ''}"
    if not re.fullmatch(
        r"https?://[^/@?#\s]+(/[^@?#\s]*)?", url
    ):  # it is stored, so no key may be in it
        where = "the base URL" if base_url else variable
        raise DreError(
            f"{where} must look like http://host:port/path, without user name, password or query"
        )
    return url.rstrip("/")


def is_own_host(provider, address):
    """Whether an address is the provider's own: its exact host, by https. Only there does its key go."""
    url = urlsplit(address)
    own = urlsplit(PROVIDERS[provider].address)
    return url.scheme == "https" and url.hostname == own.hostname and url.port in (None, 443)


def is_public_service(address):
    """Whether an address belongs to one of the providers or to Azure, which answer many calls at once."""
    host = urlsplit(address).hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in _PUBLIC_DOMAINS)


def is_same_model(model, served):
    """Whether a server's name of a model is that of the one asked: a path in front, a date or @main behind are fine."""
    asked = re.escape(re.sub("-latest$", "", model.rpartition("/")[2]))
    return bool(
        re.fullmatch(
            rf"(.*/)?{asked}(-\d{{4}}-\d\d-\d\d|-\d{{8}}|-\d{{4}}|[-:]latest|@main)?", served
        )
    )


def connect(provider, model, address, timeout=120.0, key_env=None):
    """Return two async functions: ask (messages, params, schema) -> `Reply`, raising `CallFailed`; and close.

    The provider's key goes to its own addresses only; to another goes the one that ``key_env`` names, or none.
    """
    names = (
        (key_env,)
        if key_env
        else PROVIDERS[provider].keys
        if is_own_host(provider, address)
        else ()
    )
    key = next(filter(None, (os.environ.get(name, "").strip() for name in names)), "")
    if names and not key:
        raise DreError(
            f"{' or '.join(names)} is not set: export it with your key for {provider}, then run again"
        )
    make = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama}[
        provider
    ]
    try:
        build, send, read, close = make(model, address, timeout, key or "no-key")
    except ImportError as error:
        what = "pip install 'dre-companion[judges]', in a clone '.[judges]'"
        raise DreError(f"{error.name} is not installed: {what}") from None

    async def ask(messages, params, schema):
        try:
            request = build(messages, params, schema)
            if isinstance(request, dict):
                json.dumps(request, allow_nan=False, ensure_ascii=False).encode()
        except Exception as error:
            raise CallFailed(
                redact(f"the request cannot be made: {error!r}", key), "skip", sent=False
            ) from None
        try:
            body = await send(request)
        except Exception as error:
            if getattr(error, "code", None) == "content_filter":
                return Reply.of("", "refused", model)
            raise failures.of_error(error, key, names) from None
        if isinstance(body, dict) and (
            wrong := body.get("error")
        ):  # with status 200, as some who pass requests on do
            status = _dict(wrong).get("code")
            raise failures.of_status(
                status if isinstance(status, int) else 502, redact(json.dumps(wrong), key)
            )
        try:
            reply = read(body)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise CallFailed(
                redact(f"no reply of this provider's: {error!r}", key), "late", billed=True
            ) from None
        return reply._replace(text=reply.text.replace(key, "[key]")) if key else reply

    return ask, close


def completion_body(model, base_url, messages, params, schema):
    """Return the body of a chat completion (also of a line of a batch)."""
    body = {"model": model, "messages": messages} | params
    if not base_url or is_public_service(base_url) or re.match(r"o\d|gpt-[5-9]", model):
        body["max_completion_tokens"] = body.pop(
            "max_tokens"
        )  # which servers of others know under the older name
    if schema:
        form = {"name": "verdict", "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


def parse_completion(body):
    """Read a chat completion (also that of a line of a batch)."""
    choice, usage = body["choices"][0], _dict(body.get("usage"))
    said, refusal = choice["message"].get("content"), choice["message"].get("refusal")
    outcome = {"length": "truncated", "content_filter": "refused"}.get(
        choice.get("finish_reason"), "ok"
    )
    read, written, total = (
        count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total")
    )
    if None not in (read, written, total):
        written = max(written, total - read)  # thinking, which Gemini counts in the total only
    cached = _dict(usage.get("prompt_tokens_details")).get("cached_tokens")
    top = _top(_dict(choice.get("logprobs")).get("content"))
    return Reply.of(
        refusal or said,
        "refused" if refusal else outcome,
        body.get("model"),
        read,
        written,
        cached,
        top,
    )


def _dict(value):
    return value if isinstance(value, dict) else {}


def _top(places):
    """The likeliest tokens that came with a reply, or None if there are none that can be read."""
    with contextlib.suppress(AttributeError, LookupError, TypeError, ValueError):
        return likelihoods.keep(places)


def _openai(model, address, timeout, key):
    import openai

    client = openai.AsyncOpenAI(api_key=key, base_url=address, timeout=None, max_retries=0)

    def build(*asked):
        return completion_body(model, address, *asked)

    def send(body):
        return client.post("/chat/completions", cast_to=object, body=body)

    return build, send, parse_completion, client.close


def _anthropic(model, address, timeout, key):
    import anthropic

    client = anthropic.AsyncAnthropic(api_key=key, base_url=address, timeout=None, max_retries=0)
    cut = ("max_tokens", "model_context_window_exceeded", "pause_turn")
    outcomes = {"refusal": "refused"} | dict.fromkeys(cut, "truncated")

    def build(messages, params, schema):
        body = {"model": model} | params
        if messages[0]["role"] == "system":
            body["system"], messages = messages[0]["content"], messages[1:]
        if schema:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return {"messages": messages} | body

    def send(body):
        return client.post("/v1/messages", cast_to=object, body=body)

    def read(body):
        usage = _dict(body.get("usage"))
        read, made, cached = (
            count(usage.get(f"{of}input_tokens")) for of in ("", "cache_creation_", "cache_read_")
        )
        if read is not None:  # as they are billed: a token that a cache is made of counts 1.25
            read += (5 * (made or 0) + 3) // 4 + (cached or 0)
        outcome = outcomes.get(body.get("stop_reason"), "ok")
        return Reply.of(
            body["content"], outcome, body.get("model"), read, usage.get("output_tokens"), cached
        )

    return build, send, read, client.close


def _gemini(model, address, timeout, key):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its announcement that it is retired
        import google.generativeai as sdk
        from google.ai.generativelanguage import GenerativeServiceClient
    client = GenerativeServiceClient(
        transport="rest", client_options={"api_key": key, "api_endpoint": address}
    )
    client.transport._session._max_refresh_attempts = 0  # else a bad key is tried three times

    def build(messages, params, schema):
        config = {
            "max_output_tokens" if name == "max_tokens" else name: value
            for name, value in params.items()
        }
        if schema:
            known = {
                name: value for name, value in schema.items() if name != "additionalProperties"
            }
            config |= {"response_mime_type": "application/json", "response_schema": known}
        system = messages[0]["content"] if messages[0]["role"] == "system" else None
        asked = sdk.GenerativeModel(model, generation_config=config, system_instruction=system)
        said = [{"role": "user", "parts": [messages[-1]["content"]]}]
        return asked._prepare_request(contents=said, tools=None, tool_config=None)

    async def send(request):
        answer = concurrent.futures.Future()  # its HTTP is a blocking one
        answer.set_running_or_notify_cancel()

        def work():
            try:
                answer.set_result(client.generate_content(request, timeout=timeout, retry=None))
            except Exception as error:
                answer.set_exception(error)

        threading.Thread(
            target=work, daemon=True
        ).start()  # for a pool's thread the interpreter would wait at its end
        found = await asyncio.wrap_future(answer)
        return type(found).to_dict(found)

    def read(body):
        usage = _dict(body.get("usage_metadata"))
        names = ("prompt", "total", "cached_content")
        read, total, cached = (count(usage.get(f"{name}_token_count")) for name in names)
        written = None if None in (read, total) else total - read  # thinking is billed as output
        if _dict(body.get("prompt_feedback")).get("block_reason"):
            return Reply.of("", "refused", model, read, written, cached)
        candidate = body["candidates"][0]
        outcome = {1: "ok", 0: "ok", None: "ok", 2: "truncated"}.get(
            candidate.get("finish_reason"), "refused"
        )
        return Reply.of(
            _dict(candidate.get("content")).get("parts"), outcome, model, read, written, cached
        )

    async def close():
        client.transport.close()

    return build, send, read, close


def _ollama(model, address, timeout, key):
    import ollama

    client = ollama.AsyncClient(
        host=address, timeout=None, headers={"authorization": f"Bearer {key}"}
    )

    def build(messages, params, schema):
        # Ollama cuts a prompt to its window without a word; the reply has to fit into it, too.
        options = {
            "num_predict" if name == "max_tokens" else name: value for name, value in params.items()
        }
        options = {"num_ctx": 8192 + params["max_tokens"]} | options
        top = {name: options.pop(name) for name in _BESIDE if name in options}
        return {"model": model, "messages": messages, "options": options, "format": schema} | top

    def send(body):
        return client.chat(**body)

    def read(said):
        outcome = "truncated" if said.done_reason == "length" else "ok"
        top = _top([place.model_dump() for place in said.logprobs or ()])
        return Reply.of(
            said.message.content,
            outcome,
            said.model,
            said.prompt_eval_count,
            said.eval_count,
            top=top,
        )

    return build, send, read, client._client.aclose
