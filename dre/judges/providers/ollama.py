"""Ollama."""

import re

from dre.judges.providers.base import Provider, Reply, count, likeliest

_ARGUMENTS = ("think", "keep_alive", "logprobs", "top_logprobs")  # which are no options


class Ollama(Provider):
    """Ollama, on the user's machine unless an address says otherwise."""

    name = "ollama"
    address = "http://127.0.0.1:11434"
    host = "ollama.com"
    key_variables = ("OLLAMA_API_KEY",)
    base_url_variable = "OLLAMA_HOST"
    gives_logprobs = True

    def __init__(self, model, address, key, timeout):
        import httpx
        import ollama

        super().__init__(model, address, key, timeout)
        bearer = self.key_form.format(key or "no-key")
        options = self.http_options(httpx)
        self.sdk = ollama.Client(host=address, headers={"authorization": bearer}, **options)

    @classmethod
    def complete(cls, address):
        """Complete an address as Ollama's client does: ``host`` or ``:port`` alone is enough."""
        match = re.fullmatch(r"(\[.*\]|[^:/]*)(:\d+)?(/.*)?", address)
        if match:
            host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1"}.get(match[1], match[1])
            address = f"http://{host}{match[2] or ':11434'}{match[3] or ''}"
        return super().complete(address)

    def __call__(self, messages, max_tokens, params, schema):
        arguments = {name: params[name] for name in _ARGUMENTS if name in params}
        # Ollama silently cuts a prompt to its window, into which the reply has to fit, too.
        options = {"num_predict": max_tokens, "num_ctx": 8192 + max_tokens}
        options |= {name: value for name, value in params.items() if name not in _ARGUMENTS}
        answer = self.sdk.chat(
            model=self.model, messages=messages, format=schema, options=options, **arguments
        )
        return Reply(
            answer.message.content or "",
            "truncated" if answer.done_reason == "length" else "ok",
            answer.model or "",
            count(answer.prompt_eval_count),
            count(answer.eval_count),
            top=likeliest(answer.logprobs),
        )
