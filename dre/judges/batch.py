"""Batch APIs, at half the price: submit, poll, collect, each safe to kill and repeat.

A batch is written into the store as ``submitting``, with a token and everything it asks for, before it is sent, and as
``submitted`` once the provider's id is known. A kill in between leaves ``submitting``: the next command looks at the
provider for what arrived, so nothing is ever submitted twice unknowingly.
"""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from dre.errors import DreError
from dre.judges import verdicts
from dre.judges.remote import REMOTES

MOST_REQUESTS = 10_000
MOST_BYTES = 90_000_000
OPEN = ("submitting", "submitted")


@dataclass
class Batch:
    """A row of the store's table of batches."""

    id: int
    token: str
    remote_id: str
    state: str
    created: str
    requests: int

    def __str__(self):
        name = f"batch {self.token[:8]} ({self.remote_id or 'id unknown'})"
        return f"{name}, {self.requests:,} requests of {self.created[:16]}"


class Batches:
    """The batches of a plan's setting.

    Parameters
    ----------
    judge : dre.judges.judge.Judge
    plan : dre.judges.plan.Plan
    """

    def __init__(self, judge, plan):
        if judge.provider.name not in REMOTES:
            raise DreError(f"{judge.provider.name} has no batch API here: use openai or anthropic, or `dre judge run`")
        self.judge, self.plan, self.store = judge, plan, judge.store
        self.remote = REMOTES[judge.provider.name](judge.provider, judge.policy.timeout)
        self.setting = self.store.setting_id(plan.setting)

    def open(self):
        """Return the batches that are not collected."""
        return batches(self.store, self.setting)

    def submit(self):
        """Submit what is missing and in no open batch; returns the new batches."""
        self.reconcile()
        keys = [key for key in self.plan.missing if key not in self.store.open_keys(self.setting)]
        self._check_price(keys)
        return [self._send(items) for items in self._chunks(set(keys))]

    def reconcile(self):
        """Find out what became of batches whose submission was cut short."""
        for batch in self.open():
            if batch.state == "submitting":
                known = {row[0] for row in self.store.query("SELECT remote_id FROM batch")}
                found = self.remote.find(batch, known)
                if len(found) > 1:
                    raise DreError(
                        f"{batch}: its submission was cut short, and {', '.join(found)} may be it: "
                        "look at the provider's console, then `dre judge batch forget` or `adopt --id` it"
                    )
                self._update(batch, "submitted" if found else "lost", found[0] if found else "")

    def poll(self):
        """Return ``[(Batch, what the provider says, whether it has ended)]`` of the open batches."""
        self.reconcile()
        return [(batch, *self.remote.state(batch.remote_id)) for batch in self.open()]

    def collect(self):
        """Store the replies of batches that have ended and complete the plan.

        Returns
        -------
        (int, int, int)
            Replies stored, requests that failed, and batches that have not ended.
        """
        stored = failed = waiting = 0
        for batch, _, ended in self.poll():
            if not ended:
                waiting += 1
                continue
            gained, lacking = self._gather(batch)
            self.store.add(self.plan.setting, gained.values())
            self._update(batch, "collected", batch.remote_id)
            self.plan.complete({key: one for key, one in gained.items() if key in self.plan.missing})
            stored, failed = stored + len(gained), failed + lacking
        return stored, failed, waiting

    def forget(self):
        """Give up the batches whose submission was cut short; what they asked for is missing again."""
        cut = [batch for batch in self.open() if batch.state == "submitting"]
        for batch in cut:
            self._update(batch, "lost", "")
        return cut

    def adopt(self, remote_id):
        """Say which of the provider's batches the one whose submission was cut short is."""
        cut = [batch for batch in self.open() if batch.state == "submitting"]
        if len(cut) != 1:
            raise DreError(f"{len(cut)} submissions were cut short, expected one to adopt {remote_id}")
        self._update(cut[0], "submitted", remote_id)

    def _check_price(self, keys):
        judge = self.judge
        if judge.max_usd is None:
            return
        if judge.price is None:
            raise DreError(f"no price is known for {judge.spec}, so --max-usd cannot be kept: give --price IN,OUT")
        most = sum(judge.most(self.plan, self.plan.missing[key], judge.price.batch()) for key in keys)
        if most > judge.max_usd:
            raise DreError(
                f"the batch may cost ${most:.2f}, above --max-usd {judge.max_usd:g}: nothing was submitted; "
                "raise it, or submit fewer pairs"
            )

    def _chunks(self, keys):
        chunk, size = [], 0
        for item in self.remote.requests(self.plan, keys):
            length = len(str(item[2]).encode("utf-8", "replace"))
            if chunk and (len(chunk) >= MOST_REQUESTS or size + length > MOST_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(item)
            size += length
        if chunk:
            yield chunk

    def _send(self, items):
        token, created = uuid.uuid4().hex, datetime.now(UTC).isoformat()
        with self.store.transaction() as db:
            row = (self.setting, token, "", "submitting", created, "")
            columns = "setting, token, remote_id, state, created, note"
            number = db.execute(f"INSERT INTO batch ({columns}) VALUES (?, ?, ?, ?, ?, ?)", row).lastrowid
            pair_ids = {key: self.plan.missing[key].pair_id for _, key, _ in items}
            rows = [(number, name, *key, pair_ids[key]) for name, key, _ in items]
            db.executemany("INSERT INTO batch_item VALUES (?, ?, ?, ?, ?)", rows)
        batch = Batch(number, token, "", "submitting", created, len(items))
        try:
            batch.remote_id = self.remote.submit(token, items)
        except DreError as error:
            if getattr(error, "refused", False):  # the provider said no: nothing is there to look for
                self._update(batch, "lost", "")
            raise
        self._update(batch, "submitted", batch.remote_id)
        batch.state = "submitted"
        return batch

    def _gather(self, batch):
        """Return the judgements of an ended batch, and how many requests failed."""
        columns = "custom_id, messages_sha256, repeat, pair_id"
        rows = self.store.query(f"SELECT {columns} FROM batch_item WHERE batch = ?", (batch.id,))
        items = {row[0]: row[1:] for row in rows}
        tasks = {row["pair_id"]: row for row in self.plan.rows}
        price = self.judge.price.batch() if self.judge.price else None
        gained, failed = {}, 0
        for name, reply in self.remote.results(batch.remote_id):
            if name not in items:
                raise DreError(f"{batch}: holds a reply to {name}, which it never asked: nothing was stored of it")
            if reply is None:
                failed += 1
                continue
            *key, pair_id = items[name]
            cost = price.cost(reply.input_tokens, reply.output_tokens) if price else None
            how = {"cost": cost, "seconds": None, "source": "batch"}
            row = tasks.get(pair_id)
            one = verdicts.judgement(self.plan.prompt, tuple(key), pair_id, row or {}, reply, **how)
            # Without its row a reply is read again when it is used.
            gained[tuple(key)] = one if row else one._replace(parser="")
        return gained, failed

    def _update(self, batch, state, remote_id):
        with self.store.transaction() as db:
            db.execute("UPDATE batch SET state = ?, remote_id = ? WHERE id = ?", (state, remote_id, batch.id))


def batches(store, setting):
    """Return the open batches of a setting, by its number."""
    rows = store.query(
        "SELECT id, token, remote_id, state, created, (SELECT COUNT(*) FROM batch_item WHERE batch = batch.id) "
        "FROM batch WHERE setting = ? AND state IN (?, ?) ORDER BY id",
        (setting, *OPEN),
    )
    return [Batch(*row) for row in rows]
