"""The figures of notebook 02: those of a training (Figures 3 and 4) and of a space (Figure 5)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import sem, t

from dre.paper.plots import BLUE, GREEN, KIND_LOOKS, whiskers

if TYPE_CHECKING:
    from dre.datasets.dialogues import Context
    from dre.slm.model import SLM

#: Settings of the t-SNE in the authors' notebook. Its 200 iterations follow the 250 of openTSNE's
#: early phase, which scikit-learn counts as well.
_TSNE_SETTINGS = {"perplexity": 3, "max_iter": 450, "metric": "cosine", "random_state": 0}
#: The rows of Figure 5, from top to bottom.
SPACES = ("Normal", "Disentangled")
#: What they are called beside Figure 5.
_SPACES_IN_WORDS = {"Normal": "embeddings", "Disentangled": "robust parts"}


def loss_and_accuracy(curves: pd.DataFrame, loss: str, accuracy: str) -> Figure:
    """Draw Figure 3 or 4: a loss (blue) and an accuracy (green) by epoch, mean over trainings.

    The columns are sets. The top row is without disentangling and the bottom row with it.

    Parameters
    ----------
    curves : DataFrame
        ``set``, ``seed``, ``epoch``, ``disentangled`` (bool), and the two columns that are drawn.
    loss, accuracy : str
        The names of these columns, such as ``contrastive_loss``. The accuracy is a share.
    """
    sets = curves["set"].unique()
    width = max(2.6 * len(sets) + 0.6, 4.5)
    fig, axes = plt.subplots(2, len(sets), figsize=(width, 4.2), squeeze=False, sharex="col")
    loss_limit = 1.08 * curves[loss].max()
    # Chance is 50 % or less, and every accuracy has its place on the axis.
    lowest_accuracy = min(30, 10 * np.floor(10 * curves[accuracy].min()) - 2)
    for row, disentangled in enumerate((False, True)):
        for column, name in enumerate(sets):
            of_set = curves.query("set == @name and disentangled == @disentangled")
            means = of_set.pivot_table(index="epoch", values=[loss, accuracy])
            ax = axes[row, column]
            loss_label = loss.replace("_", " ")
            accuracy_label = accuracy.replace("_", " ")
            ax.plot(means.index, means[loss], "o-", color=BLUE, markersize=4, label=loss_label)
            ax.set(ylim=(0, loss_limit), xticks=means.index)
            twin = ax.twinx()
            percent = 100 * means[accuracy]
            twin.plot(means.index, percent, "s-", color=GREEN, markersize=4, label=accuracy_label)
            twin.set(ylim=(lowest_accuracy, 102))
            twin.grid(visible=False)
            twin.spines["right"].set_visible(True)
            words = "with" if disentangled else "without"
            ax.set_title(f"{name},\n{words} disentangling", fontsize=9, fontweight="normal")

            # Numbers stand at the outer edges alone.
            if column == 0:
                ax.set_ylabel("loss")
            else:
                ax.tick_params(labelleft=False)
            if column == len(sets) - 1:
                twin.set_ylabel("accuracy (%)")
            else:
                twin.tick_params(labelright=False)
            if row == 1:
                ax.set_xlabel("epoch")
    handles = [*ax.get_lines(), *twin.get_lines()]
    fig.legend(handles=handles, loc="outside lower center", ncols=2)
    return fig


def project(slm: "SLM", contexts: Sequence["Context"]) -> pd.DataFrame:
    """Project contexts and their responses to the plane, each context by a t-SNE of its own.

    *Normal* are the embeddings of the encoder. In *Disentangled* the responses are their robust
    parts (Eq. 17), beside the context's embedding.

    Parameters
    ----------
    slm : SLM
    contexts : sequence of Context
        Each with at least two positive and two adversarial responses.

    Returns
    -------
    DataFrame
        One row for each text and space: ``context_id, space, kind, x, y``, and ``distance``, the
        cosine distance to the context in that space.
    """
    from sklearn.manifold import TSNE

    tables = []
    for context in contexts:
        kinds = ["context"]
        kinds += ["positive"] * len(context.positives)
        kinds += ["adversarial"] * len(context.adversarials)
        texts = [slm.context(context.turns), *context.positives, *context.adversarials]
        embeddings = slm.encode(texts)
        whole = embeddings["sentence_embedding"].numpy()
        anchor = embeddings["anchor"].numpy()
        robust = embeddings["robust"].numpy()
        disentangled = np.vstack([anchor[:1], robust[1:]])
        for space, vectors in zip(SPACES, (whole, disentangled)):
            unit_vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            plane = TSNE(**_TSNE_SETTINGS).fit_transform(unit_vectors)
            table = pd.DataFrame({"context_id": context.context_id, "space": space, "kind": kinds})
            table[["x", "y"]] = plane
            table["distance"] = 1 - unit_vectors @ unit_vectors[0]
            tables.append(table)
    return pd.concat(tables, ignore_index=True)


def projections(points: pd.DataFrame) -> Figure:
    """Draw Figure 5: a column for each context, *Normal* above and *Disentangled* below.

    Parameters
    ----------
    points : DataFrame
        What `project` returns.
    """
    context_ids = points["context_id"].unique()
    size = (2.0 * len(context_ids) + 0.4, 4.4)
    fig, axes = plt.subplots(2, len(context_ids), figsize=size, squeeze=False)
    for row, space in enumerate(SPACES):
        for column, context_id in enumerate(context_ids):
            ax = axes[row, column]
            is_drawn = (points["space"] == space) & (points["context_id"] == context_id)
            for kind in ("context", "positive", "adversarial"):
                look = KIND_LOOKS[kind]
                ax.scatter(
                    "x",
                    "y",
                    data=points[is_drawn & (points["kind"] == kind)],
                    facecolors="white" if kind == "adversarial" else look.colour,
                    edgecolors=look.colour,
                    marker=look.marker,
                    s=110 if kind == "context" else 28,
                    label=kind,
                )
            ax.set(xticks=[], yticks=[])
            ax.spines[["top", "right"]].set_visible(True)
            if row == 0:
                ax.set_title(f"context {column + 1}", fontsize=9, fontweight="normal")
        axes[row, 0].set_ylabel(_SPACES_IN_WORDS[space])
    fig.legend(handles=axes[0, 0].collections, loc="outside lower center", ncols=3)
    return fig


def mean_with_interval(values: Sequence[float] | np.ndarray | pd.Series) -> dict[str, float]:
    """Return a mean and its 95 % interval by Student's t, which a single value does not have."""
    mean = float(np.mean(values))
    half = np.nan
    if len(values) > 1:
        half = t.ppf(0.975, len(values) - 1) * sem(values)
    return {"value": mean, "value_low": mean - half, "value_high": mean + half}


