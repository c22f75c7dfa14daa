"""Batch APIs through the real SDKs, killed at every point of a submission."""

import json
import re
from datetime import UTC, datetime

import judge_servers as servers
import pytest

from dre import judges
from dre.errors import DreError
from dre.judges import prices
from dre.judges.batch import Batches

NAMES = ("openai", "anthropic")
for package in NAMES:
    pytest.importorskip(package)


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(servers.KEYS[name], "test-key-0123456789")


class Provider:
    """The batch side of a provider: keeps files and batches, answers when told to."""

    def __init__(self):
        self.files, self.batches, self.ended, self.fail = {}, {}, False, None
        self.outcome = lambda number, name: "good"

    def __call__(self, request):
        if self.fail and self.fail(request):
            return servers.openai_error(500, "down")
        for pattern, answer in self.routes().items():
            method, path = pattern.split(" ")
            match = re.fullmatch(path, request.path.partition("?")[0])
            if request.method == method and match:
                return servers.Answer(answer(request, *match.groups()))
        return servers.openai_error(404, f"no {request.method} {request.path}")


class OpenAI(Provider):
    def routes(self):
        return {
            "POST /v1/files": self.upload,
            "POST /v1/batches": self.create,
            "GET /v1/batches": lambda request: {
                "object": "list",
                "data": list(self.batches.values())[::-1],
                "has_more": False,
            },
            "GET /v1/batches/(\\w+)": lambda request, name: self.state(name),
            "GET /v1/files/(\\w+)/content": lambda request, name: self.files[name],
        }

    def upload(self, request):
        lines = re.findall(rb'^\{"custom_id".*$', request.raw, re.MULTILINE)
        name = f"file{len(self.files)}"
        self.files[name] = b"\n".join(line.strip() for line in lines)
        return {
            "id": name,
            "object": "file",
            "bytes": 1,
            "created_at": 1,
            "filename": "x",
            "purpose": "batch",
            "status": "processed",
        }

    def create(self, request):
        name = f"batch{len(self.batches)}"
        body = {"id": name, "object": "batch", "status": "validating", "created_at": int(datetime.now(UTC).timestamp())}
        self.batches[name] = body | {
            key: request.body[key] for key in ("endpoint", "input_file_id", "completion_window", "metadata")
        }
        return self.batches[name]

    def state(self, name):
        if not self.ended:
            return self.batches[name] | {"status": "in_progress"}
        output, errors = [], []
        for number, line in enumerate(self.files[self.batches[name]["input_file_id"]].splitlines()):
            custom_id = json.loads(line)["custom_id"]
            if self.outcome(number, custom_id) == "good":
                response = {"status_code": 200, "body": servers.openai('{"score": 4}').body}
                output.append({"custom_id": custom_id, "response": response, "error": None})
            else:
                errors.append({"custom_id": custom_id, "response": None, "error": {"code": "batch_expired"}})
        for kind, lines in (("output", output), ("error", errors)):
            self.files[f"{kind}{name}"] = "".join(json.dumps(line) + "\n" for line in lines).encode()
        return self.batches[name] | {
            "status": "completed",
            "output_file_id": f"output{name}",
            "error_file_id": f"error{name}",
        }


