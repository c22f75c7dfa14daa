"""Time the judges: 1,000 calls with 50 in flight, and replaying 100,000 stored judgements.

Run it on a machine that does nothing else. It prints a table and writes results/bench/judges.json.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from dre.judges import plan as plans  # noqa: E402
from dre.judges import prompts, providers, table, verdicts  # noqa: E402
from dre.judges.judge import Judge  # noqa: E402
from dre.judges.policy import Policy  # noqa: E402
from dre.judges.providers.base import Reply  # noqa: E402
from dre.judges.store import Store  # noqa: E402
from dre.pipeline.preflight import cpu  # noqa: E402

CALLS, FLYING, LATENCY, STORED = 1000, 50, 0.2, 100_000
IDEAL = CALLS / FLYING * LATENCY
MOST_RUN, MOST_REPLAY = 1.25 * IDEAL, 2.0


def pairs(n):
    turns = ("Did you water the plants this morning?", "Which ones do you mean, the ferns or number {}?")
    return [
        {"pair_id": f"bench/{i}", "context": (turns[0], turns[1].format(i)), "response": f"Number {i}, by the door."}
        for i in range(n)
    ]


def run(folder):
    """Seconds for 1,000 calls to a server of its own process, and seconds of processor time a call."""
    command = [sys.executable, str(ROOT / "tests" / "judge_servers.py"), "openai", str(LATENCY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
            policy = Policy(concurrency=FLYING)
            with Store(folder / "run.sqlite") as store:
                judge = Judge("openai:bench", store=store, base_url=url, policy=policy)
                judge.run(judge.plan(pairs(1)), lambda outcome: None)  # imports and the first connection
                plan = judge.plan(pairs(CALLS + 1))
                start, busy = time.perf_counter(), time.process_time()
                judge.run(plan, lambda outcome: None)
                seconds, busy = time.perf_counter() - start, time.process_time() - busy
                assert set(table.of_plan(plan, "single")["status"]) == {"ok"}
        finally:
            server.kill()
    return seconds, busy / CALLS


def fill(store, rows):
    prompt, provider = prompts.load("llm_only"), providers.make("openai", "bench")
    params = provider.params(prompt, max_tokens=1024)
    plan = plans.make(rows, prompt, provider, params, 1, store)
    reply = Reply('{"score": 3.5}', "ok", 300, 8, "bench-2026-01-01")
    how = {"cost": 1e-4, "seconds": 0.2, "source": "live"}
    first = verdicts.judgement(prompt, ("", 0), "", rows[0], reply, **how)
    store.add(
        plan.setting,
        [first._replace(messages_sha256=key[0], pair_id=task.pair_id) for key, task in plan.missing.items()],
    )


def replay(folder):
    """Seconds to score stored pairs again, opening the store included; of processor time; bytes a judgement."""
    rows, path = pairs(STORED), folder / "replay.sqlite"
    with Store(path) as store:
        fill(store, rows)
    best = (float("inf"), 0.0)
    for _ in range(3):
        start, busy = time.perf_counter(), time.process_time()
        with Store(path) as store:
            frame = Judge("openai:bench", store=store).score(rows)
        best = min(best, (time.perf_counter() - start, time.process_time() - busy))
        assert len(frame) == STORED and set(frame["status"]) == {"ok"}
    return *best, path.stat().st_size / STORED


def hardware():
    return f"{cpu()}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"


def main():
    os.environ["OPENAI_API_KEY"] = "bench"
    with tempfile.TemporaryDirectory() as name:
        seconds, busy = run(Path(name))
        replayed, replay_busy, size = replay(Path(name))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kB on Linux
    results = {
        "hardware": hardware(),
        "load_at_the_end": round(os.getloadavg()[0], 2),
        "calls": CALLS,
        "in_flight": FLYING,
        "server_seconds": LATENCY,
        "run_seconds": round(seconds, 3),
        "ideal_seconds": IDEAL,
        "overhead_ms_per_call": round((seconds - IDEAL) / CALLS * 1000, 3),
        "processor_ms_per_call": round(busy * 1000, 3),
        "stored": STORED,
        "replay_seconds": round(replayed, 3),
        "replay_processor_seconds": round(replay_busy, 3),
        "disk_bytes_per_judgement": round(size),
        "peak_memory_mib": round(memory),
    }
    lines = [
        (f"{CALLS:,} calls, {FLYING} in flight", f"{seconds:.2f} s", f"at most {MOST_RUN:.2f} s"),
        ("overhead a call", f"{results['overhead_ms_per_call']:.2f} ms", ""),
        ("processor time a call", f"{results['processor_ms_per_call']:.2f} ms", ""),
        (f"replaying {STORED:,} judgements", f"{replayed:.2f} s", f"at most {MOST_REPLAY:.2f} s"),
        ("  of it processor time", f"{replay_busy:.2f} s", ""),
        ("disk a judgement", f"{size:.0f} bytes", ""),
        (f"peak memory with {STORED:,} stored", f"{memory:.0f} MiB", ""),
    ]
    print(results["hardware"])
    for what, found, target in lines:
        print(f"{what:38} {found:>12}   {target}")
    path = ROOT / "results" / "bench" / "judges.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    return int(seconds > MOST_RUN or replayed > MOST_REPLAY)


if __name__ == "__main__":
    sys.exit(main())
