"""Named choices among the readings the papers leave open (recipes).

The papers do not fix how ``sep()`` works, how many triplets a context gives, or whether the terms of
Eq. 16 are minimised together or one after another. A recipe fixes all of it under a name:

``paper``     what the text of DRE section 3.3 says: one joint loss (Eq. 16). All 25 triplets of a context take part,
              and Eq. 12 acts on the robust parts, since they are what Eq. 18 measures when scoring.
``released``  what the authors' released notebook does: one linear layer whose output is cut in halves, all 25
              triplets, three stages (contrastive with in-batch negatives; disentangling; classifier).
``context``   ours, an SLM that reads the context: responses are contrasted with those to other contexts and contexts
              with those of other responses (so that no property of the response alone helps), the classifier sees
              products and differences of the two embeddings instead of a sum of two linear functions, right responses
              to wrong contexts count as negatives, and a judge's graded pairs are soft targets.
"""

from dataclasses import MISSING, asdict, dataclass, fields, replace

from dre.errors import DreError

TERMS = ("L_out", "L_in_batch", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")
MIXTURE_TERMS = ("L_fit", "L_reads", "L_grade")


@dataclass(frozen=True)
class Stage:
    """One optimisation run: which loss terms, on which parameters, for how long."""

    name: str
    terms: tuple[str, ...]
    epochs: int
    trains: tuple[str, ...] = ("encoder", "head")


@dataclass(frozen=True)
class Mixture:
    """What comes into a batch with each labelled context.

    Attributes
    ----------
    dialogues : contexts with one positive response.
    graded : pairs with a judge's score.
    last_turns : how many last turns of a dialogue are shown, drawn each time.
    """

    dialogues: int = 4
    graded: int = 1
    last_turns: tuple[int, ...] = (1, 2, 3, 4, 99)


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
    max_seq_length : tokens kept of a text (when scoring, of a context its last ones).
    head : ``"linear"``, the classifier of Eq. 15; ``"interaction"``, two layers on [h_c; h_r; |h_c - h_r|; h_c * h_r].
    mixture : what is learned from beside labelled contexts; None for those alone.
    frozen_words : leave the encoder's word vectors as they are.
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
    head: str = "linear"
    mixture: Mixture | None = None
    frozen_words: bool = False

    @property
    def disentangled(self):
        """Whether responses are separated into a robust and a non-robust part."""
        return self.sep != "none"

    def as_dict(self):
        """Return the recipe as plain JSON types, for provenance and fingerprints; defaults of `LATER` are left out."""
        defaults = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        return {key: value for key, value in asdict(self).items() if key not in LATER or value != defaults[key]}

    @classmethod
    def from_dict(cls, stored):
        """Return the recipe that `as_dict` described."""
        stages = tuple(Stage(s["name"], tuple(s["terms"]), s["epochs"], tuple(s["trains"])) for s in stored["stages"])
        mixture = stored.get("mixture")
        if mixture is not None:
            mixture = Mixture(mixture["dialogues"], mixture["graded"], tuple(mixture["last_turns"]))
        return cls(**(stored | {"stages": stages, "mixture": mixture}))


#: Not part of a fingerprint at their defaults, so that one made before they existed still names the same training.
LATER = ("head", "mixture", "frozen_words")

_JOINT = ("L_out", "L_ins_same_pos", "L_ins_same_neg", "L_out_robust", "L_cls")

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "paper",
            sep="maps",
            pairs="all",
            contrast="robust",
            learning_rate=1e-4,  # chosen by cross-validation: experiments/choose_paper_recipe.py
            stages=(Stage("joint", _JOINT, epochs=3),),
        ),
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
        Recipe(
            "context",
            sep="none",
            pairs="all",
            head="interaction",
            mixture=Mixture(),
            frozen_words=True,
            learning_rate=1e-4,
            stages=(Stage("joint", MIXTURE_TERMS, epochs=4),),
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
        if recipe.mixture is not None:
            raise DreError(f"recipe {recipe.name} has nothing to disentangle: ask for it without --plain")
        recipe = _without_disentanglement(recipe)
    return recipe


def _without_disentanglement(recipe):
    kept = {"L_out", "L_in_batch", "L_cls"}
    stages = [replace(s, terms=tuple(t for t in s.terms if t in kept)) for s in recipe.stages]
    # A stage that only trains the head has nothing to do on L_out once there is no sep().
    stages = [s for s in stages if s.trains != ("head",) or "L_cls" in s.terms]
    return replace(recipe, sep="none", stages=tuple(stages))
