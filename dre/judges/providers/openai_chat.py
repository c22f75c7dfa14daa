"""OpenAI's Chat Completions, and through ``--base-url`` every server that speaks them (vLLM, llama.cpp)."""

from dre.judges.providers.base import Provider, Reply, Transient, alternatives, failure, lower, missing, settled, unsent


class OpenAI(Provider):
    """See `Provider`."""

    name, key_env, logprobs = "openai", "OPENAI_API_KEY", True
    limit = "max_completion_tokens"

    def sdk(self):
        """Return the SDK."""
        try:
            import openai
        except ImportError:
            raise missing("openai") from None
        return openai

    def connect(self, timeout):
        """Create the client."""
        self._sdk = self.sdk()
        self._client = self._sdk.AsyncOpenAI(
            api_key=self.key(), base_url=self.base_url or None, max_retries=0, timeout=timeout
        )

    def request(self, messages, params, schema):
        """Return the body of a chat completion."""
        # Other servers know the older name of this parameter best.
        limit = "max_tokens" if self.base_url else self.limit
        body = {"model": self.model, "messages": messages, limit: params["max_tokens"]}
        body |= {name: params[name] for name in ("temperature", "top_p", "seed") if name in params}
        if params["structured"] == "json_schema":
            form = {"name": "verdict", "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if params.get("logprobs"):
            body |= {"logprobs": True, "top_logprobs": 20}
        return body | params.get("extra", {})

    async def ask(self, body):
        """Send one request."""
        known = {"model", "messages"}
        rest = {name: value for name, value in body.items() if name not in known}
        create = self._client.chat.completions.with_raw_response.create
        try:
            raw = await create(model=body["model"], messages=body["messages"], extra_body=rest)
            reply = self.read(raw.http_response.json())
            reply.headers = lower(raw.headers)
        except self._sdk.APITimeoutError:
            raise Transient("no answer in time", billed=True) from None
        except self._sdk.APIConnectionError as error:
            raise unsent(error) from None
        except self._sdk.APIStatusError as error:
            headers = lower(error.response.headers)
            if error.code == "content_filter":
                return Reply("", "refused", headers=headers)
            # The code names spent quota, which shares its status with a rate limit.
            raise failure(error.status_code, f"{error.code or ''} {error.message}", headers) from None
        except ValueError as error:
            raise Transient(f"the answer is not JSON: {error}", billed=True) from None
        return reply

    def read(self, body):
        """Read a chat completion."""
        try:
            choice = body["choices"][0]
            message, usage = choice["message"], body.get("usage") or {}
            text = message.get("content") or ""
            outcome = {"length": "truncated", "content_filter": "refused"}.get(choice.get("finish_reason"), "ok")
            if message.get("refusal"):
                text, outcome = message["refusal"], "refused"
            tokens = (choice.get("logprobs") or {}).get("content")
            return Reply(
                text,
                settled(text, outcome),
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                body.get("model") or "",
                [alternatives(token) for token in tokens] if tokens else None,
            )
        except (AttributeError, IndexError, KeyError, TypeError):
            raise Transient("the answer is JSON, but no chat completion", billed=True) from None

    async def close(self):
        """Close the client."""
        await self._client.close()
