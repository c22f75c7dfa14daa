"""Figures: one colour-blind-safe style, and files whose bytes depend on nothing but the figure."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

# Okabe and Ito (2008), without the yellow that vanishes on white; black last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MIME = "application/vnd.dre.figure+json"
DPI = 160


def style():
    """Set the style of every figure: seaborn's white grid, Okabe-Ito colours, thin spines, embedded fonts."""
    import matplotlib as mpl
    import seaborn as sns

    sns.set_theme(
        context="paper",
        style="whitegrid",
        palette=list(COLOURS),
        font="DejaVu Sans",
        rc={
            "axes.edgecolor": "0.3",
            "axes.linewidth": 0.8,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 10,
            "axes.titleweight": "bold",
            "axes.labelsize": 9,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.fontsize": 8,
            "legend.frameon": False,
            "grid.color": "0.9",
            "grid.linewidth": 0.7,
            "lines.linewidth": 1.6,
            "figure.constrained_layout.use": True,
            "figure.dpi": 110,
        },
    )
    mpl.rcParams["pdf.fonttype"] = 42  # TrueType: text in the PDF stays text


@dataclass(frozen=True)
class SavedFigure:
    """A figure on disk; in a notebook it shows its PNG."""

    name: str
    pdf: Path
    png: Path

    def _repr_mimebundle_(self, include=None, exclude=None):
        content = self.png.read_bytes()
        mark = {"name": self.name, "sha256": hashlib.sha256(content).hexdigest()}
        return {"image/png": base64.b64encode(content).decode(), "text/plain": self.name, MIME: mark}


def save_figure(fig, name, folder):
    """Write `fig` as ``<name>.pdf`` and ``<name>.png`` into `folder`, close it, and return a `SavedFigure`.

    No date and no program version goes into the files: the same figure gives the same bytes.
    """
    import matplotlib.pyplot as plt

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pdf, png = folder / f"{name}.pdf", folder / f"{name}.png"
    fig.savefig(pdf, bbox_inches="tight", metadata={"CreationDate": None, "Producer": None, "Creator": None})
    fig.savefig(png, bbox_inches="tight", dpi=DPI, metadata={"Software": None})
    plt.close(fig)
    return SavedFigure(name, pdf, png)
