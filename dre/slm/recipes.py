"""Named choices among the readings the papers leave open (recipes).

``paper``
    The text of DRE, section 3.3: one joint loss (Eq. 16) on all 25 triplets of a context. Eq. 12
    acts on h_p and h_a as printed, the whole embeddings of the responses. The robust map, whose
    distance Eq. 18 scores, learns from Eq. 13-15 alone.
``paper-robust``
    The same, but Eq. 12 acts on the robust parts h_pr and h_ar, so that what is scored is what is
    contrasted.
``released``
    The authors' notebook (repository SLIDE-ACL2024), in three stages. First the encoder learns by
    in-batch ranking. Then it is frozen, and one joint loss trains a linear layer whose output is
    split in halves. Last, with both frozen, the classifier is trained. The encoder and the learning
    rates of the notebook are not taken over, and its last classifier, of two classes, is made anew.
``ours``
    The SLM that comes with the package. An encoder adapted by low-rank matrices learns likeness by
    contrast over dialogues, a head on it learns fit, and one that learned grades gives quality.
    Likeness counts twice, and quotes are left out before scoring (`dre.slm.ours`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from dre.errors import DreError

JOINT = ("L_out", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")
#: On the frozen encoder, in the authors' notebook: rankings of projected and of robust parts,
#: Eq. 13, the opposite of it for the two non-robust parts, and Eq. 15.
_RELEASED_JOINT = ("L_rank", "L_rank_robust", *JOINT[1:4], "L_out_non_robust", "L_cls")
_PLAIN = ("L_out", "L_in_batch", "L_cls")  # what remains without disentanglement


@dataclass(frozen=True)
class Stage:
    """One optimisation run: which loss terms, for how long, on which parameters."""

    name: str
    terms: tuple[str, ...]
    epochs: int
    #: "encoder", "head", or the last part of the head alone, "classifier"
    trains: tuple[str, ...] = ("encoder", "head")


@dataclass(frozen=True)
class Mixture:
    """What recipe ``ours`` adds to labelled contexts."""

    #: that come into a batch with each labelled context, with one right response each
    dialogues: int = 4
    #: how many turns of a dialogue are shown at most, drawn each time
    last_turns: tuple[int, ...] = (1, 2, 3, 4, 99)
    #: of the matrices that adapt the encoder; 0 leaves it as it is
    rank: int = 32
    #: dialogues that the head for fit learns from, besides the labelled contexts
    fits: int = 3000
    #: whether copies of a context are among its wrong responses
    copies: bool = True


@dataclass(frozen=True)
class Recipe:
    """Every choice that changes a trained small model, apart from data, encoder and seed."""

    name: str
    #: "maps": two linear maps d -> d; "halves": of one layer, padded with zeros; "none"
    sep: str
    stages: tuple[Stage, ...]
    #: m of Eq. 12 and 13, in cosine distance
    margin: float = 0.5
    #: in a step; each brings all its responses
    batch_contexts: int = 8
    #: peak rate of AdamW for the encoder
    learning_rate: float = 5e-5
    #: the same for the head
    head_learning_rate: float = 1e-3
    #: share of a stage's steps in which the rates rise; then they fall to 0
    warmup: float = 0.1
    weight_decay: float = 0.01
    #: tokens that are kept of a text, of a context its last ones
    max_seq_length: int = 128
    #: Eq. 12 on "whole" embeddings of responses, as printed, or on their "robust" parts
    contrast: str = "whole"
    #: which epoch of each stage: the "last", or the "best" by triplet accuracy on held-out contexts
    keep: str = "last"
    #: Of our own recipe: the data besides labelled contexts, and how they are used.
    mixture: Mixture | None = None

    @property
    def takes_all_sets(self) -> bool:
        """Whether it learns from all sets of a profile together, and from what they add for it.

        Recipe ``ours`` does. Those of the papers learn from a set of human-written contexts, or of
        contexts that the papers' algorithm augmented.
        """
        return self.name == OURS.name

    def as_dict(self) -> dict:
        """Return the recipe for provenance and fingerprints.

        The usual ``keep`` is left out: fingerprints were made before this was a choice.
        """
        fields = asdict(self)
        if fields["keep"] == "last":
            del fields["keep"]
        return fields


# The recipes. The learning rates of the first two were chosen by cross-validation.
PAPER = Recipe(
    name="paper",
    sep="maps",
    stages=(Stage("joint", JOINT, epochs=3),),
    learning_rate=5e-5,
)
_ROBUST = replace(PAPER, name="paper-robust", contrast="robust", learning_rate=1e-4)
_RELEASED = Recipe(
    name="released",
    sep="halves",
    stages=(
        Stage("contrastive", ("L_in_batch",), epochs=10, trains=("encoder",)),
        # How long this stage takes is not in the authors' notebook.
        Stage("disentangle", _RELEASED_JOINT, epochs=10, trains=("head",)),
        Stage("classifier", ("L_cls",), epochs=30, trains=("classifier",)),
    ),
    contrast="robust",
    learning_rate=2e-5,
)
OURS = Recipe(
    name="ours",
    sep="none",
    stages=(Stage("contrast", ("L_fit",), epochs=1),),
    batch_contexts=4,
    learning_rate=5e-4,
    head_learning_rate=1e-2,
    mixture=Mixture(),
)
RECIPES = {recipe.name: recipe for recipe in (PAPER, _ROBUST, _RELEASED, OURS)}


def get(
    name: str | Recipe, epochs: int | Sequence[int] | None = None, disentangled: bool = True
) -> Recipe:
    """Return a recipe by name, or a given one, perhaps changed.

    Parameters
    ----------
    name : one of `RECIPES`, or a recipe.
    epochs : of every stage, or of each stage in its order, instead of the recipe's own.
    disentangled : if not, it is the control of Figures 3 and 4, without the separation of Eq. 17
        and the losses that need it.

    Raises
    ------
    DreError
        If there is no such recipe, epochs are below 1 or not as many as stages, or a recipe of our
        own has nothing to disentangle.
    """
    recipe = name if isinstance(name, Recipe) else RECIPES.get(name)
    if recipe is None:
        raise DreError(f"unknown recipe {name!r}: expected one of {', '.join(RECIPES)}")
    if epochs is not None:
        n_stages = len(recipe.stages)
        epochs_of_stages = [epochs] * n_stages if isinstance(epochs, int) else list(epochs)
        if len(epochs_of_stages) != n_stages or min(epochs_of_stages) < 1:
            raise DreError(
                f"epochs are {epochs}: expected a number above 0, or one for each of the "
                f"{n_stages} stages of recipe {recipe.name}"
            )
        stages = [
            replace(stage, epochs=n_epochs)
            for stage, n_epochs in zip(recipe.stages, epochs_of_stages)
        ]
        recipe = replace(recipe, stages=tuple(stages))
    return recipe if disentangled else _without_disentanglement(recipe)


def _without_disentanglement(recipe):
    """Return the control of a recipe, without sep() of Eq. 17 and the losses that need it."""
    if recipe.mixture:
        raise DreError(f"recipe {recipe.name} has nothing to disentangle: leave out --plain")
    stages = [
        replace(stage, terms=tuple(term for term in stage.terms if term in _PLAIN))
        for stage in recipe.stages
        # Where the head alone learns, only the classifier is left, and that has its own stage.
        if stage.trains != ("head",)
    ]
    return replace(recipe, sep="none", stages=tuple(stages))


#: Recipe ``paper`` without disentanglement.
PLAIN = get(PAPER, disentangled=False)
