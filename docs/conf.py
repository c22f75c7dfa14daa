"""Settings of Sphinx for the website, which `make book` builds from sources that it prepares."""

import dre

project = "dre"
author = "The dre companion authors"
release = dre.__version__

# The second brings MathJax into the website, so that formulas are set without a network.
extensions = ["myst_nb", "sphinx-mathjax-offline"]
exclude_patterns = [".doctrees"]
highlight_language = "none"  # of blocks that name no language, such as what a command prints

# Notebooks are shown as they were executed.
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"

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
    "launch_buttons": {"colab_url": "https://colab.research.google.com"},
}

# A formula that is wider than the screen of a phone is scrolled from its beginning.
mathjax3_config = {"chtml": {"displayAlign": "left"}}
