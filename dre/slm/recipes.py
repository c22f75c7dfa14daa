"""Named choices among the readings the papers leave open (recipes).

``paper``     the text of DRE section 3.3: one joint loss (Eq. 16) on all 25 triplets of a context; Eq. 12 acts on the
              robust parts, which Eq. 18 measures; hence also ``paper-robust``.
``released``  the authors' notebook: three stages (contrastive with in-batch negatives; disentangling; classifier).
``context``   ours, an SLM that reads the context: right responses to wrong contexts count as negatives, the classifier
              sees products and differences of the two embeddings, and a judge's graded pairs are soft targets.
"""

from dataclasses import asdict, dataclass, fields, replace

from pydantic import TypeAdapter

from dre.errors import DreError

JOINT = ("L_out", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")
PLAIN = ("L_out", "L_in_batch", "L_cls")  # what remains without disentanglement
MIXTURE_TERMS = ("L_fit", "L_reads", "L_grade")

#: what a pair of a mixture is: a positive response, an adversarial one, a graded pair
FITS, FOOLS, GRADED = 0, 1, 2


@dataclass(frozen=True)
class Stage:
    """One optimisation run: which loss terms, for how long, on which parameters."""

    name: str
    terms: tuple[str, ...]
    epochs: int
    trains: tuple[str, ...] = ("encoder", "head")


@dataclass(frozen=True)
class Mixture:
    """What comes into a batch with each labelled context."""

    dialogues: int = 4  # with one positive each
    graded: int = 1
    last_turns: tuple[int, ...] = (1, 2, 3, 4, 99)  # so many of a dialogue are shown, drawn each time


@dataclass(frozen=True)
class Recipe:
    """Every choice that changes a trained SLM, apart from data, encoder and seed."""

    name: str
    sep: str  # "maps": two linear maps d -> d; "halves": of one linear layer, padded with zeros; "none"
    stages: tuple[Stage, ...]
    pairs: str = "all"  # 25 triplets per context, or "zip": positive i with adversarial i, 5 triplets
    margin: float = 0.5  # m of Eq. 12 and 13, in cosine distance
    batch_contexts: int = 8  # per step; each brings all its responses
    learning_rate: float = 5e-5  # peak rate of AdamW for the encoder
    head_learning_rate: float = 1e-3
    warmup: float = 0.1  # share of a stage's steps in which the rates rise; then they fall to 0
    weight_decay: float = 0.01
    max_seq_length: int = 128  # tokens kept of a text, of a context its last ones
    contrast: str = "whole"  # Eq. 12 on whole embeddings, as printed, or on "robust" parts, which Eq. 18 measures
    head: str = "linear"  # Eq. 15, or "interaction": two layers on [h_c; h_r; |h_c - h_r|; h_c * h_r]
    mixture: Mixture | None = None  # what is learned from beside labelled contexts
    frozen_words: bool = False  # leave the encoder's word vectors as they are

    def as_dict(self):
        """Return the recipe as JSON types, for provenance and fingerprints; defaults of `LATER` are left out."""
        defaults = {field.name: field.default for field in fields(self)}
        return {key: value for key, value in asdict(self).items() if key not in LATER or value != defaults[key]}

    @classmethod
    def from_dict(cls, stored):
        """Return the recipe that `as_dict` described."""
        return TypeAdapter(cls).validate_python(stored)


#: Left out of a fingerprint at their defaults: models trained before these fields existed keep their names.
LATER = ("head", "mixture", "frozen_words")

# Eq. 12 acts on robust parts in both recipes of the papers: on whole embeddings it could not train the head. The
# learning rate of ``paper`` was chosen by cross-validation: experiments/
PAPER = Recipe("paper", "maps", (Stage("joint", JOINT, 3),), contrast="robust", learning_rate=1e-4)
IN_TURN = (
    Stage("contrastive", ("L_in_batch",), 2, trains=("encoder",)),
    Stage("disentangle", JOINT[:-1], 2, trains=("head",)),
    Stage("classifier", ("L_cls",), 2, trains=("head",)),
)
RELEASED = Recipe("released", "halves", IN_TURN, contrast="robust")
MIXED = (Stage("joint", MIXTURE_TERMS, 4),)
CONTEXT = Recipe("context", "none", MIXED, learning_rate=1e-4, head="interaction", mixture=Mixture(), frozen_words=True)
RECIPES = {"paper": PAPER, "released": RELEASED, "context": CONTEXT, "paper-robust": PAPER}


def get(name, epochs=None, disentangled=True):
    """Return a recipe by name (or as given), with so many ``epochs`` in every stage; DreError if there is none.

    Without ``disentangled`` it is the control of Figures 3 and 4: ``sep`` is dropped, and with it Eq. 13 and 14.
    """
    recipe = name if isinstance(name, Recipe) else RECIPES.get(name)
    if recipe is None:
        raise DreError(f"unknown recipe {name!r}: expected one of {', '.join(RECIPES)}")
    if epochs is not None:
        recipe = replace(recipe, stages=tuple(replace(stage, epochs=epochs) for stage in recipe.stages))
    if disentangled:
        return recipe
    if recipe.mixture:
        raise DreError(f"recipe {recipe.name} has nothing to disentangle: ask for it without --plain")
    # A stage that only trains the head has nothing to do on L_out once there is no sep().
    stages = [stage for stage in recipe.stages if stage.trains != ("head",) or "L_cls" in stage.terms]
    stages = [replace(stage, terms=tuple(term for term in stage.terms if term in PLAIN)) for stage in stages]
    return replace(recipe, sep="none", stages=tuple(stages))
