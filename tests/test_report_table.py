"""Tables: raw numbers in the CSV, the same printed grid everywhere, gaps with reasons, text escaped."""

import hashlib
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from dre.report import Table
from dre.report.signature import named, signature

NASTY = r"50% of A_1 & B #2 {x} ~ ^ $5 \end | <b>"


@pytest.fixture
def table():
    df = pd.DataFrame(
        {
            "model": ["GPT-4", "SLM", "length"],
            "source": ["published", "ours", "ours"],
            "overall": [88.91, 87.654321, np.nan],
            "overall_low": [np.nan, 86.04, np.nan],
            "overall_high": [np.nan, 89.25, np.nan],
            "n": pd.array([None, 1142, 12], dtype="Int64"),
        }
    )
    reasons = {("GPT-4", "n"): "not printed", "length": "not run", "overall": "never shown"}
    return Table("table3", df, "Caption", "A note.", digits=1, headers={"overall": "Overall (%)"}, empty=reasons)


def test_csv_keeps_raw_columns_and_reads_back(table, tmp_path):
    paths = table.save(tmp_path / "new")
    assert [path.name for path in paths] == ["table3.csv", "table3.md", "table3.tex"]
    read = pd.read_csv(paths[0])
    assert list(read.columns) == ["model", "source", "overall", "overall_low", "overall_high", "n"]
    assert read["overall"][1] == pytest.approx(87.654321, abs=1e-4)
    assert read["n"].tolist()[1:] == [1142, 12]


def test_intervals_stand_beside_their_value_and_gaps_have_their_reason(table):
    text = table.markdown()
    assert "| Model | Source | Overall (%) | n |" in text
    assert "| SLM | ours | 87.7 [86.0, 89.3] | 1,142 |" in text
    assert "| GPT-4 | published | 88.9 | —<sup>a</sup> |" in text
    assert "<sup>a</sup> not printed" in text
    assert "| length | ours | —<sup>b</sup> | 12 |" in text
    assert "<sup>b</sup> not run" in text and "never shown" not in text, "the most particular reason counts"
    for form in (text, table.html(), table.latex()):
        assert not re.search(r"\bnan\b|<NA>|None", form, re.I)


def test_standard_deviations_and_a_column_of_reasons_are_printed_with_the_value():
    df = pd.DataFrame({"m": ["a", "b"], "x": [1.25, None], "x_sd": [0.5, None], "note": ["", "b is not here"]})
    text = Table("t", df, "c", why="note").markdown()
    assert "| a | 1.25 ± 0.50 |" in text and "<sup>a</sup> b is not here" in text and "note" not in text.splitlines()[2]
    assert "note" in Table("t", df, "c", why="note").csv().splitlines()[0]


def test_halves_are_rounded_up_as_they_read():
    text = Table("t", pd.DataFrame({"x": [79.35, 91.05, 85.649999999999991, 0.25, -0.05]}), "c", digits=1).markdown()
    assert [line.strip("| ") for line in text.splitlines()[4:]] == ["79.4", "91.1", "85.7", "0.3", "−0.1"]


def test_whole_numbers_stay_whole_and_minus_zero_is_zero():
    df = pd.DataFrame({"count": [1234, 5], "x": [-0.001, -0.5], "half": np.array([0.5, 2], dtype="float32")})
    assert "| 1,234 | 0.00 | 0.50 |" in (text := Table("t", df, "c").markdown())
    assert "| 5 | −0.50 | 2.00 |" in text


def test_every_form_escapes_what_would_break_it():
    table = Table("t", pd.DataFrame({"a_b&c": [NASTY], "x": [1.0]}), NASTY, NASTY, headers={"x": "100 %"})
    latex = table.latex()
    assert (
        r"50\% of A\_1 \& B \#2 \{x\} \textasciitilde{} \textasciicircum{} \$5 \textbackslash{}end | \textless{}b\textgreater{}"
        in latex
    )
    assert "100 \\%" in latex and latex.count(r" \\") == 2
    assert "<b>" not in table.html() and "&lt;b&gt;" in table.html()
    row = table.markdown().splitlines()[4]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_compiles(table, tmp_path):
    nasty = Table("t2", pd.DataFrame({"a": [NASTY + " ± − — κ"], "x": [1.0]}), NASTY, NASTY)
    body = table.latex() + nasty.latex()
    (tmp_path / "t.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}" + body + r"\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert ended.returncode == 0, ended.stdout[-2000:]


def test_a_notebook_shows_the_html_and_carries_the_hash_of_the_csv(table, tmp_path):
    bundle = table._repr_mimebundle_()
    path = table.save(tmp_path)[0]
    assert bundle["text/html"] == table.html()
    mark = bundle["application/vnd.dre.table+json"]
    assert mark == {"name": "table3", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def test_rows_are_marked_with_their_source(table):
    assert '<tr class="published">' in table.html() and table.html().count('<tr class="ours">') == 2


def test_a_signature_is_in_the_csv_and_at_the_row_but_not_printed():
    made = signature(data=named("own", "12345678ffff"), judge="", slm={"a": 1, "b": 2}, prompt="x|y\n z")
    assert made == "data:own@12345678|slm:a=1 b=2|prompt:x/y z"
    df = pd.DataFrame({"metric": ["A", "B"], "value": [1.0, 2.0], "signature": [made, None]})
    table = Table("t", df, "c", signature="signature")
    assert made in table.csv() and "own@" not in table.markdown() + table.latex()
    rows = [line for line in table.html().splitlines() if line.startswith("<tr class")]
    assert f'title="{made}"' in rows[0] and "title" not in rows[1]
