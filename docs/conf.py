"""Settings of Sphinx for the website, which `make book` builds."""

import re

project = "dre"
author = "The dre companion authors"

# The second brings MathJax into the website, so that formulas are set without a network. The third
# takes the list of pages from a file.
extensions = ["myst_nb", "sphinx-mathjax-offline", "sphinx_external_toc"]
external_toc_path = "docs/_toc.yml"
include_patterns = ["*.md", "docs/*.md", "notebooks/*.ipynb", "dre/slm/default/README.md"]
highlight_language = "none"  # of blocks that name no language, such as what a command prints
suppress_warnings = [
    "misc.highlighting_failure",  # the setup cell has a line for the shell
    "etoc",  # a profile may have fewer pages than the list
]

# Notebooks are shown as they were executed.
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
nb_output_stderr = "remove"

# As on GitHub: formulas between dollar signs, and anchors of headings.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_dmath_allow_space = False
myst_dmath_allow_digits = False
myst_heading_anchors = 4

html_theme = "sphinx_book_theme"
html_title = "dre"
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {
    "repository_url": "https://github.com/dre-companion/dre",
    "repository_branch": "main",
    "use_repository_button": True,
    "use_download_button": False,
    "home_page_in_toc": True,
    "show_toc_level": 2,
    # The search field stands in the sidebar alone.
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
}

# A formula that is wider than the screen of a phone is scrolled from its beginning.
mathjax3_config = {"chtml": {"displayAlign": "left"}}


def _with_anchors_of_github(app, page, source):
    """Write anchors of headings as GitHub does, ``#in-short``, and not as Jupyter does."""
    source[0] = re.sub(
        r"(\]\([^()\s:]*#)([^()\s]+)(?=\))",
        lambda link: link[1] + re.sub(r"[^\w-]", "", link[2].lower()),
        source[0],
    )


def setup(app):
    """Register what is done to each page that is read."""
    app.connect("source-read", _with_anchors_of_github)
