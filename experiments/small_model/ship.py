"""Make a training the model that comes with the package, with a card that says what it is for.

Run ``python experiments/small_model/ship.py VERSION FOLDER`` after measure.py and notebook 08 of
profile ``public``. FOLDER is a training of recipe ``ours``, such as
build/public/models/all-ours-seed0-... It makes dre/slm/default in seconds: the weights, what they
were learned from, and the card. ``VERSION --card`` only writes the card of the present model anew.
"""

import shutil
import sys

import pandas as pd
from measure import MEAN_OF_SETS

from dre.paper.profile import root
from dre.slm import SLM
from dre.slm.provenance import DEFAULT

#: More bytes than these do not come with the package.
MAX_BYTES = 4_500_000
RESULTS = root() / "results"
CARD = """# The SLM that comes with dre

`{name}` (model {fingerprint}) is recipe `ours`, seed {seed}, on the encoder {encoder}. The weights
of the encoder stay as they are and are not in this folder. `adapter.safetensors` has, in half
precision, the low-rank matrices that adapt it and two small heads. `slm.json` says what they were
learned from, with hashes.

## What it is for

It gives a response in its dialogue one number. Higher is better, and 1 is an ordinary pair. It adds
three answers: how much the response resembles its dialogue (counted twice), whether it fits there,
and how good it is. `accepted` means a score of {threshold:.3f} or more.

Without a judge, use it to compare two versions of a system on the same contexts. With a weak judge,
use it in a fusion. It is not shown to rank systems. Do not use it for single replies, for facts, or
for any language but English. It saw chat between two people.

## What it learned from

Labelled contexts ({sets}), with copies of the context among the wrong responses;
{dialogues:,} English dialogues (DailyDialog++, ConvAI2, Topical-Chat); and {graded:,} grades by a
language model, `claude-2026-11`, whose taste they carry. Conversations that share an utterance with
a set of human ratings used in this project were left out.

## How well it agrees with people

Spearman correlation on seven public sets. Recipe `ours` was trained three times, with the seeds 0,
1 and 2, and this folder holds seed {seed}. Seeds were not chosen. The second column is the mean of
the three, in brackets 95 % over contexts and seeds. Three choices were made after a look at these
sets, so the numbers are not untouched: the weight of likeness, the two rules below, and that it
learns from copies and not from quotes. No other set with human ratings in this project checks them.

{agreement}

## How to train it again

    python experiments/small_model/train.py {seed}

On one core of an AMD EPYC this takes about 45 minutes. The mean of the sets is {mean_of_seed:.4f},
and the three seeds lie between {lowest:.4f} and {highest:.4f}. On one NVIDIA H200, beside eight
other trainings, it took five minutes and gave {on_gpu:.4f}, the three seeds from
{lowest_on_gpu:.4f} to {highest_on_gpu:.4f}. The weights depend a little on the processor, so
expect a mean within 0.01 of these.

## What fools it

Before it scores, it leaves out what a response repeats of its context: a turn that is quoted, or
the whole response where hardly a word is its own. The column `left_out` says so. How often it
prefers a good reply to a worse one, in percent (contexts of DailyDialog++ test; 50 is chance;
brackets: 95 % over contexts and seeds):

{fooled}

What still fools it:

- **Contradictions**: a good reply is preferred to one that contradicts its context in
  {contradicts:.0f} % of cases. `accepted` says nothing about contradiction.
- **Padding**: an empty sentence behind a good reply often goes unnoticed. The padded reply loses
  in {padding:.0f} % of cases. A recipe that also learned from quotes had {padding_taught:.0f} %. It
  had learned that longer is worse, and agreed less with people.
- **Transcripts without punctuation** get lower scores than the same words with it.
- **Quotes in other words**: only what is repeated word by word is left out.
"""


