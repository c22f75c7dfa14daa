"""Gemini, through ``google-generativeai``; through ``google-genai`` where only that is installed.

The former is retired by Google. Everything that knows either of them is in this module.
"""

import asyncio
import importlib.util
import re
import warnings
from concurrent.futures import ThreadPoolExecutor

from dre.judges.limits import seconds_until
from dre.judges.providers.base import Fatal, Provider, Reply, Transient, failure, lower, missing, settled

_OUTCOMES = {"MAX_TOKENS": "truncated", "STOP": "ok", "FINISH_REASON_UNSPECIFIED": "ok", None: "ok"}
_REFUSED = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "OTHER"}
_SCHEMA_KEYS = {"type", "description", "enum", "items", "properties", "required", "nullable", "format"}
_THREADS = 64  # the older SDK speaks HTTP in a blocking way only


def _installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


class Gemini(Provider):
    """See `Provider`."""

    name, key_env, seeds = "gemini", "GEMINI_API_KEY", False

    def connect(self, timeout):
        """Create the client of whichever SDK is there, the older first."""
        self._timeout = timeout
        if _installed("google.generativeai"):
            self._connect_generativeai()
        elif _installed("google.genai"):
            self._connect_genai()
        else:
            raise missing("google-generativeai")

    def request(self, messages, params, schema):
        """Return the body of a generateContent request, in the REST API's names."""
        system = [message["content"] for message in messages if message["role"] == "system"]
        roles = {"user": "user", "assistant": "model"}
        contents = [
            {"role": roles[message["role"]], "parts": [{"text": message["content"]}]}
            for message in messages
            if message["role"] != "system"
        ]
        config = {"max_output_tokens": params["max_tokens"]}
        config |= {name: params[name] for name in ("temperature", "top_p") if name in params}
        if params["structured"] == "json_schema":
            config |= {"response_mime_type": "application/json", "response_schema": _schema(schema)}
        body = {
            "model": self.model,
            "contents": contents,
            "generation_config": config | params.get("extra", {}),
        }
        return body | ({"system_instruction": "\n\n".join(system)} if system else {})

    async def ask(self, body):
        """Send one request."""
        return self.read(await self._send(body))

    def read(self, body):
        """Read a generateContent response, as JSON with the REST API's names."""
        usage = body.get("usageMetadata") or {}
        read, total = usage.get("promptTokenCount"), usage.get("totalTokenCount")
        # Thinking is billed as output, and the older SDK does not name its tokens.
        tokens = (read, None if read is None or total is None else total - read)
        model = body.get("modelVersion") or ""
        if not body.get("candidates"):
            if not (body.get("promptFeedback") or {}).get("blockReason"):
                raise Transient("the answer has no candidate", billed=True)
            return Reply("", "refused", *tokens, model)
        candidate = body["candidates"][0]
        parts = (candidate.get("content") or {}).get("parts") or []
        text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
        finish = candidate.get("finishReason")
        outcome = "refused" if finish in _REFUSED else _OUTCOMES.get(finish, "ok")
        return Reply(text, settled(text, outcome), *tokens, model)

    async def close(self):
        """Close what was opened."""
        await self._close()

    def _connect_generativeai(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its announcement that it is retired, on every import
            import google.generativeai as sdk
            from google.ai.generativelanguage import GenerativeServiceClient
            from google.api_core import client_options, exceptions
        options = {"api_key": self.key()} | ({"api_endpoint": self.base_url} if self.base_url else {})
        client = GenerativeServiceClient(transport="rest", client_options=client_options.ClientOptions(**options))
        # google-auth would send a request with a bad key three times.
        client.transport._session._max_refresh_attempts = 0
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="gemini")

        def call(body):
            model = sdk.GenerativeModel(body["model"], system_instruction=body.get("system_instruction"))
            model._client = client  # sdk.configure() would set it for the whole process
            # retry None: the SDK's own retries are off
            how = {"timeout": self._timeout, "retry": None}
            reply = model.generate_content(
                body["contents"], generation_config=body["generation_config"], request_options=how
            )
            return type(reply._result).to_dict(reply._result, use_integers_for_enums=False)

        async def send(body):
            try:
                found = await asyncio.get_running_loop().run_in_executor(pool, call, body)
            except exceptions.GoogleAPICallError as error:
                headers = lower(getattr(error.response, "headers", None) or {})
                raise _failure(
                    error.code, f"{error.reason or ''} {error.message}", str(error.details), headers
                ) from None
            except exceptions.RetryError as error:
                raise Transient(str(error), billed=True) from None
            except Exception as error:
                raise _unreachable(error) from None
            return _camel(found)

        async def close():
            pool.shutdown(wait=False, cancel_futures=True)
            client.transport.close()

        self._send, self._close = send, close

    def _connect_genai(self):
        from google import genai
        from google.genai import errors, types

        options = types.HttpOptions(
            base_url=self.base_url or None,
            timeout=round(self._timeout * 1000),
            retry_options=types.HttpRetryOptions(attempts=1),
        )
        client = genai.Client(api_key=self.key(), vertexai=False, http_options=options)

        async def send(body):
            config = types.GenerateContentConfig(
                **body["generation_config"], system_instruction=body.get("system_instruction")
            )
            try:
                found = await client.aio.models.generate_content(
                    model=body["model"], contents=body["contents"], config=config
                )
            except errors.APIError as error:
                headers = lower(getattr(error.response, "headers", None) or {})
                raise _failure(error.code, f"{error.status} {error.message}", str(error.details), headers) from None
            except Exception as error:
                raise _unreachable(error) from None
            return found.model_dump(mode="json", by_alias=True, exclude_none=True)

        async def close():
            await client.aio.aclose()

        self._send, self._close = send, close


