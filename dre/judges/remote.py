"""What the providers' batch APIs have in common, for `dre.judges.batch`: submit, find, state, results."""

import contextlib
import json
from datetime import datetime, timedelta

from dre.errors import DreError
from dre.judges import files
from dre.judges.providers.base import Transient, redact

_EARLIER = timedelta(minutes=5)  # the clocks of two machines may differ so much


@contextlib.contextmanager
def _explained(sdk, what):
    """Turn the SDK's errors into one sentence; ``refused`` is set where the provider surely took nothing."""
    try:
        yield
    except sdk.APIStatusError as error:
        failed = DreError(f"{what}: HTTP {error.status_code}: {' '.join(redact(error.message).split())[:300]}")
        failed.refused = error.status_code < 500 and error.status_code != 408
        raise failed from None
    except sdk.APIConnectionError as error:
        raise DreError(f"{what}: {redact(error)} Run the same command again: nothing is sent twice") from None


class OpenAIBatches:
    """OpenAI: a file of requests, then a batch of it; the token is in the batch's metadata."""

    def __init__(self, provider, timeout):
        self.provider, self.sdk = provider, provider.sdk()
        self.client = self.sdk.OpenAI(
            api_key=provider.key(), base_url=provider.base_url or None, max_retries=0, timeout=timeout
        )

    def requests(self, plan, keys):
        """Yield ``(custom_id, key, body)``."""
        return files.requests(plan, keys)

    def submit(self, token, items):
        """Submit the requests and return the batch's id."""
        lines = [{"custom_id": name, "method": "POST", "url": files.URL, "body": body} for name, _, body in items]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        with _explained(self.sdk, "submitting the batch"):
            file = self.client.files.create(file=(f"{token}.jsonl", data), purpose="batch")
            batch = self.client.batches.create(
                input_file_id=file.id, endpoint=files.URL, completion_window="24h", metadata={"dre": token}
            )
        return batch.id

    def find(self, batch, known):
        """Return the ids of the provider's batches that carry a batch's token."""
        since = (datetime.fromisoformat(batch.created) - _EARLIER).timestamp()
        found = []
        with _explained(self.sdk, "looking for the batch"):
            for one in self.client.batches.list(limit=100):  # newest first
                if one.created_at < since:
                    break
                if (one.metadata or {}).get("dre") == batch.token:
                    found.append(one.id)
        return found

    def state(self, remote_id):
        """Return what the provider says of a batch, and whether it has ended."""
        with _explained(self.sdk, "polling the batch"):
            one = self.client.batches.retrieve(remote_id)
        counts = one.request_counts
        said = f"{one.status}, {counts.completed} of {counts.total} done" if counts else one.status
        if one.errors and one.errors.data:
            said += f": {one.errors.data[0].message}"
        return said, one.status in ("completed", "failed", "expired", "cancelled")

    def results(self, remote_id):
        """Yield ``(custom_id, Reply or None)``."""
        with _explained(self.sdk, "collecting the batch"):
            one = self.client.batches.retrieve(remote_id)
            texts = [self.client.files.content(name).text for name in (one.output_file_id, one.error_file_id) if name]
        for text in texts:
            for line in filter(str.strip, text.split("\n")):
                line = json.loads(line)
                response = line.get("response") or {}
                good = not line.get("error") and response.get("status_code") == 200
                yield line["custom_id"], _read(self.provider, response.get("body")) if good else None


class AnthropicBatches:
    """Anthropic: requests in one message; batches carry no token, so time and number tell them apart."""

    def __init__(self, provider, timeout):
        self.provider, self.sdk = provider, provider.sdk()
        self.client = self.sdk.Anthropic(
            api_key=provider.key(), base_url=provider.base_url or None, max_retries=0, timeout=timeout
        )

    def requests(self, plan, keys):
        """Yield ``(custom_id, key, body)``."""
        for key, task in plan.missing.items():
            if key in keys:
                body = self.provider.request(task.messages, plan.params, plan.prompt.schema)
                yield plan.setting.custom_id(*key), key, body

    def submit(self, token, items):
        """Submit the requests and return the batch's id."""
        requests = [{"custom_id": name, "params": body} for name, _, body in items]
        with _explained(self.sdk, "submitting the batch"):
            return self.client.messages.batches.create(requests=requests).id

    def find(self, batch, known):
        """Return the ids of batches made since, with as many requests, that are none of ours."""
        since = datetime.fromisoformat(batch.created) - _EARLIER
        found = []
        with _explained(self.sdk, "looking for the batch"):
            for one in self.client.messages.batches.list(limit=100):  # newest first
                if one.created_at < since:
                    break
                counts = one.request_counts
                total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
                if total == batch.requests and one.id not in known:
                    found.append(one.id)
        return found

    def state(self, remote_id):
        """Return what the provider says of a batch, and whether it has ended."""
        with _explained(self.sdk, "polling the batch"):
            one = self.client.messages.batches.retrieve(remote_id)
        counts = one.request_counts
        said = f"{one.processing_status}, {counts.succeeded} done, {counts.processing} to do"
        return said, one.processing_status == "ended"

    def results(self, remote_id):
        """Yield ``(custom_id, Reply or None)``."""
        with _explained(self.sdk, "collecting the batch"):
            for line in self.client.messages.batches.results(remote_id):
                good = line.result.type == "succeeded"
                yield line.custom_id, _read(self.provider, line.result.message.model_dump()) if good else None


REMOTES = {"openai": OpenAIBatches, "anthropic": AnthropicBatches}


def _read(provider, body):
    try:
        return provider.read(body or {})
    except Transient:
        return None