def agreement_table() -> str:
    """Return a Markdown table of correlations with people on each rated set."""
    table = pd.read_csv(RESULTS / "public" / "small_model.csv").set_index("set")
    of_seeds = pd.read_csv(RESULTS / "public" / "small_model_seeds.csv").set_index("set")
    lines = [
        "| set | this model | three trainings | their likeness alone "
        "| cosine of the encoder before our training |",
        "|---|---|---|---|---|",
    ]
    for name, row in table.iterrows():
        cells = [
            str(name),
            f"{of_seeds.loc[name, 'seed 0']:.2f}",
            with_interval(row["ours"], row["ours_low"], row["ours_high"]),
            f"{row['likeness']:.2f}",
            f"{row['encoder before our training']:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def of_trainings() -> dict[str, float]:
    """Return what the card says about the three trainings, by its place in `CARD`."""
    agreement = pd.read_csv(RESULTS / "public" / "small_model_seeds.csv").set_index("set")
    of_seeds = agreement.loc[MEAN_OF_SETS, ["seed 0", "seed 1", "seed 2"]]
    fooled = pd.read_csv(RESULTS / "public" / "small_model_fooled.csv")
    padded = fooled.set_index("kind").loc["longer"]
    recorded = pd.read_csv(RESULTS / "choices" / "small_model" / "agreement.csv")
    is_mean_on_gpu = (recorded["model"] == "ours, on a GPU") & (recorded["set"] == MEAN_OF_SETS)
    [on_gpu] = recorded.loc[is_mean_on_gpu, ["seed 0", "seed 1", "seed 2"]].to_numpy()
    return {
        "on_gpu": on_gpu[0],
        "lowest_on_gpu": on_gpu.min(),
        "highest_on_gpu": on_gpu.max(),
        "mean_of_seed": of_seeds["seed 0"],
        "lowest": of_seeds.min(),
        "highest": of_seeds.max(),
        "padding": padded["ours"],
        "padding_taught": padded["taught quotes"],
    }


def with_interval(value: float, low: float, high: float) -> str:
    """Return a number with its interval, such as ``0.34 [0.31, 0.37]``."""
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def fooled_table() -> str:
    """Return a Markdown table of how often a good reply is preferred, by kind."""
    table = pd.read_csv(RESULTS / "public" / "small_model_fooled.csv")
    lines = ["| against | three trainings | with quotes read |", "|---|---|---|"]
    for row in table.to_dict("records"):
        interval = f"[{row['ours_low']:.0f}, {row['ours_high']:.0f}]"
        cells = [
            row["against"],
            f"{row['ours']:.0f} {interval}",
            f"{row['quotes read']:.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write_card(slm: SLM) -> None:
    """Write the card of the model in the package."""
    provenance = slm.provenance
    choice = pd.read_csv(RESULTS / "public" / "small_model_choice.csv")
    is_shipped = (choice["model"] == "ours") & (choice["reading"] == "likeness twice")
    card = CARD.format(
        name=provenance["name"],
        fingerprint=provenance["fingerprint"][:12],
        seed=provenance["seed"],
        encoder=provenance["encoder"],
        threshold=provenance["threshold"],
        sets=", ".join(f"{n:,} of {name}" for name, n in provenance["sets"].items()),
        dialogues=provenance["extra"]["dialogues"],
        graded=provenance["extra"]["graded"],
        agreement=agreement_table(),
        fooled=fooled_table(),
        contradicts=choice.loc[is_shipped, "contradicts"].item(),
        **of_trainings(),
    )
    (DEFAULT / "README.md").write_text(card, encoding="utf-8")


def ship(version: str, folder: str) -> None:
    """Put a training into the package, and a card beside it."""
    slm = SLM.load(folder)
    slm.provenance["name"] = f"default-{version}"
    new_folder = DEFAULT.with_name("default.new")
    shutil.rmtree(new_folder, ignore_errors=True)
    slm.save(new_folder)
    size = sum(file.stat().st_size for file in new_folder.iterdir())
    if size > MAX_BYTES:
        shutil.rmtree(new_folder)
        raise SystemExit(
            f"the model has {size:,} bytes: at most {MAX_BYTES:,} come with the package"
        )
    card = DEFAULT / "README.md"
    if card.exists():
        shutil.copy(card, new_folder)
    shutil.rmtree(DEFAULT, ignore_errors=True)
    new_folder.rename(DEFAULT)


def main(version: str, folder: str) -> None:
    """Ship a training unless only its card is wanted, and write the card."""
    if folder != "--card":
        ship(version, folder)
    write_card(SLM.load(DEFAULT))


if __name__ == "__main__":
    main(*sys.argv[1:])
