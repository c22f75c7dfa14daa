"""Freeze what the trained models of profile ``public`` say: scores by pair id, provenance beside them.

    python experiments/freeze_scores.py OUT        # every finished model in build/public/models

One ``<key>-<recipe>[-plain]-seed<k>.csv.gz`` a model: ``pair_id, s_d, s_p``, six significant digits; ``.json`` holds what
made it (recipe, data hashes, seed, encoder, versions, curves, d_min, d_max, threshold). Pairs of notebook 07 whose
context was exchanged are called ``<pair id>|<context id>``, altered ones ``<pair id>|turns``, ``|words``, ``|last``.
"""
import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from dre import classification
from dre.audit import alter, subjects, swap, variance
from dre.cases import written
from dre.data import load, pairs, rated, sets
from dre.data.fetch import local
from dre.data.records import rated_table
from dre.data.registry import find
from dre.pipeline.profile import profile
from dre.slm import runs
from dre.slm.model import SLM

NEEDED = ["pair_id", "context", "response"]


def xdial(name):
    """A set of xDial-Eval that has the form of DailyDialog-Zhao."""
    path = local(find("xdial-eval", "dailydialog-zhao.csv")).with_name(f"{name}.csv")
    table = pd.read_csv(path)
    turns = table["english_ctx"].map(lambda text: tuple(line.strip() for line in text.split("\n") if line.strip()))
    ids = [f"{name}/{i}" for i in range(len(table))]
    return pd.DataFrame({"pair_id": ids, "context": turns, "response": table["english_res"].str.strip()})


def everywhere(settings):
    """Pairs that every model scores: rated sets, the case studies, the augmented sets, the embedded corpus."""
    parts = [rated_table(rated(name)) for name in settings.rated]
    parts += [xdial(name) for name in ("dailydialog-gupta", "dailydialog-grade", "empathetic-grade")]
    parts += [written.load().rename(columns={"turns": "context"})]
    for name in ("convai2-augmented", "topicalchat-augmented", "mini"):
        parts += [pairs(load(name, split)) for split in sets.splits(name)]
    return parts


def audited(settings, test):
    """The pairs of notebook 07."""
    shown = pairs(subjects.sample(test, 200, settings.seed), kinds="par").reset_index(drop=True)
    name_of = dict(zip(shown["context"], shown["context_id"]))
    positives = shown[shown["kind"] == "p"]
    parts = []
    for one in (swap.exchange(positives, 4, settings.seed), swap.exchange(shown, 1, settings.seed)):
        parts.append(one.assign(pair_id=one["pair_id"] + "|" + one["context"].map(name_of)))
    for how, short in zip(alter.ALTERED, ("turns", "words", "last")):
        parts.append(alter.alter(shown, how, settings.seed).assign(pair_id=lambda t, s=short: t["pair_id"] + "|" + s))
    return [*parts, variance.grid(shown, 60, settings.seed)]


def write(path, text):
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text) if isinstance(text, str) else text.to_csv(partial, index=False, float_format="%.6g", compression={"method": "gzip", "mtime": 0})
    os.replace(partial, path)


def main(out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    settings = profile("public")
    entries = {entry.key: entry for entry in settings.sets}
    always = everywhere(settings)
    for folder in sorted((settings.build / "models").iterdir()):
        name = folder.name.rsplit("-", 1)[0]
        key = name.split("-")[0]
        if folder.name.endswith((".work", ".partial")) or (out / f"{name}.json").exists():
            continue
        train, dev, test = runs.contexts(entries[key.split("+")[0]], settings.rated)
        kinds = "par" if key.startswith("dailydialog") else "pa"
        held_out = pairs(dev, kinds=kinds)
        parts = [held_out, pairs(test, kinds=kinds)]
        if "-plain-" not in name:
            parts += always
            if key == "dailydialog":
                parts += audited(settings, test)
        table = pd.concat([part[NEEDED] for part in parts], ignore_index=True).drop_duplicates("pair_id", ignore_index=True)
        slm = SLM.load(folder)
        scored = slm.score(table)
        dev_scores = scored.set_index("pair_id").loc[held_out["pair_id"], "score_slm"].to_numpy()
        slm.set_threshold(classification.choose_threshold(dev_scores, held_out["kind"], negatives=kinds[1:]))
        write(out / f"{name}.csv.gz", scored[["pair_id", "s_d", "s_p"]])
        write(out / f"{name}.json", json.dumps(slm.provenance, indent=1, sort_keys=True) + "\n")
        print(name, len(scored), flush=True)
    if not (out / "encoder-untrained.json").exists():
        _, dev, test = runs.contexts(entries["dailydialog"], settings.rated)
        parts = [pairs(dev, kinds="par"), pairs(test, kinds="par"), *always, *audited(settings, test)]
        table = pd.concat([part[NEEDED] for part in parts], ignore_index=True).drop_duplicates("pair_id", ignore_index=True)
        scored = SLM.untrained(settings.encoder).distances(table)
        write(out / "encoder-untrained.csv.gz", scored[["pair_id", "distance"]])
        write(out / "encoder-untrained.json", json.dumps({"encoder": settings.encoder}) + "\n")
        print("untrained", len(scored), flush=True)
    figure5(settings, entries["dailydialog"], out)


def figure5(settings, entry, out):
    """The embeddings of Figure 5: whole and robust of seed 0, whole of its control without disentanglement."""
    found = {name: list((settings.build / "models").glob(f"dailydialog-{name}-seed0-????????????")) for name in ("paper", "paper-plain")}
    if (out / "figure5.npz").exists() or not all(found.values()):
        return
    contexts = runs.contexts(entry, settings.rated)[2][:5]
    ids = [context.context_id for context in contexts for _ in range(1 + len(context.positives) + len(context.adversarials))]
    kinds = [kind for context in contexts for kind in ("c", *"p" * len(context.positives), *"a" * len(context.adversarials))]
    arrays = {"context_id": np.array(ids), "kind": np.array(kinds)}
    for name, (folder,) in found.items():
        slm = SLM.load(folder)
        texts = [text for c in contexts for text in (slm.context(c.turns), *c.positives, *c.adversarials)]
        h = slm.encode(texts)
        whole, anchor, robust = (h[part].cpu().numpy() for part in ("sentence_embedding", "anchor", "robust"))
        if name == "paper":
            arrays |= {"whole": whole, "robust": np.where((arrays["kind"] == "c")[:, None], anchor, robust)}
        else:
            arrays |= {"plain": whole}
    np.savez_compressed(out / "figure5.npz", **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
