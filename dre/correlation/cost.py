"""Section 4.4: what a row costs. Calls, tokens and money are counted; seconds and memory are measured and kept.

``python -m dre.correlation.cost <what> <encoder>`` measures one row in a process of its own, so that its peak memory is
its own; `measured` calls it.
"""

import json
import os
import subprocess
import sys
import time

import pandas as pd

from dre.errors import DreError
from dre.judges import prices, prompts
from dre.judges.estimate import OUTPUT_TOKENS

PER = 1000
#: responses that are really timed; the seconds are scaled to 1,000
TIMED = 100
FILE = "cost.csv"
#: row of Table 4 -> prompts, replies to each for one response
LLM_ROWS = {
    "LLM-only, Ex-DRE, SLIDE": (("llm_only",), 1),
    "In-DRE, DRE": (("dre",), 1),
    "G-EVAL": (tuple(f"geval_{c}" for c in ("coherence", "engagingness", "groundedness", "naturalness")), 20),
    "LLM-Chiang": (tuple(f"chiang_{c}" for c in ("coherence", "engagingness", "groundedness", "naturalness")), 20),
}
#: tokens of a reply; the prompts of LLM-Chiang ask for an analysis before the rating
CHIANG_OUTPUT = 100
PRICED = {
    "GPT-3.5-turbo": ("openai", "gpt-3.5-turbo"),
    "Claude-3-haiku": ("anthropic", "claude-3-haiku-20240307"),
    "Gemini-1.5-flash": ("gemini", "gemini-1.5-flash"),
    "GPT-4o-mini": ("openai", "gpt-4o-mini"),
    "Claude-sonnet-5": ("anthropic", "claude-sonnet-5"),
}
ASSUMED = (
    f"Assumed: {OUTPUT_TOKENS['score']} tokens a reply, {CHIANG_OUTPUT} where an analysis is asked for, and one call a "
    "sample; an API that draws 20 samples in one call charges the prompt once."
)
PUBLISHED = (
    "The paper (section 4.4): about $1,000 for writing the responses, about $100 for judging with GPT-3.5 and "
    "Claude-3; Llama3.3-70B and Qwen2.5 about one minute, DeepSeek-R1-70B about three minutes an example, about 40 GB "
    "of GPU memory each; training the SLM almost 3 hours on an A6000."
)


def of_judges(items):
    """Return calls, estimated tokens and money of the LLM rows per 1,000 responses.

    Parameters
    ----------
    items : DataFrame
        ``pair_id, context, response`` and, for the dre prompt, ``s_d, s_p, score_slm, slm_accuracy, llm_accuracy``;
        ``facts`` where the set has them. Their prompts are rendered and measured: four bytes a token.

    Returns
    -------
    DataFrame
        ``row, calls, input_tokens, output_tokens`` and dollars by judge, at the dated prices of the price table.
    """
    rows = items.to_dict("records")
    out = []
    for name, (asked, repeats) in LLM_ROWS.items():
        tokens = sum(_tokens(prompts.load(prompt), rows) for prompt in asked) / len(rows)
        reply = CHIANG_OUTPUT if name == "LLM-Chiang" else OUTPUT_TOKENS["score"]
        line = {"row": name, "calls": PER * len(asked) * repeats, "input_tokens": round(PER * tokens * repeats)}
        line["output_tokens"] = line["calls"] * reply
        for judge, (provider, model) in PRICED.items():
            price = prices.find(provider, model)
            line[judge] = price.cost(line["input_tokens"], line["output_tokens"]) if price else float("nan")
        out.append(line)
    return pd.DataFrame(out)


def _tokens(prompt, rows):
    texts = ("".join(message["content"] for message in prompt.render({"facts": "", **row})) for row in rows)
    return sum(map(prices.estimated_tokens, texts))


def as_asked(found):
    """Return what judges that were asked live really took, per 1,000 responses; empty where none was.

    Parameters
    ----------
    found : dict of str to list of Opinion
        Label of the domain -> its opinions.

    Returns
    -------
    DataFrame
        ``domain, judge, prompt, calls, dollars`` (NaN where no price is known), ``seconds`` (waited for replies, one
        after the other; calls in flight together take less time).
    """
    rows = [
        {"domain": label, "judge": each.name, "prompt": prompt} | _taken(table)
        for label, part in found.items()
        for each in part
        for prompt, table in ((each.prompt, each.scores), (each.refined_prompt, each.refined))
        if table is not None and "seconds" in table and table["seconds"].notna().any()
    ]
    return pd.DataFrame(rows, columns=["domain", "judge", "prompt", "calls", "dollars", "seconds"])