def _failure(code, message, details, headers):
    """Return the failure; Gemini says when to come back in the error's details, not in a header."""
    delay = re.search(r"retry_?[dD]elay\W+(?:seconds\W+)?([\d.]+)", details)
    message = re.sub(r"\b(POST|GET) \S+: ", "", message)
    error = failure(int(code), f"{message} {details if 'PerDay' in details else ''}", headers)
    if "API key not valid" in message or "API_KEY_INVALID" in details:
        return Fatal(str(error), headers)
    if delay and error.wait is None:
        error.wait = seconds_until(delay[1])
    return error


def _unreachable(error):
    """Return the failure for an exception of the HTTP library beneath either SDK."""
    name, text = type(error).__name__, str(error)
    library = type(error).__module__.partition(".")[0]
    if not isinstance(error, OSError | ValueError) and library not in (
        "google",
        "httpx",
        "httpx2",
        "aiohttp",
    ):
        raise error  # not of the network, so a mistake of ours
    if name == "ParseError" or (isinstance(error, ValueError) and "Connection" not in name):
        return Transient(f"the answer is not JSON: {text}", billed=True)
    sent = not re.search(r"NewConnection|ConnectTimeout|ConnectError|refused", f"{name} {text}")
    plain = (re.search(r"\[Errno -?\d+\] [\w ]+", text) or [text])[0]
    what = "no answer in time" if "timed out" in text.lower() or "Timeout" in name else f"no connection: {plain}"
    return Transient(what, billed=sent, sent=sent)


def _schema(schema):
    """Return a JSON schema without the keys that Gemini's does not have."""
    kept = {name: value for name, value in schema.items() if name in _SCHEMA_KEYS}
    if "properties" in kept:
        kept["properties"] = {name: _schema(value) for name, value in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _schema(kept["items"])
    return kept


def _camel(value):
    """Return JSON with the REST API's names from the SDK's."""
    if isinstance(value, dict):
        return {re.sub(r"_([a-z])", lambda m: m[1].upper(), name): _camel(one) for name, one in value.items()}
    return [_camel(one) for one in value] if isinstance(value, list) else value
