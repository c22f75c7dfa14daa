"""Pages by templates."""

import jinja2
import pytest

from dre.templates import render


def test_a_template_escapes_every_text_and_takes_no_text_for_a_template(tmp_path):
    template = tmp_path / "page.html"
    template.write_text(
        '<p title="{{ a }}">{% for b in bs %}{{ b }}{% endfor %}{{ 1.005 | number }}</p>'
    )
    page = render(template, a="\"'<", bs=["<i>", "{{ a }}", "&amp;"])
    assert page == '<p title="&#34;&#39;&lt;">&lt;i&gt;{{ a }}&amp;amp;1.01</p>\n'


def test_a_name_that_is_not_given_is_an_error(tmp_path):
    template = tmp_path / "page.html"
    template.write_text("{{ given }} {{ forgotten }}")
    with pytest.raises(jinja2.UndefinedError, match="forgotten"):
        render(template, given=1)
