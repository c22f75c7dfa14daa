"""Ask a model, each provider through its own SDK, with the SDK's retries off: retrying is done once, in `asking`."""

import asyncio
import os
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from dre.errors import DreError
from dre.judges import likelihoods
from dre.judges.store import Reply

# Where each provider's key is looked for, in this order; Ollama needs none.
KEYS = {name: (f"{name.upper()}_API_KEY",) for name in ("openai", "anthropic", "gemini", "ollama")}
KEYS["gemini"] += ("GOOGLE_API_KEY",)
_BESIDE = ("think", "keep_alive", "logprobs", "top_logprobs")  # of Ollama's parameters, what is no option
_QUOTA = re.compile("insufficient_quota|billing|current quota|credit balance|PerDay|API.key.not.valid", re.I)
_SECRETS = re.compile(r"\b(?:sk|rk|pk|sess|gsk)-[\w-]{6,}|\bAIza[\w-]{8,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}")


class CallFailed(Exception):
    """A call brought no reply: what to do ``then``, after what ``wait``; whether it is ``billed``, was ``sent``."""

    def __init__(self, message, then="again", wait=None, billed=False, sent=True):
        super().__init__(redact(" ".join(str(message).split()))[:300])
        self.then, self.wait, self.billed, self.sent = then, wait, billed, sent  # then: again, skip this one, or stop


def redact(text):
    """Return a text without keys: the values of key-like environment variables, and what looks like a key."""
    for name, value in os.environ.items():
        if len(value) >= 6 and re.search(r"(KEY|TOKEN|SECRET|PASSWORD)$", name):
            text = text.replace(value, "[key]")
    return _SECRETS.sub("[key]", text)


def failure(status, message, headers=None):
    """Return the failure that an HTTP status stands for: 408, 409, 429 and 5xx pass, 401-404 and spent quota do not."""
    then = "again" if status in (408, 409, 429) or status >= 500 else "skip"
    if status in (401, 402, 403, 404) or (status in (400, 429) and _QUOTA.search(message)):
        then = "stop"
    elif status in (400, 422):
        message += "; if the model has no structured output, give --plain"
    told = re.search(r"retry_?delay\D+([\d.]+)", message, re.I)  # where Gemini says it
    wait = (headers or {}).get("retry-after") or (told[1] if told else "")
    return CallFailed(f"HTTP {status}: {message}", then, float(wait) if re.fullmatch(r"[\d.]+", wait) else None)


def known(base_url):
    """Whether an address is one of the providers' own, with the strength of theirs."""
    host = urlsplit(base_url).hostname or ""
    return host.endswith((".openai.com", ".openai.azure.com", ".anthropic.com", ".googleapis.com"))


def connect(provider, model, base_url="", timeout=120.0, key_env=None):
    """Return two async functions: ask (messages, params, schema) -> `Reply`, raising `CallFailed`; and close."""
    names = (key_env,) if key_env else KEYS[provider]
    key = next(filter(None, (os.environ.get(name, "").strip() for name in names)), "")
    if not key and not base_url and provider != "ollama":
        raise DreError(f"{' or '.join(names)} is not set: export it with your key for {provider}, then run again")
    make = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini, "ollama": _ollama}[provider]
    try:
        call, close = make(model, base_url or None, timeout, key or "no-key")
    except ImportError as error:
        raise DreError(f'{error.name} is not installed: pip install -e ".[judges]" in the clone') from None

    async def ask(messages, params, schema):
        try:
            return await call(messages, params, schema)
        except Exception as error:  # each SDK has its own, with the same attributes
            if getattr(error, "code", None) == "content_filter":
                return Reply("", "refused", model)
            raise _failed(error) from None

    return ask, close


