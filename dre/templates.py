"""HTML pages by Jinja2 templates, in which every text is escaped."""

from pathlib import Path
from typing import Any

from dre.tables import number


def render(template: Path, **values: Any) -> str:
    """Return a template filled with values.

    Parameters
    ----------
    template
        Its file. The filter ``number`` in it is `dre.tables.number`.
    **values
        What the template names. Texts in them are escaped, wherever they come from.

    Raises
    ------
    jinja2.UndefinedError
        If the template names a value that is not given.
    """
    import jinja2  # here, since most commands write no page

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = number
    text = template.read_text(encoding="utf-8")
    return environment.from_string(text).render(values) + "\n"
