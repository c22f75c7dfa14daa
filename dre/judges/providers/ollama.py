"""Ollama."""

import inspect
import re

from dre.judges import provider, wire
from dre.judges.provider import Provider
from dre.judges.store import Reply
from dre.judges.wire import NoReply


class Ollama(Provider):
    """Ollama, on the user's machine unless an address says otherwise."""

    name = "ollama"
    address = "http://127.0.0.1:11434"
    host = "ollama.com"
    domains = ("ollama.com",)
    key_variables = ("OLLAMA_API_KEY",)
    base_url_variable = "OLLAMA_HOST"
    endpoints = ("api/chat", "api/generate")
    added_paths = r"/v1$|/api(/chat|/generate)?$"
    gives_logprobs = True
    harmless_parameters = ("keep_alive", "num_ctx", "think")
    less_thinking = "ask without thinking (--param think=false)"
    is_own_machine = True
    own_parameters = ("num_ctx", "think", "keep_alive")

    # Options that Ollama takes and its SDK does not list.
    _UNLISTED_OPTIONS = {"min_p"}
    # Arguments of its SDK's `chat` that are ours to fill.
    _OUR_ARGUMENTS = {"self", "model", "messages", "tools", "stream", "format", "options"}

    def __init__(self, target):
        import ollama

        bearer = f"Bearer {target.key}"
        super().__init__(target)
        self.sdk = ollama.AsyncClient(
            host=target.address,
            headers={"authorization": bearer},
            **provider.http_options(target, "authorization", bearer),
        )
        arguments = inspect.signature(ollama.AsyncClient.chat).parameters
        self.arguments = set(arguments) - self._OUR_ARGUMENTS
        self.options = set(ollama.Options.model_fields) | self._UNLISTED_OPTIONS

    @classmethod
    def complete(cls, address):
        """Complete an address as Ollama's client does: ``host`` or ``:port`` alone is enough."""
        match = re.fullmatch(r"(\[.*\]|[^:/]*)(:\d+)?(/.*)?", address)
        if match is None:
            return address
        host = match[1]
        if host in ("", "0.0.0.0", "localhost"):
            host = "127.0.0.1"
        port = match[2] or ":11434"
        path = match[3] or ""
        return f"http://{host}{port}{path}"

    def parameters(self):
        return self.arguments | self.options

    def build(self, messages, params, schema):
        # Ollama silently cuts a prompt to its window, into which the reply has to fit, too.
        options = {"num_ctx": 8192 + params["max_tokens"]}
        arguments = {}
        for name, value in params.items():
            if name == "max_tokens":
                options["num_predict"] = value
            elif name in self.arguments:
                arguments[name] = value
            else:
                options[name] = value
        return {
            "model": self.target.model,
            "messages": messages,
            "options": options,
            "format": schema,
            **arguments,
        }

    async def send(self, request):
        return await self.sdk.chat(**request)

    def join(self, pieces):
        message = {}
        body = {}
        logprobs = []
        for piece in pieces:
            if piece.get("error"):
                return piece
            wire.add(message, piece.get("message") or {})
            logprobs.extend(piece.get("logprobs") or [])
            body.update(piece)
        if not body.get("done"):
            raise NoReply(
                f"a stream that broke off after {wire.quoted(message.get('content') or '')}"
            )
        return {**body, "message": message, "logprobs": logprobs}

    def parse(self, body):
        message = body.get("message")
        if not isinstance(message, dict):
            raise NoReply(f"JSON without a message (it has {provider.keys(body)})")
        text = message.get("content")
        if body.get("done_reason") == "load" and not text:
            raise NoReply("no reply, since it only loaded the model (done_reason load)")
        outcome = "truncated" if body.get("done_reason") == "length" else "ok"
        text, outcome = provider.text_and_outcome(text, outcome, provider.details_of(message, text))
        return Reply.from_answer(
            text,
            outcome,
            body.get("model"),
            body.get("prompt_eval_count"),
            body.get("eval_count"),
            top=provider.likeliest_tokens(body.get("logprobs")),
        )

    async def close(self):
        await self.sdk._client.aclose()
