"""Local servers that speak the providers' wire formats, for the real SDKs to talk to.

A server answers each request with what its ``script`` returns for it. Run as a program
(``python tests/judge_servers.py openai 0.2``) it serves good replies after a delay and prints its
port.
"""

import json
import math
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from dre.judges.providers import PROVIDERS

#: The variable with the key of each provider.
KEYS = {name: provider.key_variables[0] for name, provider in PROVIDERS.items()}


class Answer(NamedTuple):
    """What the server sends.

    ``body`` is a dict, which is sent as JSON, raw bytes, or a generator of their pieces; ``drop``
    cuts the line instead.
    """

    body: object
    status: int = 200
    headers: dict = {}
    delay: float = 0.0
    drop: bool = False


class Request(NamedTuple):
    """What the server was sent: headers by their lower-case names, and the bytes of the body."""

    headers: dict
    raw: bytes

    @property
    def body(self):
        """The body as JSON."""
        return json.loads(self.raw)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # its sender was killed: this is no request
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(headers, raw)
        self.server.requests.append(request)

        answer = self.server.script(request)
        time.sleep(answer.delay or self.server.delay)
        self.close_connection = answer.drop
        if not answer.drop:
            self._send(answer)

    def _send(self, answer):
        body = answer.body
        if hasattr(body, "__next__"):
            self.send_response(answer.status)
            self.end_headers()
            self.close_connection = True
            for piece in body:
                try:
                    self.wfile.write(piece)
                    self.wfile.flush()
                except OSError:  # its reader has gone
                    return
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **answer.headers,
        }
        if "date" in headers:  # `send_response` would add a second one
            self.send_response_only(answer.status)
        else:
            self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """Serve ``script(request) -> Answer`` on 127.0.0.1, as a context manager.

    ``requests`` are all that came.
    """

    daemon_threads = True
    request_queue_size = 500

    def __init__(self, script, delay=0.0, port=0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.script = script
        self.delay = delay
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()


def openai(text, finish="stop", refusal=None, tokens=(50, 10), model="test-model", **answer):
    """A chat completion; ``tokens`` are those of prompt and reply (None: no usage is sent)."""
    usage = None
    if tokens:
        usage = {
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "total_tokens": sum(tokens),
        }
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": refusal},
        "finish_reason": finish,
    }
    body = {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "usage": usage,
        "choices": [choice],
    }
    return Answer(body, **answer)


def with_logprobs(answer, probabilities):
    """The same completion of one token, with the log-probabilities of tokens in its place."""
    candidates = []
    for token, probability in probabilities.items():
        candidates.append({"token": token, "logprob": math.log(probability), "bytes": None})
    choice = answer.body["choices"][0]
    text = choice["message"]["content"]
    [said] = [candidate for candidate in candidates if candidate["token"] == text]
    choice["logprobs"] = {"content": [said | {"top_logprobs": candidates}], "refusal": None}
    return answer


def anthropic(text, finish="end_turn"):
    """A message of Claude's."""
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "stop_sequence": None,
        "content": [{"type": "text", "text": text}],
        "stop_reason": finish,
        "usage": {"input_tokens": 50, "output_tokens": 10},
    }
    return Answer(body)


def gemini(text, finish="STOP"):
    """An answer of Gemini's."""
    candidate = {
        "content": {"role": "model", "parts": [{"text": text}]},
        "finishReason": finish,
        "index": 0,
    }
    body = {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": 50,
            "candidatesTokenCount": 10,
            "totalTokenCount": 60,
        },
        "modelVersion": "test-model",
    }
    return Answer(body)


def ollama(text, finish="stop"):
    """A chat answer of Ollama's."""
    body = {
        "model": "test-model",
        "message": {"role": "assistant", "content": text},
        "prompt_eval_count": 50,
        "eval_count": 10,
        "done": True,
        "done_reason": finish,
    }
    return Answer(body)


_PROTOCOLS = {"openai": openai, "anthropic": anthropic, "gemini": gemini, "ollama": ollama}


def protocol_of(provider):
    """The provider whose protocol another one speaks, as its class inherits it."""
    names = [base.name for base in PROVIDERS[provider].__mro__ if hasattr(base, "name")]
    return next(name for name in names if name in _PROTOCOLS)


#: A good answer of each provider.
REPLIES = {name: _PROTOCOLS[protocol_of(name)] for name in PROVIDERS}


def error(provider, status, message="no", **answer):
    """An error as the provider words it."""
    bodies = {
        "openai": {"error": {"message": message, "type": "error", "code": None, "param": None}},
        "anthropic": {"type": "error", "error": {"type": "error", "message": message}},
        "gemini": {
            "error": {"code": status, "message": message, "status": "UNKNOWN", "details": []}
        },
        "ollama": {"error": message},
    }
    return Answer(bodies[protocol_of(provider)], status, **answer)


def pairs(n):
    """Pairs of our own, each with its own text."""
    rows = []
    for i in range(n):
        context = ["Did you water the plants?", f"Which ones do you mean, number {i}?"]
        response = f"The {i} ferns by the door."
        rows.append({"pair_id": f"own/{i}", "context": context, "response": response})
    return rows


def graded(request):
    """A score that depends on the prompt, so that a mix-up of replies cannot pass."""
    score = sum(request.raw) % 51 / 10
    return openai(json.dumps({"score": score}))


if __name__ == "__main__":
    provider, delay = sys.argv[1:3]
    server = Server(lambda request: REPLIES[provider]('{"score": 3.5}'), float(delay))
    print(server.server_port, flush=True)
    server.serve_forever()
