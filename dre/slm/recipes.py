"""Named choices among the readings the papers leave open (recipes).

``paper``         the text of DRE section 3.3: one joint loss (Eq. 16) on all 25 triplets of a context; Eq. 12 acts on
                  h_p and h_a as printed, the whole embeddings of the responses. The robust map, whose distance Eq. 18
                  scores, learns from Eq. 13-15 alone.
``paper-robust``  the same, but Eq. 12 acts on the robust parts h_pr and h_ar: what is scored is what is contrasted.
``released``      the authors' notebook (repository SLIDE-ACL2024): the encoder by in-batch ranking; then, frozen, one
                  joint loss on a linear layer whose output is split in halves; then, both frozen, the classifier.
                  Its encoder and rates are not taken over, and its last classifier, of two classes, is made anew.
``graded``        ours, an SLM that reads the context: likeness by contrast over dialogues, in an encoder adapted by
                  low-rank matrices, fit by a head on it, quality by one that learned grades (`dre.slm.graded`).
``ours``          the SLM that comes with the package: ``graded``, which also learned from copies and quotes of the
                  context, with likeness counted twice, and quotes left out before scoring (`dre.slm.ours`).
"""

from dataclasses import asdict, dataclass, replace

from dre.errors import DreError

JOINT = ("L_out", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")
#: on the frozen encoder, in the authors' notebook: rankings of projected and of robust parts, Eq. 13, the opposite of
#: it for the two non-robust parts, Eq. 15
RELEASED_JOINT = ("L_rank", "L_rank_robust", *JOINT[1:4], "L_out_non_robust", "L_cls")
PLAIN = ("L_out", "L_in_batch", "L_cls")  # what remains without disentanglement


@dataclass(frozen=True)
class Stage:
    """One optimisation run: which loss terms, for how long, on which parameters."""

    name: str
    terms: tuple[str, ...]
    epochs: int
    trains: tuple[str, ...] = (
        "encoder",
        "head",
    )  # or "classifier", the last part of the head, alone


@dataclass(frozen=True)
class Mixture:
    """What recipes ``graded`` and ``ours`` add to labelled contexts."""

    dialogues: int = 4  # come into a batch with each labelled context, with one positive each
    last_turns: tuple[int, ...] = (
        1,
        2,
        3,
        4,
        99,
    )  # so many of a dialogue are shown, drawn each time
    rank: int = 32  # of the matrices that adapt the encoder; 0: it stays as it is
    fits: int = 3000  # dialogues that the head for fit learns from, besides the labelled contexts


@dataclass(frozen=True)
class Recipe:
    """Every choice that changes a trained SLM, apart from data, encoder and seed."""

    name: str
    #: "maps": two linear maps d -> d; "halves": of one layer, padded with zeros; "none"
    sep: str
    stages: tuple[Stage, ...]
    margin: float = 0.5  # m of Eq. 12 and 13, in cosine distance
    batch_contexts: int = 8  # per step; each brings all its responses
    learning_rate: float = 5e-5  # peak rate of AdamW for the encoder
    head_learning_rate: float = 1e-3
    warmup: float = 0.1  # share of a stage's steps in which the rates rise; then they fall to 0
    weight_decay: float = 0.01
    max_seq_length: int = 128  # tokens kept of a text, of a context its last ones
    contrast: str = (
        "whole"  # Eq. 12 on whole embeddings of responses, as printed, or on their "robust" parts
    )
    keep: str = "last"  # epoch of each stage: the last, or the "best" by triplet accuracy on held-out contexts
    mixture: Mixture | None = (
        None  # of our own recipes: what is learned from besides labelled contexts, and how
    )

    def as_dict(self):
        """Return the recipe for provenance and fingerprints, which were made before ``keep`` was a choice."""
        return {
            name: value for name, value in asdict(self).items() if (name, value) != ("keep", "last")
        }


# The learning rates were chosen by cross-validation: experiments/choose_paper_recipe.py
PAPER = Recipe("paper", "maps", (Stage("joint", JOINT, 3),), learning_rate=5e-5)
ROBUST = replace(PAPER, name="paper-robust", contrast="robust", learning_rate=1e-4)
IN_TURN = (
    Stage("contrastive", ("L_in_batch",), 10, trains=("encoder",)),
    Stage("disentangle", RELEASED_JOINT, 10, trains=("head",)),  # how long is not in the notebook
    Stage("classifier", ("L_cls",), 30, trains=("classifier",)),
)
RELEASED = Recipe("released", "halves", IN_TURN, contrast="robust", learning_rate=2e-5)
CONTRAST = (Stage("contrast", ("L_fit",), 2),)
RATES = {"learning_rate": 5e-4, "head_learning_rate": 1e-2}
GRADED = Recipe("graded", "none", CONTRAST, batch_contexts=4, mixture=Mixture(), **RATES)
OURS = replace(GRADED, name="ours", stages=(replace(CONTRAST[0], epochs=1),))
RECIPES = {recipe.name: recipe for recipe in (PAPER, ROBUST, RELEASED, GRADED, OURS)}


def get(name, epochs=None, disentangled=True):
    """Return a recipe by name (or as given), with so many ``epochs`` in every stage; DreError if there is none.

    Without ``disentangled`` it is the control of Figures 3 and 4: ``sep`` is dropped, and with it Eq. 13 and 14.
    """
    recipe = name if isinstance(name, Recipe) else RECIPES.get(name)
    if recipe is None:
        raise DreError(f"unknown recipe {name!r}: expected one of {', '.join(RECIPES)}")
    if epochs is not None and epochs < 1:
        raise DreError(f"epochs are {epochs}: expected 1 or more")
    if epochs is not None:
        recipe = replace(
            recipe, stages=tuple(replace(stage, epochs=epochs) for stage in recipe.stages)
        )
    if disentangled:
        return recipe
    if recipe.mixture:
        raise DreError(
            f"recipe {recipe.name} has nothing to disentangle: ask for it without --plain"
        )
    # Without sep() a stage that trains the head has only the classifier to train, which is done in one.
    stages = [stage for stage in recipe.stages if stage.trains != ("head",)]
    stages = [
        replace(stage, terms=tuple(term for term in stage.terms if term in PLAIN))
        for stage in stages
    ]
    return replace(recipe, sep="none", stages=tuple(stages))
