"""Anthropic's Messages."""

from dre.judges.providers.base import Provider, Reply, Transient, failure, lower, missing, settled, unsent

_OUTCOMES = {
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "truncated",
    "refusal": "refused",
}


class Anthropic(Provider):
    """See `Provider`."""

    name, key_env, seeds = "anthropic", "ANTHROPIC_API_KEY", False

    def sdk(self):
        """Return the SDK."""
        try:
            import anthropic
        except ImportError:
            raise missing("anthropic") from None
        return anthropic

    def connect(self, timeout):
        """Create the client."""
        self._sdk = self.sdk()
        self._client = self._sdk.AsyncAnthropic(
            api_key=self.key(), base_url=self.base_url or None, max_retries=0, timeout=timeout
        )

    def request(self, messages, params, schema):
        """Return the body of a Messages request; system messages go where that API has them."""
        system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        body = {"model": self.model, "max_tokens": params["max_tokens"]}
        body["messages"] = [message for message in messages if message["role"] != "system"]
        body |= {"system": system} if system else {}
        body |= {name: params[name] for name in ("temperature", "top_p") if name in params}
        if params["structured"] == "json_schema":
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        return body | params.get("extra", {})

    async def ask(self, body):
        """Send one request."""
        known = {"model", "messages", "max_tokens"}
        # The SDK dropped the names of sampling parameters that older models still take.
        rest = {name: value for name, value in body.items() if name not in known}
        create = self._client.messages.with_raw_response.create
        try:
            raw = await create(**{name: body[name] for name in known}, extra_body=rest)
            reply = self.read(raw.http_response.json())
            reply.headers = lower(raw.headers)
        except self._sdk.APITimeoutError:
            raise Transient("no answer in time", billed=True) from None
        except self._sdk.APIConnectionError as error:
            raise unsent(error) from None
        except self._sdk.APIStatusError as error:
            said = f"{error.type or ''} {error.api_message or error.message}"
            raise failure(error.status_code, said, lower(error.response.headers)) from None
        except ValueError as error:
            raise Transient(f"the answer is not JSON: {error}", billed=True) from None
        return reply

    def read(self, body):
        """Read a message."""
        try:
            text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
            outcome = _OUTCOMES.get(body.get("stop_reason"), "ok")
            usage = body.get("usage") or {}
            cached = sum(usage.get(f"cache_{what}_input_tokens") or 0 for what in ("creation", "read"))
            tokens = usage.get("input_tokens")
            return Reply(
                text,
                settled(text, outcome),
                None if tokens is None else tokens + cached,
                usage.get("output_tokens"),
                body.get("model") or "",
            )
        except (AttributeError, KeyError, TypeError):
            raise Transient("the answer is JSON, but no message", billed=True) from None

    async def close(self):
        """Close the client."""
        await self._client.close()
