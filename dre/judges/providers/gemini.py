"""Google's Gemini, which has two SDKs: the new one is tried first."""

import asyncio
import contextlib
import importlib
import json
import warnings

from dre.judges import outcomes, provider, threads, wire
from dre.judges.provider import Provider
from dre.judges.store import Reply, count
from dre.judges.wire import NoReply


class Gemini(Provider):
    """Google's Gemini, by google-genai."""

    name = "gemini"
    address = "https://generativelanguage.googleapis.com"
    host = "generativelanguage.googleapis.com"
    domains = ("googleapis.com",)
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    added_paths = r"/v1(beta)?(/.*)?$"
    listed_as = "google"
    gives_logprobs = True
    harmless_parameters = ("safety_settings", "thinking_config")
    less_thinking = "ask for less thinking (--param thinking_config='{\"thinking_budget\": 0}')"

    @classmethod
    def open(cls, target):
        """Return the client of the new SDK, else that of the retired one."""
        try:
            return cls(target)
        except ModuleNotFoundError as missing:
            try:
                return RetiredGemini(target)
            except ModuleNotFoundError:
                raise missing from None

    def __init__(self, target):
        genai = importlib.import_module("google.genai")
        httpx2 = importlib.import_module("httpx2")  # what google-genai sends its requests with

        self.types = importlib.import_module("google.genai.types")
        super().__init__(target)
        self.http = httpx2.AsyncClient(
            **provider.http_options(target, "x-goog-api-key", target.key)
        )
        self.sdk = genai.Client(
            vertexai=False,
            api_key=target.key,
            http_options={
                "base_url": target.address,
                "httpx_async_client": self.http,
                "client_args": {"verify": provider.certificates()},
            },
        )

    def parameters(self):
        ours = {
            "http_options",
            "should_return_http_response",
            "system_instruction",
            "response_mime_type",
            "response_schema",
            "response_json_schema",
        }
        accepted = set(self.types.GenerateContentConfig.model_fields) - ours
        return accepted | {"top_logprobs"}

    def build(self, messages, params, schema):
        system, messages = provider.split_system(messages)
        config = dict(params)
        config["max_output_tokens"] = config.pop("max_tokens")
        if "top_logprobs" in config:  # the names are OpenAI's; here the number is called logprobs
            config["response_logprobs"] = config["logprobs"]
            config["logprobs"] = config.pop("top_logprobs")
        config["system_instruction"] = system
        config["automatic_function_calling"] = {"disable": True}
        # The reply is read from the JSON itself, so that new fields and values cannot spoil it.
        config["should_return_http_response"] = True
        if schema:
            config["response_mime_type"] = "application/json"
            config["response_json_schema"] = schema
        contents = [{"role": "user", "parts": [{"text": messages[-1]["content"]}]}]
        return contents, self.types.GenerateContentConfig(**config)

    async def send(self, request):
        contents, config = request
        response = await self.sdk.aio.models.generate_content(
            model=self.target.model, contents=contents, config=config
        )
        return json.loads(response.sdk_http_response.body)

    def join(self, pieces):
        body = {}
        parts = []
        candidate = {}
        for piece in pieces:
            if piece.get("error"):
                return piece
            body.update(piece)
            for part in piece.get("candidates") or []:
                parts.extend((part.get("content") or {}).get("parts") or [])
                candidate.update(part)
        if candidate and not candidate.get("finishReason"):
            raise NoReply("a stream that broke off")
        if candidate:
            body["candidates"] = [{**candidate, "content": {"parts": parts}}]
        return body

    def parse(self, body):
        return _parse_gemini(body, self.target.model)

    async def close(self):
        await self.http.aclose()


