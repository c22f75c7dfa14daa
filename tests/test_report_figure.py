"""Figures: the same figure gives the same bytes, and Figure 1 holds what it must."""

import re
import subprocess
import sys
from pathlib import Path

from dre.figures import architecture
from dre.report import save_figure, style

DRAW = (
    "import sys; from dre.report import style, save_figure; style(); import matplotlib.pyplot as plt;"
    "fig, ax = plt.subplots(); ax.plot([1, 3, 2], label='x'); ax.legend(); ax.set_title('$s_d$');"
    "save_figure(fig, 'f', sys.argv[1])"
)


def test_two_processes_write_identical_files(tmp_path):
    for name in ("a", "b"):
        subprocess.run([sys.executable, "-c", DRAW, str(tmp_path / name)], check=True, cwd=Path(__file__).parents[1])
    for ending in ("pdf", "png"):
        first, second = ((tmp_path / name / f"f.{ending}").read_bytes() for name in ("a", "b"))
        assert first == second
        assert not re.search(rb"CreationDate|Matplotlib v|matplotlib\.org", first), "no date, no program"


def test_saving_closes_the_figure_and_what_comes_back_shows_the_png(tmp_path):
    import matplotlib.pyplot as plt

    style()
    fig = plt.figure()
    saved = save_figure(fig, "f", tmp_path)
    assert not plt.fignum_exists(fig.number)
    bundle = saved._repr_mimebundle_()
    assert bundle["image/png"] and bundle["application/vnd.dre.figure+json"]["name"] == "f"


def test_figure_1_names_every_loss_and_every_score():
    style()
    fig = architecture()
    text = " ".join(t.get_text() for ax in fig.axes for t in ax.texts)
    for part in (
        "(12)",
        "(13)",
        "(15)",
        "(16)",
        "(17–19)",
        "(23)",
        "(25)",
        "(26)",
        "SLIDE",
        "DRE",
        "sep",
        "encoder",
    ):
        assert part in text
    assert {"class 0", "class 1", "class 2"} <= {t.get_text() for ax in fig.axes for t in ax.texts}
    fig.canvas.draw()  # texts must stay inside the boxes' axes
    for ax in fig.axes:
        frame = ax.get_window_extent().expanded(1.02, 1.02)
        for t in ax.texts:
            box = t.get_window_extent()
            assert frame.x0 <= box.x0 and box.x1 <= frame.x1, t.get_text()
