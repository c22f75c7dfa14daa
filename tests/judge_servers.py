"""Local servers that speak the providers' wire formats, for the real SDKs to talk to.

A server answers each request with what its ``script`` returns for it. Run as a program
(``python tests/judge_servers.py openai 0.2``) it serves good replies after a delay and prints its port.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

KEYS = {name: f"{name.upper()}_API_KEY" for name in ("openai", "anthropic", "gemini", "ollama")}


class Answer(NamedTuple):
    """What the server sends; ``body`` is a dict (sent as JSON) or raw bytes; ``drop`` cuts the line."""

    body: object
    status: int = 200
    headers: dict = {}
    delay: float = 0.0
    drop: bool = False


class Request(NamedTuple):
    headers: dict
    raw: bytes
    body = property(lambda self: json.loads(self.raw))


class _Line(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = Request({name.lower(): value for name, value in self.headers.items()}, raw)
        self.server.requests.append(request)
        answer = self.server.script(request)
        time.sleep(answer.delay or self.server.delay)
        self.close_connection = answer.drop
        if not answer.drop:
            body = (
                answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            )
            self.send_response(answer.status)
            headers = {
                "content-type": "application/json",
                "content-length": str(len(body)),
            } | answer.headers
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    """Serve ``script(request) -> Answer`` on 127.0.0.1, recording every request; use as a context manager."""

    daemon_threads, request_queue_size = True, 500

    def __init__(self, script, delay=0.0, port=0):
        super().__init__(("127.0.0.1", port), _Line)
        self.script, self.delay, self.requests = script, delay, []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.shutdown()
        self.server_close()


def openai(text, finish="stop", refusal=None, tokens=(50, 10), model="test-model", **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": text, "refusal": refusal}}
    usage = tokens and {
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "total_tokens": sum(tokens),
    }
    body = {"id": "c-1", "object": "chat.completion", "created": 1, "model": model, "usage": usage}
    return Answer(body | {"choices": [choice | {"finish_reason": finish}]}, **more)


def anthropic(text, finish="end_turn"):
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "stop_sequence": None,
    }
    body |= {"content": [{"type": "text", "text": text}], "stop_reason": finish}
    return Answer(body | {"usage": {"input_tokens": 50, "output_tokens": 10}})


def gemini(text, finish="STOP"):
    candidate = {
        "content": {"role": "model", "parts": [{"text": text}]},
        "finishReason": finish,
        "index": 0,
    }
    usage = {"promptTokenCount": 50, "candidatesTokenCount": 10, "totalTokenCount": 60}
    return Answer({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "test-model"})


def ollama(text, finish="stop"):
    body = {"model": "test-model", "message": {"role": "assistant", "content": text}}
    counts = {"prompt_eval_count": 50, "eval_count": 10}
    return Answer(body | counts | {"done": True, "done_reason": finish})


REPLIES = {"openai": openai, "anthropic": anthropic, "gemini": gemini, "ollama": ollama}


def error(provider, status, message="no", **more):
    """An error as the provider words it."""
    forms = {
        "openai": {"error": {"message": message, "type": "error", "code": None, "param": None}},
        "anthropic": {"type": "error", "error": {"type": "error", "message": message}},
        "gemini": {
            "error": {"code": status, "message": message, "status": "UNKNOWN", "details": []}
        },
        "ollama": {"error": message},
    }
    return Answer(forms[provider], status, **more)


def pairs(n):
    """Pairs of our own, each with its own text."""
    turns = ["Did you water the plants?", "Which ones do you mean, number {}?"]
    return [
        {
            "pair_id": f"own/{i}",
            "context": [turns[0], turns[1].format(i)],
            "response": f"The {i} ferns by the door.",
        }
        for i in range(n)
    ]


def graded(request):
    """A score that depends on the prompt, so that a mix-up of replies cannot pass."""
    return openai(json.dumps({"score": sum(request.raw) % 51 / 10}))


if __name__ == "__main__":
    server = Server(lambda request: REPLIES[sys.argv[1]]('{"score": 3.5}'), float(sys.argv[2]))
    print(server.server_port, flush=True)
    server.serve_forever()
