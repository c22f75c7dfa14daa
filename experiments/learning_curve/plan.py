"""The trainings of the learning curve: which sets, sizes, variants and seeds."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "curve"  # what notebooks read
RUNS = ROOT / "build" / "curve"  # two files and a folder for each training
EPOCHS = 5
#: By domain, the training set and its splits. All responses were written on the papers' request.
LARGEST = {
    "dailydialog": ("dailydialog++", "dev+adversarials only"),
    "personachat": ("convai2-augmented", "train+paper"),
    "topicalchat": ("topicalchat-augmented", "train+paper"),
}
#: By domain, the numbers of contexts of smaller sets; "own" are DailyDialog++'s human-written ones.
SMALLER = {
    "dailydialog": (110, 220, 435, "own"),
    "personachat": (40, 110, 300),
    "topicalchat": (40, 110, 300),
}
#: The domains whose responses are all written for this project.
WRITTEN = ("personachat", "topicalchat")
#: By domain, the rated set of the same kind of dialogues.
OWN_RATED_SET = {
    "dailydialog": "dailydialog-zhao",
    "personachat": "personachat-usr",
    "topicalchat": "topicalchat-usr",
}
MPNET = "sentence-transformers/all-mpnet-base-v2"


class Variant(NamedTuple):
    """How a training differs from recipe ``paper`` on MiniLM.

    Where ``epochs`` is None, the recipe says how many there are.
    """

    recipe: str
    epochs: int | None
    encoder: str


VARIANTS = {
    "": Variant("paper", EPOCHS, "minilm"),
    "plain": Variant("paper", EPOCHS, "minilm"),  # without disentangling
    "robust": Variant("paper-robust", EPOCHS, "minilm"),
    "released": Variant("released", None, "minilm"),
    "mpnet": Variant("paper", 2, MPNET),
}


class Training(NamedTuple):
    """One training: its domain, the size of its set, its seed and its variant.

    The size is a number of contexts, or "all", "own" (DailyDialog++'s human-written contexts),
    "balanced" (responses that give nothing away) or "same" (as many contexts as "balanced").
    """

    domain: str
    size: int | str
    seed: int
    variant: str

    @property
    def name(self) -> str:
        """The name of its files."""
        ending = f"-{self.variant}" if self.variant else ""
        return f"{self.domain}-{self.size}{ending}-seed{self.seed}"


#: Bins of cosine distances. Where shares add up to less than 1, the rest is above the last bin.
BINS = np.linspace(0, 1.6, 33)


def plan() -> list[Training]:
    """Return every training, those that matter most first."""
    largest = [(domain, "all") for domain in LARGEST]
    largest += [(domain, "balanced") for domain in WRITTEN]
    largest += [(domain, "same") for domain in WRITTEN]
    smaller = []
    for domain, sizes in SMALLER.items():
        smaller += [(domain, size) for size in reversed(sizes)]

    trainings = [Training(*point, 0, "") for point in (*largest, *smaller)]
    for seed in (1, 2):
        trainings += [Training(domain, "all", seed, "") for domain in LARGEST]
    for seed in (1, 2):
        trainings += [Training(*point, seed, "") for point in largest]
    trainings.append(Training("dailydialog", "own", 0, "mpnet"))
    trainings += [Training("dailydialog", "all", 0, variant) for variant in ("robust", "released")]
    trainings += [Training(*point, 1, "") for point in smaller]
    for seed in range(3):
        trainings += [Training(domain, "all", seed, "plain") for domain in LARGEST]
    for seed in (3, 4):
        trainings += [Training("dailydialog", "all", seed, variant) for variant in ("", "plain")]
    trainings += [Training("dailydialog", "all", seed, "robust") for seed in (1, 2)]
    # Some are in the list twice.
    return list(dict.fromkeys(trainings))
