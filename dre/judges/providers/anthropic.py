"""Anthropic."""

from typing import Any

from dre.judges.providers.base import Provider, Reply, count

_OUTCOMES = {
    "refusal": "refused",
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded", "pause_turn"), "truncated"),
}


class Anthropic(Provider):
    """Anthropic's Messages."""

    name = "anthropic"
    address = "https://api.anthropic.com"
    host = "api.anthropic.com"
    key_variables = ("ANTHROPIC_API_KEY",)
    base_url_variable = "ANTHROPIC_BASE_URL"
    key_header = "x-api-key"
    key_form = "{}"
    listed_as = "anthropic"

    def __init__(self, model, address, key, timeout):
        import anthropic

        super().__init__(model, address, key, timeout)
        self.sdk = anthropic.Anthropic(**self.sdk_options())

    def __call__(self, messages, max_tokens, params, schema):
        body = dict(params)
        if messages[0]["role"] == "system":
            body["system"] = messages[0]["content"]
        if schema:
            form = {"type": "json_schema", "schema": schema}
            body["output_config"] = {**body.get("output_config", {}), "format": form}
        answer: Any = self.sdk.messages.create(
            model=self.model, messages=messages[-1:], max_tokens=max_tokens, extra_body=body
        )
        text = "".join(block.text for block in answer.content if block.type == "text")
        usage = answer.usage
        read, written = count(usage.input_tokens), count(usage.output_tokens)
        cached = count(usage.cache_read_input_tokens) or 0
        if read is not None:
            # Both come on top. A token that is written to the cache is billed as 1.25 tokens.
            read += cached + -(-5 * (count(usage.cache_creation_input_tokens) or 0) // 4)
        outcome = _OUTCOMES.get(answer.stop_reason, "ok")
        return Reply(text, outcome, answer.model, read, written, cached)
