"""One table, in every form it is read in: CSV with raw columns, Markdown, LaTeX and HTML as printed."""

import hashlib
import html
import io
from pathlib import Path

from dre.report.cells import grid

MIME = "application/vnd.dre.table+json"
# Jupyter aligns every cell to the right, which does not suit texts.
ALIGN = {True: 'class="n"', False: 'class="t" style="text-align: left"'}
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "—": "---", "–": "--", "−": r"\(-\)", "±": r"\(\pm\)", "×": r"\(\times\)",
    "≥": r"\(\geq\)", "≤": r"\(\leq\)", "→": r"\(\rightarrow\)", "κ": r"\(\kappa\)", "ρ": r"\(\rho\)",
    "τ": r"\(\tau\)", "Δ": r"\(\Delta\)", "δ": r"\(\delta\)", "…": r"\dots{}", "·": r"\(\cdot\)",
}  # fmt: skip


class Table:
    """A table of the report.

    Columns ``x_low`` and ``x_high`` are printed as the interval of column ``x`` (``88.1 [87.2, 89.0]``),
    ``x_sd`` as its standard deviation (``88.1 ± 0.3``); the CSV keeps the raw columns. An empty cell becomes
    an em dash.

    Parameters
    ----------
    name : str
        File name without ending, such as ``table3``.
    df : pandas.DataFrame
        One row a row; its index is not shown.
    caption : str
    note : str
        A sentence or two below the table.
    digits : int or dict
        Decimals, of all columns or by column (others 2).
    headers : dict
        Printed names by column; by default the name with spaces for underscores.
    empty : dict
        Why cells are empty: reasons by (label, column), label, column, or "*" for all, the most particular
        first; a row's label is what its first column holds. Each reason becomes a footnote.
    why : str
        A column that says why the cells of its row are empty; it is in the CSV, but not printed.
    signature : str
        A column with each row's signature; it is in the CSV, and in HTML it shows when one points at the row.
    """

    def __init__(self, name, df, caption, note="", *, digits=2, headers=None, empty=None, why=None,
                 signature=None):  # fmt: skip
        self.name, self.df, self.caption, self.note = name, df.reset_index(drop=True), caption, note
        self._grid = grid(self.df, digits, headers or {}, empty or {}, why, signature)
        made = self.df[signature] if signature else [""] * len(self.df)
        self._signatures = [text if isinstance(text, str) else "" for text in made]

    def csv(self):
        """Return the raw numbers as CSV text, six significant digits."""
        out = io.StringIO()
        self.df.to_csv(out, index=False, float_format="%.6g", lineterminator="\n")
        return out.getvalue()

    def markdown(self):
        """Return a Markdown table with caption, note and footnotes."""
        rows = [[_markdown(text) for text in self._grid.headers]]
        rows.append(["--:" if right else ":--" for right in self._grid.right])
        for row in self._grid.rows:
            rows.append([_markdown(str(c)) + (f"<sup>{c.mark}</sup>" if c.mark else "") for c in row])
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        notes = [f"<sup>{mark}</sup> {_markdown(why)}" for mark, why in self._grid.footnotes.items()]
        below = "  \n".join(filter(None, [_markdown(self.note), *notes]))
        parts = [f"**{_markdown(self.caption)}**", "\n".join(lines), below]
        return "\n\n".join(filter(None, parts)) + "\n"

    def latex(self):
        """Return a LaTeX ``table`` (packages booktabs and graphicx) with every text escaped."""
        columns = "".join("r" if right else "l" for right in self._grid.right)
        body = [" & ".join(map(_latex, self._grid.headers)) + r" \\", r"\midrule"]
        for row in self._grid.rows:
            cells = [_latex(str(c)) + (rf"\textsuperscript{{{c.mark}}}" if c.mark else "") for c in row]
            body.append(" & ".join(cells) + r" \\")
        notes = [rf"\textsuperscript{{{mark}}} {_latex(why)}" for mark, why in self._grid.footnotes.items()]
        below = r" \\ ".join(filter(None, [_latex(self.note), *notes]))
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.caption)}}}",
            rf"\label{{tab:{self.name}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            *([rf"\par\smallskip\begin{{minipage}}{{\linewidth}}\footnotesize {below}\end{{minipage}}"] * bool(below)),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def html(self):
        """Return the table as an HTML fragment; the report page brings the style, a notebook its own."""
        head = "".join(
            f"<th {ALIGN[right]}>{html.escape(text)}</th>" for text, right in zip(self._grid.headers, self._grid.right)
        )
        sources = self.df["source"].astype(str) if "source" in self.df else [""] * len(self.df)
        rows = "\n".join(
            f'<tr class="{html.escape(source)}"{_title(made)}>{"".join(map(_html, row, self._grid.right))}</tr>'
            for source, made, row in zip(sources, self._signatures, self._grid.rows)
        )
        notes = [f"<sup>{mark}</sup> {html.escape(why)}" for mark, why in self._grid.footnotes.items()]
        below = "<br>".join(filter(None, [html.escape(self.note), *notes]))
        return (
            f'<table class="dre">\n<caption><span>{html.escape(self.caption)}</span></caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
            + (f'\n<p class="note">{below}</p>' if below else "")
        )

    def save(self, folder):
        """Write ``<name>.csv``, ``.md`` and ``.tex`` into `folder` and return their paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        forms = {"csv": self.csv(), "md": self.markdown(), "tex": self.latex()}
        for ending, text in forms.items():
            (folder / f"{self.name}.{ending}").write_text(text, encoding="utf-8")
        return [folder / f"{self.name}.{ending}" for ending in forms]

    def _repr_html_(self):
        return self.html()

    def _repr_mimebundle_(self, include=None, exclude=None):
        # The hash lets a test hold a committed notebook to the file in results/.
        sha = hashlib.sha256(self.csv().encode()).hexdigest()
        return {
            "text/html": self.html(),
            "text/plain": self.markdown(),
            MIME: {"name": self.name, "sha256": sha},
        }


def _html(cell, right):
    interval = f' <span class="ci">{html.escape(cell.interval)}</span>' if cell.interval else ""
    mark = f"<sup>{cell.mark}</sup>" if cell.mark else ""
    return f"<td {ALIGN[right]}>{html.escape(cell.text)}{interval}{mark}</td>"


def _title(signature):
    return f' title="{html.escape(signature)}"' if signature else ""


def _markdown(text):
    return " ".join(str(text).replace("\\", "\\\\").replace("|", "\\|").split())


def _latex(text):
    return "".join(LATEX.get(letter, letter) for letter in str(text))
