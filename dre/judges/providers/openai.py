"""OpenAI, and every server that speaks its protocol."""

import re
from typing import Any

from dre.judges.providers.base import Provider, Reply, count, likeliest

_OUTCOMES = {
    **dict.fromkeys(("length", "max_tokens"), "truncated"),
    **dict.fromkeys(("content_filter", "safety", "refusal"), "refused"),
}


class OpenAI(Provider):
    """OpenAI's Chat Completions, which many other servers speak as well."""

    name = "openai"
    address = "https://api.openai.com/v1"
    host = "api.openai.com"
    key_variables = ("OPENAI_API_KEY",)
    base_url_variable = "OPENAI_BASE_URL"
    listed_as = "openai"
    gives_logprobs = True

    def __init__(self, model, address, key, timeout):
        import openai

        super().__init__(model, address, key, timeout)
        self.sdk = openai.OpenAI(**self.sdk_options())

    def __call__(self, messages, max_tokens, params, schema):
        # The servers of others know the limit by its older name.
        is_openai = f"//{OpenAI.host}/" in self.at or re.match(r"o\d|gpt-[5-9]", self.model)
        body = {"max_completion_tokens" if is_openai else "max_tokens": max_tokens, **params}
        if schema:
            form = {"name": "verdict", "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        answer: Any = self.sdk.chat.completions.create(
            model=self.model, messages=messages, extra_body=body
        )
        choice = answer.choices[0]
        message = choice.message
        outcome = _OUTCOMES.get(choice.finish_reason, "ok")
        if message.refusal:
            outcome = "refused"
        usage = answer.usage
        tokens = {}
        if usage:
            read, written = count(usage.prompt_tokens), count(usage.completion_tokens)
            total = count(usage.total_tokens)
            if read is not None and written is not None and total is not None:
                written = max(written, total - read)  # Gemini counts its thinking in the total only
            details = usage.prompt_tokens_details
            cached = count(getattr(details, "cached_tokens", 0)) or 0
            tokens = {"input_tokens": read, "output_tokens": written, "cached_tokens": cached}
        top = likeliest(choice.logprobs and choice.logprobs.content)
        text = message.refusal or message.content or ""
        return Reply(text, outcome, answer.model, top=top, **tokens)
