"""Train two variants of recipe ``ours``, which were compared with it on a GPU.

Run ``python experiments/small_model/variants.py VARIANT SEED`` with the public data. It makes the
folder build/public/models/VARIANT-seedSEED and prints its name, which measure.py takes. It makes no
committed file. After an interruption it goes on from its last checkpoint.

``eight dialogues``
    Eight dialogues come into a batch with each labelled context, not four, and the head for fit
    learns from 12,000 dialogues, not 3,000.
``taught padding``
    Right replies with an empty sentence behind them are further wrong replies. The sentences are
    not the one of the audit's kind ``longer``. Two of the six that the recorded trainings learned
    from are everyday phrases that data sets have as well. They have others in their place here, so
    a new training differs a little.

Both were fixed before the six measures of measure.py were computed, and these decide: a lead of
less than a seed moves leaves the recipe as it is. The trainings ``ours, on a GPU``, ``ours, eight
dialogues`` and ``ours, taught padding`` in results/choices/small_model are of one NVIDIA H200, nine
side by side (torch 2.11, bfloat16), five to six minutes each. ``ours, on a GPU`` is recipe ``ours``
unchanged.
"""

import random
import sys
from dataclasses import replace

from measure import load_data

from dre.paper.profile import profile
from dre.slm import fit, ours
from dre.slm.recipes import OURS, Mixture

VARIANTS = {
    "eight dialogues": replace(OURS, mixture=Mixture(dialogues=8, fits=12_000, copies=True)),
    "taught padding": OURS,
}
EMPTY_SENTENCES = (
    "Well, that is one way of putting all this.",
    "It is what it is, I suppose.",
    "Anyway, that is all I can say.",
    "You know how it is.",
    "I think that is how things are.",
    "So much for that, as far as I am concerned.",
)


def copies_and_padded(context) -> tuple[str, ...]:
    """Return copies of a context, and one of its right replies with an empty sentence behind it."""
    rng = random.Random(f"padded {context.context_id}")
    padded = f"{rng.choice(context.positives)} {rng.choice(EMPTY_SENTENCES)}"
    return *COPIES(context), padded


COPIES = ours.copies


def main(variant: str, seed: int) -> None:
    """Train one variant unless it is there, and print its folder."""
    public = profile("public")
    data = load_data(public)
    if variant == "taught padding":
        ours.copies = copies_and_padded
    folder = public.build / "models" / f"{variant.replace(' ', '-')}-seed{seed}"
    recipe = VARIANTS[variant]
    fit(data.labelled, data.held_out, folder, recipe, seed, public.encoder, extra=data.further)
    print(folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