def _taken(table):
    known = table[table["seconds"].notna()]
    sums = {
        "calls": known["n_samples"].sum(),
        "dollars": known["cost"].sum(min_count=len(known)),
        "seconds": known["seconds"].sum(),
    }
    return {name: PER * value / len(known) for name, value in sums.items()}


def price_sources():
    """Return one sentence that names where the prices are from and their dates."""
    found = {prices.find(*model).source for model in PRICED.values() if prices.find(*model)}
    return "Prices: " + "; ".join(sorted(found)) + "."


MEASURED = {
    "SLM": "SLM (Prob, Dis, both)",
    "overlap": "BLEU-1..4, ROUGE-1/2/L, METEOR",
    "vectors": "Embedding Extrema, Greedy, Average, BERTScore",
    "fusion": "SLIDE and Ex-DRE, given the scores",
}


def hardware():
    """Return GPU, processor and number of cores in words."""
    from dre.pipeline.preflight import cpu, gpu

    return f"{gpu() or 'no GPU'}; {cpu()}, {os.cpu_count()} cores"


def measured(profile):
    """Return seconds and memory per 1,000 responses on this hardware; measured once, then read from ``cost.csv``.

    Times change from run to run. They are therefore measured only if ``results/<profile>/cost.csv`` holds none of this
    hardware and encoder, and a second run of the notebook gives the same table. Delete the file to measure again.
    """
    path, here = profile.results / FILE, hardware()
    if path.is_file():
        table = pd.read_csv(path)
        same = list(table["row"]) == list(MEASURED.values()) and set(table["hardware"]) == {here}
        if same and set(table["encoder"]) == {profile.encoder}:
            return table
    rows = [{"row": name} | _in_a_process(what, profile.encoder) for what, name in MEASURED.items()]
    return pd.DataFrame(rows).assign(encoder=profile.encoder, hardware=here)


def _in_a_process(what, encoder):
    command = [sys.executable, "-m", "dre.correlation.cost", what, encoder]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise DreError(f"measuring the cost of {what} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(what, encoder):
    """Return ``seconds`` (by the clock), ``processor_seconds`` (all cores) a thousand responses, and ``memory_mb``.

    Measured on some responses of the embedded corpus; on a busy machine the processor's seconds are the better number.

    Loading a model is not counted in the seconds, its memory is: ``memory_mb`` is this process' peak, Python and
    libraries included, or the GPU's peak where there is one.
    """
    from dre.data import load, pairs

    items = pairs(load("mini", "test")).head(TIMED)
    items = items.assign(reference=items.groupby("context_id")["response"].transform("first"))
    run = _prepared(what, encoder, items)
    start, busy = time.perf_counter(), time.process_time()
    run()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    memory = round((_gpu_peak() or _peak()) / 2**20)
    scale = PER / len(items)
    times = {"seconds": round(seconds * scale, 3), "processor_seconds": round(busy * scale, 3)}
    return {"timed": len(items), **times, "memory_mb": memory}


def _peak():
    """Peak memory of this process in bytes; what its parent had taken does not count."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 2**10
    except OSError:  # no Linux
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 2**10)


def _gpu_peak():
    torch = sys.modules.get("torch")
    return torch.cuda.max_memory_allocated() if torch and torch.cuda.is_available() else 0


def _prepared(what, encoder, items):
    """Load what a row needs and return the call to be timed; an SLM's time does not depend on its weights."""
    from functools import partial

    from dre import baselines, fusion

    if what == "SLM":
        from sentence_transformers import SentenceTransformer

        from dre.slm import SLM, recipes
        from dre.slm.encoder import load_encoder
        from dre.slm.head import Head

        recipe = recipes.get("paper")
        base = load_encoder(encoder, recipe.max_seq_length)
        head = Head(base.get_embedding_dimension(), recipe.sep)
        model = SentenceTransformer(modules=[*base, head]).to(base.device)
        return partial(SLM(model, recipe, {"d_min": 0.0, "d_max": 1.0}).score, items)
    if what == "overlap":
        return partial(_all, (baselines.bleu, baselines.rouge, baselines.meteor), items)
    if what == "vectors":
        metrics = (partial(metric, encoder=encoder) for metric in (baselines.embedding, baselines.bertscore))
        return partial(_all, tuple(metrics), items)
    if what == "fusion":
        table = items[["pair_id"]].assign(score_llm=2.5, s_d=0.5, s_p=0.5, score_slm=1.0)
        return partial(_all, (fusion.slide, fusion.ex_dre), table)
    raise DreError(f"unknown row {what!r}: expected one of {', '.join(MEASURED)}")


def _all(metrics, table):
    for metric in metrics:
        metric(table)


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
