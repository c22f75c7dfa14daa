"""Make the SLM that comes with the package of a model that is trained, with a card of what it learned and reaches.

Run ``python experiments/ship_default.py VERSION READING FOLDER``, after ``experiments/small_model.py --look``: READING
is the one that is shipped and that ``score_slm`` gives, such as both, FOLDER its model, such as
build/public/models/all-both-seed0-.... It writes dre/slm/default: what was learned, what from, and the card.
"""

import shutil
import sys

import pandas as pd
from small_model_variants import OUT

from dre.datasets.ratings import RATED
from dre.slm import SLM
from dre.slm.provenance import DEFAULT

MOST = 6_000_000  # bytes beside the encoder
CARD = """# The SLM that comes with dre

`{name}` (model {fingerprint}): recipe `{recipe}`, seed {seed}, on the encoder {encoder}, whose own weights stay as they
are and are not in this folder. `graded/` and `cross/` hold, in half precision, low-rank matrices that adapt the
encoder, and what reads off it; `slm.json` says what they were learned from, with hashes.

- **Does**: one number for a response in its dialogue, higher is better, 1 an ordinary pair of those that were graded;
  `accepted` from {threshold:.3f} on. Five answers count alike: how like its dialogue a response is, and from each of
  two models whether it fits there and how good it is. One reads context and response alone, the other together.
- **Learned from**: labelled contexts ({sets}), with copies of the context among the wrong responses, {dialogues:,}
  English dialogues (DailyDialog++, ConvAI2, Topical-Chat), and {graded:,} grades by a language model,
  `claude-2026-11`. Conversations that share an utterance with a set of human ratings used in this project were left
  out.
- **Chosen**: against the rule. The rule, which sees no human rating (experiments/small_model.py), takes the same
  model without likeness; the look at people showed that one below its predecessor, so likeness was kept.
- **Worse than the one before** at random replies and padded ones, and lower on replies of another turn and within
  systems (notebook 12): read means over many replies.
- **Not for**: other languages than English, single responses as the ground for a decision, facts. It saw chat between
  two people; grades come from a language model and carry its taste.

Spearman correlation with people ({seeds} training(s), of which this is one), with 95 % intervals; one training of the
one before, too. Only differences whose intervals exclude zero count as shown, and notebook 12 has those: few do.

{table}

{worse}
"""


def reached(look, reading):
    """Return a Markdown table of what a reading reaches on the rated sets, and on which it is no better than a cosine.

    ``look``: the table that ``small_model.py --look`` wrote, by (reading, measure).
    """
    lines = [
        "| set | this model | the one before | cosine of its encoder | length |",
        "|---|---|---|---|---|",
    ]
    worse = []
    for name, title in RATED.items():
        found, old, cosine, length = (
            look.loc[(one, name)] for one in (reading, "default", "cosine", "length")
        )
        interval = f"[{found['low']:.2f}, {found['high']:.2f}]"
        others = " | ".join(f"{one['value']:.2f}" for one in (old, cosine, length))
        lines.append(f"| {title} | {found['value']:.2f} {interval} | {others} |")
        if found["value"] <= cosine["value"]:
            worse.append(title)
    return "\n".join(lines), f"Below the cosine on: {', '.join(worse) or 'none of them'}."


def main(version, reading, folder):
    """Save the model in the package."""
    look = pd.read_csv(OUT / "look.csv", index_col=["reading", "measure"])
    if reading not in look.index:
        known = ", ".join(look.index.unique("reading"))
        raise SystemExit(f"{OUT / 'look.csv'} has no reading {reading!r}: it has {known}")
    slm = SLM.load(folder)
    about = slm.provenance
    about |= {"name": f"default-{version}"}
    new = DEFAULT.with_name("default.new")
    shutil.rmtree(new, ignore_errors=True)
    slm.save(new)
    if (size := sum(file.stat().st_size for file in new.rglob("*") if file.is_file())) > MOST:
        shutil.rmtree(new)
        raise SystemExit(f"the model has {size:,} bytes: at most {MOST:,} come with the package")
    table, worse = reached(look, reading)
    facts = {key: about[key] for key in ("name", "seed", "encoder", "threshold")}
    facts |= {key: about["extra"][key] for key in ("dialogues", "graded")}
    facts["sets"] = ", ".join(f"{number:,} of {name}" for name, number in about["sets"].items())
    facts |= {"recipe": slm.recipe.name, "fingerprint": about["fingerprint"][:12]}
    facts["seeds"] = int(look.loc[reading, "seeds"].max())
    (new / "README.md").write_text(CARD.format(table=table, worse=worse, **facts), encoding="utf-8")
    shutil.rmtree(DEFAULT, ignore_errors=True)
    new.rename(DEFAULT)


if __name__ == "__main__":
    main(*sys.argv[1:])