class Anthropic(Provider):
    def routes(self):
        return {
            "POST /v1/messages/batches": self.create,
            "GET /v1/messages/batches": lambda request: {
                "data": [self.state(n) for n in list(self.batches)[::-1]],
                "has_more": False,
            },
            "GET /v1/messages/batches/(\\w+)": lambda request, name: self.state(name),
            "GET /v1/messages/batches/(\\w+)/results": self.results,
        }

    def create(self, request):
        name = f"msgbatch{len(self.batches)}"
        self.batches[name] = request.body["requests"]
        self.url = f"http://{request.headers['host']}"
        return self.state(name)

    def state(self, name):
        n, now = len(self.batches[name]), datetime.now(UTC).isoformat()
        counts = {
            "processing": 0 if self.ended else n,
            "succeeded": n if self.ended else 0,
            "errored": 0,
            "canceled": 0,
            "expired": 0,
        }
        body = {"id": name, "type": "message_batch", "created_at": now, "expires_at": now, "request_counts": counts}
        ended = {"processing_status": "ended", "results_url": f"{self.url}/v1/messages/batches/{name}/results"}
        return body | (ended if self.ended else {"processing_status": "in_progress", "results_url": None})

    def results(self, request, name):
        lines = []
        for number, line in enumerate(self.batches[name]):
            good = self.outcome(number, line["custom_id"]) == "good"
            message = servers.anthropic('{"score": 4}').body
            result = {"type": "succeeded", "message": message} if good else {"type": "expired"}
            lines.append(json.dumps({"custom_id": line["custom_id"], "result": result}) + "\n")
        return "".join(lines[::-1]).encode()


@pytest.fixture(params=NAMES)
def remote(request, tmp_path):
    provider = {"openai": OpenAI, "anthropic": Anthropic}[request.param]()
    with servers.Server(provider) as server:
        base = server.url + ("/v1" if request.param == "openai" else "")
        provider.server = server

        def batches(n=4, **options):
            judge = judges.open(f"{request.param}:test-model", store=tmp_path / "s.sqlite", base_url=base, **options)
            return Batches(judge, judge.plan(servers.pairs(n)))

        yield provider, batches


def test_submit_poll_collect(remote):
    provider, batches = remote
    (batch,) = batches().submit()
    assert batch.state == "submitted" and batch.requests == 4
    ((_, said, ended),) = batches().poll()
    assert "in_progress" in said and not ended
    assert batches().collect() == (0, 0, 1)
    provider.ended = True
    one = batches(price=prices.Price(1, 1, "given", batch_factor=0.5))
    assert one.collect() == (4, 0, 0)
    frame = one.judge.score(servers.pairs(4))
    assert frame["score_llm"].tolist() == [4.0] * 4
    assert frame["cost"].sum() == pytest.approx(4 * 60 * 0.5 / 1e6)
    assert batches().collect() == (0, 0, 0) and batches().open() == []


def test_what_is_in_a_batch_is_not_submitted_again_nor_asked_live(remote):
    provider, batches = remote
    batches(3).submit()
    assert batches(3).submit() == []
    (more,) = batches(5).submit()
    assert more.requests == 2 and len(provider.batches) == 2
    one = batches(5)
    with pytest.raises(DreError, match="5 of the missing judgements are in a batch"):
        one.judge.run(one.plan)


def test_requests_that_failed_are_missing_again(remote):
    provider, batches = remote
    provider.outcome = lambda number, name: "good" if number else "expired"
    batches().submit()
    provider.ended = True
    one = batches()
    assert one.collect() == (3, 1, 0) and len(one.plan.missing) == 1
    (again,) = batches().submit()
    assert again.requests == 1


class Killed(BaseException):
    pass


def kill_at(monkeypatch, batches, moment):
    """Die right before or right after the provider is told."""
    submit = batches.remote.submit

    def dying(token, items):
        if moment == "after":
            submit(token, items)
        raise Killed

    monkeypatch.setattr(batches.remote, "submit", dying)
    with pytest.raises(Killed):
        batches.submit()


def test_a_kill_before_sending_submits_once(remote, monkeypatch):
    provider, batches = remote
    kill_at(monkeypatch, batches(), "before")
    assert len(provider.batches) == 0
    (batch,) = batches().submit()
    assert batch.requests == 4 and len(provider.batches) == 1


def test_a_kill_after_sending_submits_once(remote, monkeypatch):
    provider, batches = remote
    kill_at(monkeypatch, batches(), "after")
    assert len(provider.batches) == 1
    assert batches().submit() == [] and len(provider.batches) == 1
    provider.ended = True
    assert batches().collect() == (4, 0, 0)


