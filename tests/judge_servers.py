"""Local servers that speak the providers' wire formats, for the real SDKs to talk to.

A server answers each request with what its ``script`` returns for it. Run as a program
(``python tests/judge_servers.py openai 0.2``) it serves good replies after a delay and prints its port.
"""

import asyncio
import json
import sys
import threading
from dataclasses import dataclass, field


@dataclass
class Answer:
    """What the server sends; ``body`` may be a dict (sent as JSON) or raw bytes; ``drop`` cuts the line."""

    body: object
    status: int = 200
    headers: dict = field(default_factory=dict)
    delay: float = 0.0
    drop: bool = False


@dataclass
class Request:
    method: str
    path: str
    headers: dict
    raw: bytes

    @property
    def body(self):
        return json.loads(self.raw)


class Server:
    """Serve ``script(request) -> Answer`` on 127.0.0.1, recording every request; use as a context manager."""

    def __init__(self, script, delay=0.0):
        self.script, self.delay = script, delay
        self.requests, self.flying, self.most_flying, self.connections = [], 0, 0, 0
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self.loop).result(10)
        return self

    def __exit__(self, *exc):
        async def stop():
            self.server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    async def start(self):
        self.server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _connection(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
                exact = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
                raw = await self._payload(reader, headers)
                await self._answer(Request(method, path, {k.lower(): v for k, v in exact.items()}, raw), writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            writer.close()

    async def _payload(self, reader, headers):
        if headers.get("transfer-encoding") == "chunked":
            raw = b""
            while size := int((await reader.readline()).strip(), 16):
                raw += await reader.readexactly(size)
                await reader.readline()
            await reader.readline()
            return raw
        return await reader.readexactly(int(headers.get("content-length", 0)))

    async def _answer(self, request, writer):
        with self.lock:
            self.requests.append(request)
            self.flying += 1
            self.most_flying = max(self.most_flying, self.flying)
        try:
            answer = self.script(request)
            await asyncio.sleep(answer.delay or self.delay)
        finally:
            with self.lock:
                self.flying -= 1
        if answer.drop:
            writer.close()
            return
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body))} | answer.headers
        lines = [f"HTTP/1.1 {answer.status} Status", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()


def openai(text, finish="stop", refusal=None, model=None, tokens=(50, 10), logprobs=None, **more):
    """A chat completion; ``model`` None repeats the request's."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    body = {"id": "c-1", "object": "chat.completion", "created": 1, "model": model or "test-model"}
    return Answer(body | {"choices": [choice], "usage": usage}, **more)


def openai_error(status, message="no", code=None, **more):
    return Answer({"error": {"message": message, "type": "error", "code": code, "param": None}}, status, **more)


def anthropic(text, stop="end_turn", tokens=(50, 10), model="test-model", **more):
    content = [{"type": "text", "text": text}] if text is not None else []
    usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content}
    return Answer(body | {"stop_reason": stop, "stop_sequence": None, "usage": usage}, **more)


def anthropic_error(status, message="no", kind="error", **more):
    return Answer({"type": "error", "error": {"type": kind, "message": message}}, status, **more)


def gemini(text, finish="STOP", tokens=(50, 10), model="test-model", **more):
    content = {"role": "model", "parts": [{"text": text}] if text is not None else []}
    usage = {"promptTokenCount": tokens[0], "candidatesTokenCount": tokens[1], "totalTokenCount": sum(tokens)}
    candidate = {"content": content, "finishReason": finish, "index": 0}
    return Answer({"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}, **more)


def gemini_error(status, message="no", kind="UNKNOWN", details=(), **more):
    error = {"code": status, "message": message, "status": kind, "details": list(details)}
    return Answer({"error": error}, status, **more)


def ollama(text, done="stop", tokens=(50, 10), model="test-model", logprobs=None, **more):
    message = {"role": "assistant", "content": text}
    body = {"model": model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": True}
    body |= {"done_reason": done, "prompt_eval_count": tokens[0], "eval_count": tokens[1]}
    return Answer(body | ({"logprobs": logprobs} if logprobs else {}), **more)


def ollama_error(status, message="no", **more):
    return Answer({"error": message}, status, **more)


REPLIES = {"openai": openai, "anthropic": anthropic, "gemini": gemini, "ollama": ollama}
ERRORS = {
    "openai": openai_error,
    "anthropic": anthropic_error,
    "gemini": gemini_error,
    "ollama": ollama_error,
}


KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "ollama": "OLLAMA_API_KEY",
}


def pairs(n, start=0):
    """Pairs of our own, each with its own text."""
    turns = ["Did you water the plants?", "Which ones do you mean, number {}?"]
    return [
        {"pair_id": f"own/{i}", "context": [turns[0], turns[1].format(i)], "response": f"The {i} ferns by the door."}
        for i in range(start, start + n)
    ]


def write_pairs(path, n):
    path.write_text("".join(json.dumps(row) + "\n" for row in pairs(n)), encoding="utf-8")
    return path


def graded(request):
    """A score that depends on the prompt, so that a mix-up of replies cannot pass."""
    total = sum(request.raw) % 51
    return openai(json.dumps({"score": total / 10}))


async def _serve(provider, delay):
    server = Server(lambda request: REPLIES[provider]('{"score": 3.5}'), delay)
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], float(sys.argv[2])))
