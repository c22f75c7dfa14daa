"""Google's Gemini, by google-genai; where only google-generativeai is installed, by that one."""

import importlib
import importlib.util
import warnings
from typing import Any

from dre.judges import transport
from dre.judges.providers import base
from dre.judges.providers.base import Provider, Reply, count

_OUTCOMES = {
    **dict.fromkeys(("", "STOP", "FINISH_REASON_UNSPECIFIED"), "ok"),
    "MAX_TOKENS": "truncated",
}


class Gemini(Provider):
    """Google's Gemini."""

    name = "gemini"
    address = "https://generativelanguage.googleapis.com"
    host = "generativelanguage.googleapis.com"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    base_url_variable = "GOOGLE_GEMINI_BASE_URL"
    key_header = "x-goog-api-key"
    key_form = "{}"
    listed_as = "google"
    gives_logprobs = True

    def __new__(cls, *args):
        """Return a client of the new SDK, else one of the retired SDK."""
        if cls is Gemini and importlib.util.find_spec("google.genai") is None:
            return object.__new__(RetiredGemini)
        return super().__new__(cls)

    def __init__(self, model, address, key, timeout):
        import httpx2
        from google import genai

        super().__init__(model, address, key, timeout)
        options: Any = {"base_url": address, "timeout": int(1000 * timeout)}
        options["httpx_client"] = httpx2.Client(**self.http_options(httpx2))
        options["retry_options"] = {"attempts": base.TRIES + 1}
        self.sdk = genai.Client(api_key=key or "no-key", vertexai=False, http_options=options)

    def __call__(self, messages, max_tokens, params, schema):
        config: Any = {"max_output_tokens": max_tokens, **params}
        config["automatic_function_calling"] = {"disable": True}
        if "top_logprobs" in config:  # the names are OpenAI's
            config["response_logprobs"] = config["logprobs"]
            config["logprobs"] = config.pop("top_logprobs")
        if messages[0]["role"] == "system":
            config["system_instruction"] = messages[0]["content"]
        if schema:
            config |= {"response_mime_type": "application/json", "response_json_schema": schema}
        answer = self.sdk.models.generate_content(
            model=self.model, contents=messages[-1]["content"], config=config
        )
        reply = _reply(answer, self.model)
        result: Any = answer.candidates[0].logprobs_result if answer.candidates else None
        if not result:
            return reply
        places = []
        steps: Any = zip(result.chosen_candidates or (), result.top_candidates or ())
        for chosen, step in steps:
            candidates = {one.token: one.log_probability for one in step.candidates or ()}
            places.append([chosen.token, {**candidates, chosen.token: chosen.log_probability}])
        return reply._replace(top=places or None)


class RetiredGemini(Gemini):
    """Google's Gemini, by google-generativeai, which is retired and cannot limit thinking."""

    def __init__(self, model, address, key, timeout):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its announcement that it is retired
            sdk = importlib.import_module("google.generativeai")
        Provider.__init__(self, model, address, key, timeout)
        endpoint = {"api_endpoint": address}
        sdk.configure(api_key=key or "no-key", transport="rest", client_options=endpoint)
        self.sdk = sdk

    def __call__(self, messages, max_tokens, params, schema):
        config = {"max_output_tokens": max_tokens, **params}
        if schema:
            kept = {name: value for name, value in schema.items() if name != "additionalProperties"}
            config |= {"response_mime_type": "application/json", "response_schema": kept}
        system = messages[0]["content"] if messages[0]["role"] == "system" else None
        model = self.sdk.GenerativeModel(self.model, system_instruction=system)
        options = {"timeout": self.timeout, "retry": None}
        try:
            transport.heard.status = 0
            answer = model.generate_content(
                messages[-1]["content"], generation_config=config, request_options=options
            )
            transport.heard.status = 200
        except Exception as error:
            if not isinstance(error, TypeError | ValueError):  # which come before it is sent
                transport.heard.status = int(getattr(error, "code", None) or transport.LOST)
            raise
        return _reply(answer, self.model)


def _reply(answer, model):
    """Return the reply in an answer of either SDK."""
    usage = answer.usage_metadata
    tokens = {}
    if usage:
        read, total = count(usage.prompt_token_count), count(usage.total_token_count)
        cached = count(usage.cached_content_token_count) or 0
        written = (
            None if read is None or total is None else total - read
        )  # thinking is billed as output
        tokens = {"input_tokens": read, "output_tokens": written, "cached_tokens": cached}
    name = getattr(answer, "model_version", None) or model
    if not answer.candidates:
        if not answer.prompt_feedback:
            raise ValueError("an answer without candidates")
        reason = getattr(answer.prompt_feedback, "block_reason", "")
        return Reply(str(reason), "refused", name, **tokens)
    candidate = answer.candidates[0]
    reason = candidate.finish_reason.name if candidate.finish_reason else ""
    parts = candidate.content.parts if candidate.content else None
    said = [part.text or "" for part in parts or () if not getattr(part, "thought", False)]
    return Reply("".join(said), _OUTCOMES.get(reason, "refused"), name, **tokens)
