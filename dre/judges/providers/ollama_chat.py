"""Ollama's own chat protocol."""

import contextvars

from dre.judges.providers.base import Provider, Reply, Transient, alternatives, failure, lower, missing, settled

# Ollama cuts a prompt to its context window without a word, by default at 4,096 tokens or fewer;
# the reply has to fit into the window too.
PROMPT_TOKENS = 8192
_TOP_LEVEL = {"think", "keep_alive"}
_headers = contextvars.ContextVar("headers")


async def _note_headers(response):
    """Keep a response's headers: the SDK does not hand them on."""
    if (holder := _headers.get(None)) is not None:
        holder |= lower(response.headers)


class Ollama(Provider):
    """See `Provider`."""

    name, key_env, needs_key, logprobs = "ollama", "OLLAMA_API_KEY", False, True

    def params(self, prompt, **options):
        """Return the parameters; the length of the context window is one."""
        params = super().params(prompt, **options)
        return params | {"extra": {"num_ctx": PROMPT_TOKENS + params["max_tokens"]} | params.get("extra", {})}

    def connect(self, timeout):
        """Create the client; without a base URL the SDK takes ``OLLAMA_HOST`` or this machine."""
        try:
            import httpx
            import ollama
        except ImportError:
            raise missing("ollama") from None
        self._sdk, self._http = ollama, httpx
        headers = {} if self.key() == "no-key" else {"authorization": f"Bearer {self.key()}"}
        self._client = ollama.AsyncClient(
            host=self.base_url or None,
            timeout=timeout,
            headers=headers,
            event_hooks={"response": [_note_headers]},
        )

    def request(self, messages, params, schema):
        """Return the body of a chat request."""
        extra = params["extra"]
        options = {name: value for name, value in extra.items() if name not in _TOP_LEVEL}
        options |= {"num_predict": params["max_tokens"]}
        options |= {name: params[name] for name in ("temperature", "top_p", "seed") if name in params}
        body = {"model": self.model, "messages": messages, "options": options}
        body |= {name: extra[name] for name in _TOP_LEVEL & extra.keys()}
        if params["structured"] == "json_schema":
            body["format"] = schema
        if params.get("logprobs"):
            body |= {"logprobs": True, "top_logprobs": 20}
        return body

    async def ask(self, body):
        """Send one request."""
        headers = {}
        token = _headers.set(headers)
        try:
            reply = self.read((await self._client.chat(**body)).model_dump())
        except self._http.ConnectTimeout:
            raise Transient("no connection in time", sent=False) from None
        except self._http.TimeoutException:
            raise Transient("no answer in time", billed=True) from None
        except ConnectionError as error:
            raise Transient(f"no connection: {error}", sent=False) from None
        except self._http.HTTPError as error:
            raise Transient(f"no connection: {error}", billed=True) from None
        except self._sdk.ResponseError as error:
            raise failure(error.status_code, error.error, headers) from None
        except ValueError as error:
            raise Transient(f"the answer is not JSON: {error}", billed=True) from None
        finally:
            _headers.reset(token)
        reply.headers = headers
        return reply

    def read(self, body):
        """Read a chat response; thinking, which Ollama keeps apart, is no part of the reply."""
        try:
            text = body["message"].get("content") or ""
            outcome = "truncated" if body.get("done_reason") == "length" else "ok"
            tokens = body.get("logprobs")
            return Reply(
                text,
                settled(text, outcome),
                body.get("prompt_eval_count"),
                body.get("eval_count"),
                body.get("model") or "",
                [alternatives(token) for token in tokens] if tokens else None,
            )
        except (AttributeError, KeyError, TypeError):
            raise Transient("the answer is JSON, but no chat response", billed=True) from None

    async def close(self):
        """Close the client."""
        await self._client.close()
