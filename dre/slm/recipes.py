"""Named choices among the readings the papers leave open (recipes).

The papers do not fix how ``sep()`` works, how many triplets a context gives, or whether the terms of
Eq. 16 are minimised together or one after another. A recipe fixes all of it under a name:

``paper``     what the text of DRE section 3.3 says: one joint loss (Eq. 16). All 25 triplets of a context take part,
              and Eq. 12 acts on the robust parts, since they are what Eq. 18 measures when scoring.
``released``  what the authors' released notebook does: one linear layer whose output is cut in halves, all 25
              triplets, three stages (contrastive with in-batch negatives; disentangling; classifier).
"""

from dataclasses import asdict, dataclass, replace

from dre.errors import DreError

TERMS = ("L_out", "L_in_batch", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")


@dataclass(frozen=True)
class Stage:
    """One optimisation run: which loss terms, on which parameters, for how long."""

    name: str
    terms: tuple[str, ...]
    epochs: int
    trains: tuple[str, ...] = ("encoder", "head")


@dataclass(frozen=True)
class Recipe:
    """Every choice that changes a trained SLM, apart from data, encoder and seed.

    Attributes
    ----------
    sep : ``"maps"`` two linear maps d -> d, the robust one starting as the identity; ``"halves"`` one linear
        layer whose output is cut in two, the robust half padded with zeros; ``"none"`` no disentanglement.
    pairs : ``"zip"`` pairs positive i with adversarial i (5 a context), ``"all"`` takes all 25.
    margin : m of Eq. 12 and 13, in cosine distance.
    batch_contexts : contexts a step; each brings all its responses, so a text is encoded once a step.
    learning_rate, head_learning_rate : peak rates of AdamW for the encoder and for the head.
    contrast : Eq. 12 on the whole embeddings, as printed (``"whole"``), or on the robust parts, which Eq. 18
        measures (``"robust"``).
    max_seq_length : tokens kept of a text (of a context: its last ones).
    """

    name: str
    sep: str
    pairs: str
    stages: tuple[Stage, ...]
    margin: float = 0.5
    batch_contexts: int = 8
    learning_rate: float = 5e-5
    head_learning_rate: float = 1e-3
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_seq_length: int = 128
    contrast: str = "whole"

    @property
    def disentangled(self):
        """Whether responses are separated into a robust and a non-robust part."""
        return self.sep != "none"

    def as_dict(self):
        """Return the recipe as plain JSON types, for provenance and fingerprints."""
        return asdict(self)


_JOINT = ("L_out", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("paper", sep="maps", pairs="all", contrast="robust", stages=(Stage("joint", _JOINT, epochs=3),)),
        Recipe(
            "released",
            sep="halves",
            pairs="all",
            contrast="robust",  # Eq. 12 on whole embeddings could not train the head
            stages=(
                Stage("contrastive", ("L_in_batch",), epochs=2, trains=("encoder",)),
                Stage("disentangle", ("L_out", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust"), 2, ("head",)),
                Stage("classifier", ("L_cls",), epochs=2, trains=("head",)),
            ),
        ),
    )
}


def get(name, epochs=None, disentangled=True):
    """Return a recipe by name.

    Parameters
    ----------
    name : str or Recipe
    epochs : int, optional
        Epochs of every stage instead of the recipe's own.
    disentangled : bool
        False gives the control of Figures 3 and 4: ``sep`` is dropped, and with it Eq. 13 and 14; the
        classifier then reads [h_c; h_r] and has two classes.

    Raises
    ------
    DreError
        If no recipe has that name, or ``epochs`` is not a positive integer.
    """
    if isinstance(name, Recipe):
        recipe = name
    elif name in RECIPES:
        recipe = RECIPES[name]
    else:
        raise DreError(f"unknown recipe {name!r}: expected one of {', '.join(RECIPES)}")
    if epochs is not None:
        if not isinstance(epochs, int) or epochs < 1:
            raise DreError(f"epochs is {epochs!r}: expected an integer of at least 1")
        recipe = replace(recipe, stages=tuple(replace(stage, epochs=epochs) for stage in recipe.stages))
    if not disentangled:
        recipe = _without_disentanglement(recipe)
    return recipe


def _without_disentanglement(recipe):
    kept = {"L_out", "L_in_batch", "L_cls"}
    stages = [replace(s, terms=tuple(t for t in s.terms if t in kept)) for s in recipe.stages]
    # A stage that only trains the head has nothing to do on L_out once there is no sep().
    stages = [s for s in stages if s.trains != ("head",) or "L_cls" in s.terms]
    return replace(recipe, sep="none", stages=tuple(stages))
