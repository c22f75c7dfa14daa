"""PCAF's ablation (its Table 7) at the size of what is public, in English, Spanish and Chinese; and its Figure 2.

First stage: DailyDialog-Gupta and DailyDialog-GRADE; distillation: these and Empathetic-GRADE. The response of each
context that people rated highest is the right one, that of another context, in all versions, the wrong one; contexts
that share an utterance with a test set are left out. Tested by language on DailyDialog-Zhao, PersonaChat-USR and FED
turns. All of this was fixed before the first test.

Run ``python experiments/pcaf.py [profile]``: ``public`` (default; MiniLM, 17 minutes of one core a seed) or ``full``
(XLM-RoBERTa-base, of the paper's kind, from the Hub; a GPU). It writes ``pcaf-<variant>-seed<k>`` (``pair_id`` and a
score for each language, four digits) into results/<profile>/scores; what is recorded there is not done twice.
"""

import hashlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from dre import ratings
from dre.dialogues import Context, disjoint
from dre.slm import SLM, pcaf

PROFILE = (sys.argv[1:] or ["public"])[0]
SCORES = Path(__file__).resolve().parents[1] / "results" / PROFILE / "scores"
FIRST, MORE = ("dailydialog-gupta", "dailydialog-grade"), ("empathetic-grade",)
TESTS = ("dailydialog-zhao", "personachat-usr", "fed-turn")
ENCODER = {"public": "minilm", "full": "xlm-roberta-base"}[PROFILE]
SEEDS, TOKENS = (0, 1, 2), 64  # of context and response the last ones: half of 128, a third of the time


def ideas(name):
    """The highest-rated response of every context of a set, in all languages; (ideas, contexts left out)."""
    tables = ratings.translated(name)
    best = tables["en"].groupby("context_id", sort=False)["human"].idxmax()
    contexts = [Context(name, str(i), "train", tables["en"]["context"][i]) for i in best]
    kept = [int(context.id) for context in disjoint(contexts, ratings.held_out(TESTS))]
    found = [tuple((table["context"][i], table["response"][i]) for table in tables.values()) for i in kept]
    return [pcaf.Idea(versions) for versions in found], len(best) - len(kept)


def tests():
    """The rated responses of all test sets, by language."""
    found = [ratings.translated(name) for name in TESTS]
    return {language: pd.concat([one[language] for one in found], ignore_index=True) for language in ratings.LANGUAGES}


def neighbours(features):
    """Of versions (languages, n, d): how often an idea's nearest one in another language is itself, and cosines."""
    v = F.normalize(features, dim=-1)
    cosines = [v[i] @ v[j].T for i in range(len(v)) for j in range(len(v)) if i != j]
    own = torch.stack([each.diag() for each in cosines])
    other = torch.stack([(each.sum() - each.trace()) / (each.numel() - len(each)) for each in cosines])
    right = torch.stack([each.argmax(dim=1) == torch.arange(len(each)) for each in cosines])
    parts = {"nearest_is_same_idea": right, "cosine_same_idea": own, "cosine_other_idea": other}
    return {name: round(part.float().mean().item(), 4) for name, part in parts.items()}


def plane(features):
    """The first two principal components of all versions together: (languages, n, 2)."""
    flat = features.flatten(0, 1)
    _, _, axes = torch.linalg.svd(flat - flat.mean(dim=0), full_matrices=False)
    return ((flat - flat.mean(dim=0)) @ axes[:2].T).reshape(*features.shape[:2], 2).numpy()


def write(table, name, about=None):
    """Write ids and numbers, four digits, the same bytes for the same numbers; what made them beside it."""
    SCORES.mkdir(parents=True, exist_ok=True)
    path = SCORES / f"{name}.csv.gz"
    table.to_csv(path, index=False, float_format="%.4g", compression={"method": "gzip", "mtime": 0})
    if about:
        path.with_name(f"{name}.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main():
    """Train, score, write; print what it cost."""
    (one, out_one), (two, out_two), (three, out_three) = map(ideas, FIRST + MORE)
    first, more, tables = [*one, *two], [*one, *two, *three], tests()
    print(f"{len(first)} and {len(more)} ideas; left out for the test sets: {out_one}, {out_two}, {out_three}")
    shown = tables["en"].drop_duplicates("context_id")
    shown = shown[(shown["set"] == "dailydialog-zhao") & shown["reference"].notna()].index
    digest = hashlib.sha256(json.dumps([idea.versions for idea in more], ensure_ascii=False).encode()).hexdigest()
    ids = tables["en"][["pair_id"]]

    def drawn(metric):
        return torch.stack([metric.features(table.loc[shown]) for table in tables.values()])

    if not (SCORES / "pcaf-cosine.json").exists():
        cosines = {code: 1 - SLM.untrained(ENCODER).distances(table)["distance"] for code, table in tables.items()}
        untrained = pcaf.PCAF.untrained(ENCODER, pcaf.Recipe(max_seq_length=TOKENS))
        write(ids.assign(**cosines), "pcaf-cosine", neighbours(drawn(untrained)))
    for seed in SEEDS:
        for align in (True, False):
            names = ("align", "align-distil") if align else ("plain", "distil")
            if all((SCORES / f"pcaf-{name}-seed{seed}.json").exists() for name in names):
                continue
            spent, recipe = time.process_time(), pcaf.Recipe(align=align, max_seq_length=TOKENS)
            about = {"recipe": asdict(recipe), "seed": seed, "encoder": ENCODER, "ideas": [len(first), len(more)]}
            about |= {"ideas_hash": digest, "torch": torch.__version__, "threads": torch.get_num_threads()}
            for name, metric in zip(names, pcaf.fit(first, more, recipe, seed, ENCODER)):
                features = drawn(metric)
                scores = {code: metric.score(table) for code, table in tables.items()}
                about |= neighbours(features) | {"cpu_seconds": round(time.process_time() - spent)}
                write(ids.assign(**scores), f"pcaf-{name}-seed{seed}", about)
                if seed == 0 and name in ("align", "plain"):
                    x, y = plane(features).reshape(-1, 2).T
                    points = {"language": np.repeat(list(tables), len(shown)), "idea": [*shown] * len(tables)}
                    write(pd.DataFrame(points | {"x": x, "y": y}), f"pcaf-plane-{name}")
            print(f"seed {seed}, alignment {align}: {time.process_time() - spent:.0f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
