"""OpenAI, and every server that speaks its protocol."""

import json
import re
from typing import Any

from dre.judges import failures, provider, wire
from dre.judges.provider import Provider
from dre.judges.store import Reply, count
from dre.judges.wire import NoReply

_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
# Why a reply ended, in the words of many servers (in lower case). What is not here is an end.
_TRUNCATED = {"length", "max_tokens", "max_length", "model_length", "max_output_tokens"}
_REFUSED = {
    *("content_filter", "content-filter", "safety", "recitation", "refusal", "sensitive"),
    *("blocklist", "prohibited_content", "spii", "guardrails"),
}
_BROKEN = {
    *("error", "abort", "aborted", "cancelled", "canceled", "timeout", "network_error"),
    "insufficient_system_resource",
}


class OpenAI(Provider):
    """OpenAI's Chat Completions, which many other servers speak as well."""

    name = "openai"
    address = "https://api.openai.com/v1"
    host = "api.openai.com"
    domains = ("openai.com", "azure.com")
    key_variables = ("OPENAI_API_KEY",)
    base_url_variable = "OPENAI_BASE_URL"
    endpoints = ("chat/completions",)
    added_paths = r"(/chat)?/completions$"
    version_path = "/v1"
    listed_as = "openai"
    gives_logprobs = True
    harmless_parameters = (
        "reasoning",
        "reasoning_effort",
        "safety_identifier",
        "store",
        "verbosity",
    )
    less_thinking = (
        "ask for less thinking (--param reasoning_effort='\"low\"'; of vLLM, SGLang and llama.cpp "
        "--param chat_template_kwargs='{\"enable_thinking\": false}'), or start the server so that "
        "the answer comes as content"
    )

    limit_name = ""  # of the limit on a reply, if the server wants another than usual

    def __init__(self, target):
        super().__init__(target)
        self.refused_names = set()
        self.sdk = provider.stainless_client(
            "openai", "AsyncOpenAI", target, "authorization", f"Bearer {target.key}"
        )

    def parameters(self):
        if self.host != OpenAI.host or not self.target.is_own_host:
            return None  # servers of others take more, such as top_k
        from openai.types.chat import completion_create_params

        return set(completion_create_params.CompletionCreateParamsBase.__annotations__)

    def build(self, messages, params, schema):
        body = completion_body(
            self.target.model, messages, params, schema, is_openai=self.target.is_public
        )
        for name in _LIMIT_NAMES:
            if name in body and self.limit_name:
                body[self.limit_name] = body.pop(name)
        return body

    def names(self):
        return (self.limit_name,)

    def learn(self, failure, payload):
        """Send the limit on a reply by its other name from now on, if a server refuses this one."""
        sent, other = _LIMIT_NAMES
        if sent not in payload:
            sent, other = other, sent
        if self.limit_name in ("", sent) and failures.refuses_name(str(failure), sent):
            self.refused_names.add(sent)
            if other not in self.refused_names:
                self.limit_name = other

    async def send(self, request):
        return await self.sdk.post("/chat/completions", cast_to=object, body=request)

    def join(self, pieces):
        message = {}
        choice: dict = {"message": message}
        body: dict = {"choices": [choice]}
        is_ended = False
        for piece in pieces:
            if piece.get("error") or isinstance(piece.get("message"), str):
                return piece
            is_ended = is_ended or bool(piece.get("done"))
            for name in ("model", "usage"):
                body[name] = piece.get(name) or body.get(name)
            for part in piece.get("choices") or []:
                if part.get("index"):
                    continue
                whole = part.get("message")
                if isinstance(whole, dict) and not message.get("content"):
                    message.update(whole)
                wire.add(message, part.get("delta") or {})
                choice["finish_reason"] = part.get("finish_reason") or choice.get("finish_reason")
                logprobs = part.get("logprobs") or {}
                if logprobs.get("content"):
                    logprobs_so_far = choice.setdefault("logprobs", {"content": []})
                    logprobs_so_far["content"].extend(logprobs["content"])
        if not choice.get("finish_reason") and not is_ended:
            raise NoReply(
                f"a stream that broke off after {wire.quoted(str(message.get('content') or ''))}"
            )
        return body

    def parse(self, body):
        return parse_completion(body)


def completion_body(
    model: str,
    messages: provider.Messages,
    params: provider.Params,
    schema: provider.Schema,
    is_openai: bool,
) -> dict[str, Any]:
    """Return the body of a chat completion, also for a line of a batch.

    OpenAI knows the limit on a reply as ``max_completion_tokens``; the servers of others know it
    by its older name ``max_tokens``. `is_openai` says whether the server is OpenAI's or another
    public service.
    """
    body = {"model": model, "messages": messages, **params}
    if is_openai or re.match(r"o\d|gpt-[5-9]", model):
        body["max_completion_tokens"] = body.pop("max_tokens")
    if schema:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "schema": schema, "strict": True},
        }
    return body


def parse_completion(body: dict[str, Any]) -> Reply:
    """Return the reply in a chat completion, also in that of a line of a batch."""
    choice = provider.first_of(body, "choices")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise NoReply(f"a choice without a message (it has {provider.keys(choice)})")
    finish_reason = choice.get("finish_reason")
    outcome = _outcome_of(finish_reason)
    text = message.get("content")
    if not isinstance(text, str | list | None):
        raise NoReply(f"a content that is no text: {json.dumps(text)[:80]}")
    if message.get("refusal"):
        text = message["refusal"]
        outcome = "refused"
    details = provider.details_of(message, text)
    if outcome == "refused":
        details["finish_reason"] = finish_reason
    text, outcome = provider.text_and_outcome(text, outcome, details)

    usage = provider.as_dict(body.get("usage"))
    input_tokens = count(usage.get("prompt_tokens"))
    output_tokens = count(usage.get("completion_tokens"))
    total_tokens = count(usage.get("total_tokens"))
    if input_tokens is not None and output_tokens is not None and total_tokens is not None:
        # Gemini, by this protocol, counts the tokens of its thinking in the total only.
        output_tokens = max(output_tokens, total_tokens - input_tokens)
    details = provider.as_dict(usage.get("prompt_tokens_details"))
    cached_tokens = details.get("cached_tokens")
    if input_tokens is not None:
        # A token that is written to the cache, where these are counted, is billed as 1.25 tokens.
        input_tokens += provider.quarter(count(details.get("cache_write_tokens")) or 0)

    top = provider.likeliest_tokens(provider.as_dict(choice.get("logprobs")).get("content"))
    model = body.get("model")
    return Reply.from_answer(text, outcome, model, input_tokens, output_tokens, cached_tokens, top)


def _outcome_of(finish_reason):
    """Return the outcome that a server's reason for the end of a reply means."""
    reason = str(finish_reason or "").lower()
    if reason in _BROKEN:
        raise NoReply(f"a reply that was broken off (finish_reason {finish_reason})")
    if reason in _TRUNCATED:
        return "truncated"
    return "refused" if reason in _REFUSED else "ok"