def test_a_lost_answer_submits_once(remote):
    """The provider takes the batch, but its answer is lost on the way."""
    provider, batches = remote
    take = provider.__class__.__call__

    def lossy(request):
        answer = take(provider, request)
        creates = request.method == "POST" and request.path.endswith("batches")
        return servers.Answer(b"", drop=True) if creates else answer

    provider.server.script = lossy
    with pytest.raises(DreError, match="nothing is sent twice"):
        batches().submit()
    provider.server.script = provider
    assert batches().submit() == [] and len(provider.batches) == 1


def test_a_refusal_frees_the_requests(remote):
    provider, batches = remote
    provider.server.script = lambda request: servers.openai_error(400, "bad batch")
    with pytest.raises(DreError, match="HTTP 400.*bad batch"):
        batches().submit()
    provider.server.script = provider
    assert len(batches().submit()) == 1


def test_a_kill_while_collecting_collects_again(remote, monkeypatch):
    provider, batches = remote
    batches().submit()
    provider.ended = True
    one = batches()
    monkeypatch.setattr(one, "_update", lambda *args: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        one.collect()
    assert batches().collect() == (4, 0, 0)


def test_two_that_may_be_it_are_left_to_the_user(tmp_path, monkeypatch):
    provider = Anthropic()
    with servers.Server(provider) as server:

        def batches(name="s"):
            judge = judges.open("anthropic:test-model", store=tmp_path / name, base_url=server.url)
            return Batches(judge, judge.plan(servers.pairs(4)))

        kill_at(monkeypatch, batches(), "after")
        batches("another store").submit()
        with pytest.raises(DreError, match="msgbatch1, msgbatch0 may be it"):
            batches().submit()
        batches().adopt("msgbatch0")
        provider.ended = True
        assert batches().collect() == (4, 0, 0)


def test_a_submission_that_was_cut_short_can_be_given_up(remote, monkeypatch):
    _, batches = remote
    kill_at(monkeypatch, batches(), "before")
    assert len(batches().forget()) == 1 and batches().open() == []


def test_a_foreign_batch_is_not_stored(remote):
    provider, batches = remote
    batches().submit()
    provider.ended = True
    one = batches()
    with one.store.transaction() as db:
        db.execute("UPDATE batch_item SET custom_id = custom_id || 'x'")
    with pytest.raises(DreError, match="which it never asked"):
        one.collect()
    assert one.store.counts() == []


def test_a_batch_above_the_ceiling_is_not_submitted(remote):
    provider, batches = remote
    with pytest.raises(DreError, match="nothing was submitted"):
        batches(price=prices.Price(1, 1, "given"), max_usd=0.0001).submit()
    assert provider.batches == {}


def test_many_requests_are_split(remote, monkeypatch):
    provider, batches = remote
    monkeypatch.setattr("dre.judges.batch.MOST_REQUESTS", 3)
    assert [batch.requests for batch in batches(7).submit()] == [3, 3, 1]
    provider.ended = True
    assert batches(7).collect() == (7, 0, 0)


def test_the_requests_are_those_of_live_calls(remote):
    provider, batches = remote
    one = batches(1)
    one.submit()
    (task,) = one.plan.missing.values()
    body = one.judge.provider.request(task.messages, one.plan.params, one.plan.prompt.schema)
    if isinstance(provider, OpenAI):
        sent = json.loads(provider.files["file0"])
        assert sent["url"] == "/v1/chat/completions" and sent["body"] == body
    else:
        assert provider.batches["msgbatch0"][0]["params"] == body


@pytest.mark.parametrize("name", ["gemini", "ollama", "files"])
def test_providers_without_a_batch_api_say_so(name):
    judge = judges.open(f"{name}:m", store=":memory:")
    with pytest.raises(DreError, match="no batch API"):
        Batches(judge, judge.plan(servers.pairs(1)))
