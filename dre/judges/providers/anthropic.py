"""Anthropic's Claude."""

from dre.judges import provider, wire
from dre.judges.provider import Provider
from dre.judges.store import Reply, count
from dre.judges.wire import NoReply


class Anthropic(Provider):
    """Anthropic's Messages."""

    name = "anthropic"
    address = "https://api.anthropic.com"
    host = "api.anthropic.com"
    domains = ("anthropic.com",)
    key_variables = ("ANTHROPIC_API_KEY",)
    base_url_variable = "ANTHROPIC_BASE_URL"
    endpoints = ("messages",)
    added_paths = r"/v1(/messages)?$"
    listed_as = "anthropic"
    harmless_parameters = ("effort", "stop_sequences", "thinking")
    less_thinking = "ask for less thinking (--param effort='\"low\"')"
    _OUTCOMES = {
        "refusal": "refused",
        "max_tokens": "truncated",
        "model_context_window_exceeded": "truncated",
        "pause_turn": "truncated",
    }

    def __init__(self, target):
        super().__init__(target)
        self.sdk = provider.stainless_client(
            "anthropic", "AsyncAnthropic", target, "x-api-key", target.key
        )

    def parameters(self):
        if not self.target.is_own_host:
            return None
        from anthropic.types import message_create_params

        return {*message_create_params.MessageCreateParamsBase.__annotations__, "effort"}

    def build(self, messages, params, schema):
        system, messages = provider.split_system(messages)
        body = {"model": self.target.model, "messages": messages, **params}
        if system is not None:
            body["system"] = system

        # How much to think and in which form to answer are two fields of one parameter.
        output_config = {}
        if "effort" in body:
            output_config["effort"] = body.pop("effort")
        if schema:
            output_config["format"] = {"type": "json_schema", "schema": schema}
        if output_config:
            body["output_config"] = output_config
        return body

    async def send(self, request):
        return await self.sdk.post("/v1/messages", cast_to=object, body=request)

    def join(self, pieces):
        body = {}
        blocks = {}
        for piece in pieces:
            if piece.get("error"):
                return piece
            if isinstance(piece.get("message"), dict):
                body.update(piece["message"])
            if isinstance(piece.get("content_block"), dict):
                blocks[piece.get("index", 0)] = dict(piece["content_block"])
            delta = piece.get("delta") or {}
            if piece.get("type") == "content_block_delta":
                wire.add(blocks.setdefault(piece.get("index", 0), {}), delta)
            elif delta.get("stop_reason"):
                body["stop_reason"] = delta["stop_reason"]
            if piece.get("usage"):
                body["usage"] = {**(body.get("usage") or {}), **piece["usage"]}
        if not body.get("stop_reason"):
            raise NoReply("a stream that broke off")
        body["content"] = [blocks[index] for index in sorted(blocks)]
        return body

    def parse(self, body):
        usage = provider.as_dict(body.get("usage"))
        input_tokens = count(usage.get("input_tokens"))
        written_tokens = count(usage.get("cache_creation_input_tokens")) or 0
        cached_tokens = count(usage.get("cache_read_input_tokens")) or 0
        if input_tokens is not None:
            # Both come on top. A token that is written to the cache is billed as 1.25 tokens.
            input_tokens += written_tokens + provider.quarter(written_tokens) + cached_tokens
        outcome = self._OUTCOMES.get(str(body.get("stop_reason")), "ok")
        if not isinstance(body.get("content"), str | list):
            raise NoReply(f"JSON without content (it has {provider.keys(body)})")
        details = provider.details_of(body, body["content"])
        text, outcome = provider.text_and_outcome(body["content"], outcome, details)
        model = body.get("model")
        output_tokens = usage.get("output_tokens")
        return Reply.from_answer(text, outcome, model, input_tokens, output_tokens, cached_tokens)
