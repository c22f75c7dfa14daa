"""Tables (CSV, Markdown, LaTeX, HTML), figures in one style, and the report page; knows nothing of models."""

from dre.report.figure import SavedFigure, save_figure, style
from dre.report.table import Table

__all__ = ["SavedFigure", "Table", "save_figure", "style"]