def _failed(error):
    """The `CallFailed` that an SDK's error stands for: an HTTP status, a broken line, or an answer of another form."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int):
        return failure(status, str(error), getattr(getattr(error, "response", None), "headers", None))
    cause = repr(error.__cause__ or error)
    sent = not re.search("ConnectError|ConnectTimeout|NewConnection|refused|Failed to connect", cause)
    return CallFailed(f"no answer, or none of this provider's: {cause}", billed=sent, sent=sent)


def openai_body(model, base_url, messages, params, schema):
    """Return the body of a chat completion (also of a line of a batch)."""
    body = {"model": model, "messages": messages} | params
    if not base_url or known(base_url) or re.match(r"o\d|gpt-[5-9]", model):
        body["max_completion_tokens"] = body.pop("max_tokens")  # which servers of others know under the older name
    if schema:
        form = {"name": "verdict", "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    return body


def read_openai(body):
    """Read a chat completion (also that of a line of a batch)."""
    choice, usage = body["choices"][0], body.get("usage") or {}
    text, refusal = choice["message"].get("content"), choice["message"].get("refusal")
    outcome = {"length": "truncated", "content_filter": "refused"}.get(choice.get("finish_reason"), "ok")
    tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    top = likelihoods.keep((choice.get("logprobs") or {}).get("content"))
    outcome = "refused" if refusal else outcome
    return Reply(refusal or text or "", outcome, body.get("model") or "", *tokens, top=top)


def _openai(model, base_url, timeout, key):
    import openai

    client = openai.AsyncOpenAI(api_key=key, base_url=base_url, timeout=None, max_retries=0)
    create = client.chat.completions.with_raw_response.create

    async def call(messages, params, schema):
        body = openai_body(model, base_url, messages, params, schema)
        answer = await create(model=body.pop("model"), messages=body.pop("messages"), extra_body=body)
        return read_openai(answer.http_response.json())

    return call, client.close


def _anthropic(model, base_url, timeout, key):
    import anthropic

    client = anthropic.AsyncAnthropic(api_key=key, base_url=base_url, timeout=None, max_retries=0)
    create = client.messages.with_raw_response.create
    cut = ("max_tokens", "model_context_window_exceeded", "pause_turn")
    outcomes = {"refusal": "refused"} | dict.fromkeys(cut, "truncated")

    async def call(messages, params, schema):
        rest = {name: value for name, value in params.items() if name != "max_tokens"}
        if messages[0]["role"] == "system":
            rest["system"], messages = messages[0]["content"], messages[1:]
        if schema:
            rest["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        answer = await create(model=model, messages=messages, max_tokens=params["max_tokens"], extra_body=rest)
        body = answer.http_response.json()
        text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
        tokens = (body.get("usage") or {}).get
        outcome = outcomes.get(body.get("stop_reason"), "ok")
        return Reply(text, outcome, body.get("model") or "", tokens("input_tokens"), tokens("output_tokens"))

    return call, client.close


def _gemini(model, base_url, timeout, key):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its announcement that it is retired
        import google.generativeai as sdk
        from google.ai.generativelanguage import GenerativeServiceClient
    client = GenerativeServiceClient(transport="rest", client_options={"api_key": key, "api_endpoint": base_url})
    client.transport._session._max_refresh_attempts = 0  # else a bad key is tried three times
    threads = ThreadPoolExecutor(64, thread_name_prefix="gemini")  # its HTTP is a blocking one

    def send(messages, params, schema):
        config = {"max_output_tokens" if name == "max_tokens" else name: value for name, value in params.items()}
        if schema:
            known = {name: value for name, value in schema.items() if name != "additionalProperties"}
            config |= {"response_mime_type": "application/json", "response_schema": known}
        system = messages[0]["content"] if messages[0]["role"] == "system" else None
        asked = sdk.GenerativeModel(model, generation_config=config, system_instruction=system)
        asked._client = client  # sdk.configure() would set it for the whole process
        answer = asked.generate_content(messages[-1]["content"], request_options={"timeout": timeout, "retry": None})
        return answer.to_dict()

    async def call(messages, params, schema):
        body = await asyncio.get_running_loop().run_in_executor(threads, send, messages, params, schema)
        usage = body.get("usage_metadata") or {}
        read, total = usage.get("prompt_token_count"), usage.get("total_token_count")
        tokens = read, None if read is None or total is None else total - read  # thinking is billed as output
        if (body.get("prompt_feedback") or {}).get("block_reason"):
            return Reply("", "refused", model, *tokens)
        candidate = body["candidates"][0]
        text = "".join(part.get("text", "") for part in (candidate.get("content") or {}).get("parts") or [])
        outcome = {1: "ok", 0: "ok", None: "ok", 2: "truncated"}.get(candidate.get("finish_reason"), "refused")
        return Reply(text, outcome, model, *tokens)

    async def close():
        threads.shutdown(wait=False, cancel_futures=True)
        client.transport.close()

    return call, close


def _ollama(model, base_url, timeout, key):
    import ollama

    client = ollama.AsyncClient(host=base_url, timeout=None, headers={"authorization": f"Bearer {key}"})

    async def call(messages, params, schema):
        # Ollama cuts a prompt to its window without a word; the reply has to fit into it, too.
        options = {"num_predict" if name == "max_tokens" else name: value for name, value in params.items()}
        options = {"num_ctx": 8192 + params["max_tokens"]} | options
        top = {name: options.pop(name) for name in _BESIDE if name in options}
        said = await client.chat(model=model, messages=messages, options=options, format=schema, **top)
        outcome = "truncated" if said.done_reason == "length" else "ok"
        tokens = said.prompt_eval_count, said.eval_count
        top = likelihoods.keep([place.model_dump() for place in said.logprobs or ()])
        return Reply(said.message.content or "", outcome, said.model or "", *tokens, top=top)

    return call, client._client.aclose