def twin_differences(curves: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Return what disentangling adds at the last epoch, for each pair of twins.

    Parameters
    ----------
    curves : DataFrame
        ``set``, ``seed``, ``epoch``, ``disentangled`` (bool), and the columns `measures`. Twins
        have the same set and seed.
    measures : sequence of str

    Returns
    -------
    DataFrame
        With minus without disentangling: `measures` by ``set`` and ``seed``.
    """
    training = ["set", "seed", "disentangled"]
    last_epoch = curves.groupby(training)["epoch"].transform("max")
    ends = curves[curves["epoch"] == last_epoch].set_index(training)[list(measures)]
    with_it = pd.DataFrame(ends.xs(True, level="disentangled"))
    without_it = ends.xs(False, level="disentangled")
    return with_it - without_it


def differences(gains: pd.DataFrame, effects: pd.DataFrame) -> Figure:
    """Draw what each twin gains from disentangling, and the mean of the sets with its interval.

    Parameters
    ----------
    gains : DataFrame
        What `twin_differences` returns, in percentage points.
    effects : DataFrame
        A row for each column of `gains`: ``effect``, its name in words, and the mean as
        `mean_with_interval` returns it.
    """
    sets = gains.index.unique("set")
    size = (7.4, 0.45 * len(sets) + 1.2)
    fig, axes = plt.subplots(1, len(effects), figsize=size, sharey=True)
    for ax, measure, (_, effect) in zip(axes, gains, effects.iterrows()):
        for y, name in enumerate(sets):
            of_set = gains.loc[name, measure]
            ax.plot(of_set, [y] * len(of_set), "o", color="0.55", markersize=4)
        whiskers(ax, pd.DataFrame([effect]), [len(sets)])
        ax.axvline(0, color="0.4", linewidth=1)
        ax.set_xlabel(f"{effect['effect']}:\nwith minus without (points)")
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(sets) + 1), [*sets, "mean of the sets"])
    axes[0].set_ylim(len(sets) + 0.5, -0.5)
    return fig


def gap_in_deviations(distances: np.ndarray, is_positive: np.ndarray) -> float:
    """Return how much farther from their context adversarials are than positives.

    The unit is the standard deviation within the two kinds.

    Parameters
    ----------
    distances : (n,)
    is_positive : (n,) bool; the others are adversarial.
    """
    positive = distances[is_positive]
    adversarial = distances[~is_positive]
    deviation = np.sqrt((positive.var() + adversarial.var()) / 2)
    return (adversarial.mean() - positive.mean()) / deviation


def histograms(
    distances_by_model: Mapping[str, Sequence[np.ndarray]], is_positive: np.ndarray
) -> Figure:
    """Draw how far positive and adversarial responses are from their contexts.

    Parameters
    ----------
    distances_by_model : dict
        By title, the distances (n,) of one or more trainings.
    is_positive : (n,) bool; the others are adversarial.
    """
    bins = np.linspace(0, 2, 41)
    kinds = {"positive": is_positive, "adversarial": ~is_positive}
    fig, axes = plt.subplots(1, len(distances_by_model), figsize=(8.2, 2.7), sharey=True)
    for ax, (title, runs) in zip(axes, distances_by_model.items()):
        for kind, rows in kinds.items():
            colour, _, line = KIND_LOOKS[kind]
            distances = np.concatenate([run[rows] for run in runs])
            counts, _ = np.histogram(distances, bins)
            percent = 100 * counts / counts.sum()
            look = {"linestyle": line}
            if kind == "positive":
                look = {"fill": True, "alpha": 0.4}
            ax.stairs(percent, bins, color=colour, linewidth=1.4, label=kind, **look)
        gap = np.mean([gap_in_deviations(run, is_positive) for run in runs])
        ax.set_title(f"{title}:\n{gap:.1f} deviations apart", fontsize=9, fontweight="normal")
        ax.set_xlabel("distance to the context")
    axes[0].set_ylabel("responses (%)")
    fig.legend(handles=axes[0].patches, loc="outside lower center", ncols=2)
    return fig
