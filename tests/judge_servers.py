"""Local servers that speak the providers' wire formats, for the real SDKs to talk to.

A server answers each request with what its ``script`` returns for it, ``slots`` of them at a time. Run as a program
(``python tests/judge_servers.py openai 0.2``) it serves good replies after a delay and prints its port.
"""

import json
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

KEYS = {name: f"{name.upper()}_API_KEY" for name in ("openai", "anthropic", "gemini", "ollama")}


@dataclass
class Answer:
    """What the server sends; ``body`` is a dict (sent as JSON) or raw bytes; ``drop`` cuts the line."""

    body: object
    status: int = 200
    headers: dict = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


class Request(NamedTuple):
    headers: dict
    raw: bytes
    body = property(lambda self: json.loads(self.raw))


class _HTTP(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 500


class Server:
    """Serve ``script(request) -> Answer`` on 127.0.0.1, recording every request; use as a context manager."""

    def __init__(self, script, delay=0.0, slots=1000):
        self.script, self.delay, self.slots, self.lock = script, delay, threading.Semaphore(slots), threading.Lock()
        self.requests, self.flying, self.most_flying, outer = [], 0, 0, self

        class Handler(BaseHTTPRequestHandler):
            protocol_version, wbufsize = "HTTP/1.1", -1

            def do_POST(self):
                outer.answer(self)

            def log_message(self, *args):
                pass

        self.http = _HTTP(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, line):
        raw = line.rfile.read(int(line.headers.get("content-length", 0)))
        request = Request({name.lower(): value for name, value in line.headers.items()}, raw)
        self.requests.append(request)
        with self.slots:
            with self.lock:
                self.flying += 1
                self.most_flying = max(self.most_flying, self.flying)
            answer = self.script(request)
            time.sleep(answer.delay or self.delay)
            with self.lock:
                self.flying -= 1
        line.close_connection = answer.drop
        if not answer.drop:
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            line.send_response(answer.status)
            headers = {"content-type": "application/json", "content-length": str(len(body))} | answer.headers
            for name, value in headers.items():
                line.send_header(name, value)
            line.end_headers()
            line.wfile.write(body)


def openai(text, finish="stop", refusal=None, tokens=(50, 10), model="test-model", **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": text, "refusal": refusal}}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    body = {"id": "c-1", "object": "chat.completion", "created": 1, "model": model, "usage": usage}
    return Answer(body | {"choices": [choice | {"finish_reason": finish}]}, **more)


def anthropic(text, finish="end_turn", tokens=(50, 10), model="test-model", **more):
    content = [{"type": "text", "text": text}] if text is not None else []
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content}
    return Answer(body | {"stop_reason": finish, "stop_sequence": None, "usage": usage}, **more)


def gemini(text, finish="STOP", tokens=(50, 10), model="test-model", **more):
    content = {"role": "model", "parts": [{"text": text}] if text is not None else []}
    usage = {"promptTokenCount": tokens[0], "candidatesTokenCount": tokens[1], "totalTokenCount": sum(tokens)}
    candidate = {"content": content, "finishReason": finish, "index": 0}
    return Answer({"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}, **more)


def ollama(text, finish="stop", tokens=(50, 10), model="test-model", **more):
    body = {"model": model, "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": text}}
    counts = {"done": True, "done_reason": finish, "prompt_eval_count": tokens[0], "eval_count": tokens[1]}
    return Answer(body | counts, **more)


REPLIES = {"openai": openai, "anthropic": anthropic, "gemini": gemini, "ollama": ollama}


def error(provider, status, message="no", **more):
    """An error as the provider words it."""
    forms = {
        "openai": {"error": {"message": message, "type": "error", "code": None, "param": None}},
        "anthropic": {"type": "error", "error": {"type": "error", "message": message}},
        "gemini": {"error": {"code": status, "message": message, "status": "UNKNOWN", "details": []}},
        "ollama": {"error": message},
    }
    return Answer(forms[provider], status, **more)


def pairs(n, start=0):
    """Pairs of our own, each with its own text."""
    turns = ["Did you water the plants?", "Which ones do you mean, number {}?"]
    return [
        {"pair_id": f"own/{i}", "context": [turns[0], turns[1].format(i)], "response": f"The {i} ferns by the door."}
        for i in range(start, start + n)
    ]


def graded(request):
    """A score that depends on the prompt, so that a mix-up of replies cannot pass."""
    return openai(json.dumps({"score": sum(request.raw) % 51 / 10}))


if __name__ == "__main__":
    server = Server(lambda request: REPLIES[sys.argv[1]]('{"score": 3.5}'), float(sys.argv[2]))
    print(server.http.server_port, flush=True)
    server.http.serve_forever()
