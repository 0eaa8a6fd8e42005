"""Texts that somebody else wrote are themselves in Markdown and YAML."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from redqueen.members import code, plain, yaml_text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("quickstart", "`quickstart`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("a|b", "`a\\|b`"),
        ("x\n# head\x1b[0m", "`x # head [0m`"),
    ],
)
def test_code_stays_code_in_a_line_and_in_a_table(text: str, written: str) -> None:
    assert code(text) == written


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cn"))))
def test_yaml_reads_the_text_that_was_written(text: str) -> None:
    assert yaml.safe_load(f"- name: {yaml_text(text)}") == [{"name": text}]


@pytest.mark.parametrize("text", ["no", "null", "1e3", "a: b", "x\n---\nlicense: mit", "${HOME} #"])
def test_yaml_never_takes_a_text_for_more(text: str) -> None:
    (value,) = yaml.safe_load(f"- {yaml_text(text)}")
    assert value == text.replace("\n", " ")


def test_a_heading_has_the_signs_of_names_only() -> None:
    assert plain("run 1.5+b-é_") == "run 1.5+b-é_"
    assert plain("a\n# b <i>|`") == "a__ b _i___"