def _parse_gemini(body, model):
    """Return the reply in an answer of Gemini's, given as the JSON of its REST interface."""
    model = body.get("modelVersion") or model
    usage = provider.as_dict(body.get("usageMetadata"))
    input_tokens = count(usage.get("promptTokenCount"))
    total_tokens = count(usage.get("totalTokenCount"))
    cached_tokens = count(usage.get("cachedContentTokenCount"))
    output_tokens = None
    if input_tokens is not None and total_tokens is not None:
        output_tokens = total_tokens - input_tokens  # thinking is billed as output
    tokens = (input_tokens, output_tokens, cached_tokens)

    block_reason = provider.as_dict(body.get("promptFeedback")).get("blockReason")
    if block_reason:
        text = outcomes.with_details("", {"blockReason": block_reason})
        return Reply.from_answer(text, "refused", model, *tokens)
    candidate = provider.first_of(body, "candidates")
    outcome_by_reason = {
        None: "ok",
        "FINISH_REASON_UNSPECIFIED": "ok",
        "STOP": "ok",
        "MAX_TOKENS": "truncated",
    }
    outcome = outcome_by_reason.get(candidate.get("finishReason"), "refused")
    content = provider.as_dict(candidate.get("content")).get("parts")
    details = provider.details_of({}, content)
    if outcome == "refused":
        details["finishReason"] = candidate["finishReason"]
    text, outcome = provider.text_and_outcome(content, outcome, details)
    top = provider.likeliest_tokens(_gemini_logprobs(candidate))
    return Reply.from_answer(text, outcome, model, *tokens, top)


def _gemini_logprobs(candidate):
    """Return the log-probabilities of a candidate in OpenAI's form, or None without any."""
    result = provider.as_dict(candidate.get("logprobsResult"))
    steps = zip(result.get("chosenCandidates") or [], result.get("topCandidates") or [])
    tokens = []
    with contextlib.suppress(AttributeError, LookupError, TypeError):
        for chosen, top in steps:
            likeliest = [_openai_logprob(token) for token in top.get("candidates") or []]
            tokens.append({**_openai_logprob(chosen), "top_logprobs": likeliest})
        return tokens
    return None


def _openai_logprob(token):
    return {"token": token["token"], "logprob": token["logProbability"]}


class RetiredGemini(Provider):
    """Google's Gemini, by google-generativeai, which is retired and cannot limit thinking."""

    def __init__(self, target):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its announcement that it is retired
            self.sdk = importlib.import_module("google.generativeai")
            language = importlib.import_module("google.ai.generativelanguage")

        super().__init__(target)
        self.client = language.GenerativeServiceClient(
            transport="rest",
            client_options={"api_key": target.key, "api_endpoint": target.address},
        )
        session = self.client.transport._session
        session._max_refresh_attempts = 0  # else a bad key is tried three times
        session.max_redirects = 0
        session.hooks["response"].append(wire.limit_size)

    def parameters(self):
        ours = {"candidate_count", "response_mime_type", "response_schema"}
        return set(self.sdk.GenerationConfig.__dataclass_fields__) - ours

    def build(self, messages, params, schema):
        system, messages = provider.split_system(messages)
        config = dict(params)
        config["max_output_tokens"] = config.pop("max_tokens")
        if schema:
            config["response_mime_type"] = "application/json"
            config["response_schema"] = {
                name: value for name, value in schema.items() if name != "additionalProperties"
            }
        model = self.sdk.GenerativeModel(
            self.target.model, generation_config=config, system_instruction=system
        )
        contents = [{"role": "user", "parts": [messages[-1]["content"]]}]
        return model._prepare_request(contents=contents, tools=None, tool_config=None)

    async def send(self, request):
        # Its HTTP blocks, so it works in a thread.
        answer = threads.start(lambda: self._send_blocking(request))
        response = await asyncio.wrap_future(answer)
        return type(response).to_dict(
            response, use_integers_for_enums=False, preserving_proto_field_name=False
        )

    def _send_blocking(self, request):
        return self.client.generate_content(request, timeout=self.target.timeout, retry=None)

    def parse(self, body):
        return _parse_gemini(body, self.target.model)

    async def close(self):
        self.client.transport.close()
