"""A module that is not on the list is forbidden by name, also where a module on the list has it as an attribute."""

from __future__ import annotations

import pytest

from tests.jail.conftest import Run


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("import json\ndef f():\n    return json.codecs.encode('a')", "json.codecs at line 3"),
        ("import typing as t\ndef f():\n    return t.sys.getrefcount(None)", "typing.sys at line 3"),
        ("def f():\n    import statistics\n    return statistics.random.random()", "statistics.random at line 3"),
        ("import collections\nown = collections._sys\ndef f():\n    return 1", "collections._sys at line 2"),
        ("import json.decoder\ndef f():\n    return json.decoder.scanner.re.sys", ""),
        ("import dataclasses\ndef f():\n    return dataclasses.inspect.os", "dataclasses.inspect at line 3"),
        ("from statistics import random\ndef f():\n    return 1", "import of statistics.random"),
        ("from json import decoder as d, codecs as c\ndef f():\n    return 1", "import of json.codecs"),
    ],
)
def test_a_module_behind_an_attribute_is_forbidden_by_name(run: Run, program: str, detail: str) -> None:
    outcome = run(program)
    if detail:
        assert (outcome.status, outcome.detail) == ("forbidden", detail)
    else:
        # `re` is on the list, and has no attribute of that name.
        assert (outcome.status, outcome.detail) == ("error", "AttributeError at line 3")


@pytest.mark.parametrize(
    "program",
    [
        "import json\ndef f():\n    return json.decoder.JSONDecoder().decode('[1]')[0]",
        "from collections import abc\ndef f():\n    return int(isinstance([], abc.Sequence))",
        "import statistics\ndef f():\n    return int(statistics.fmean([1.0]))",
        # The name is something else here.
        "import json\ndef f(json={'codecs': 1}):\n    return json['codecs']",
        "import statistics\nclass Box:\n    random = 1\ndef f():\n    statistics = Box\n    return statistics.random",
    ],
)
def test_other_attributes_are_left_alone(run: Run, program: str) -> None:
    outcome = run(program)
    assert (outcome.status, outcome.outputs) == ("ok", ("1",)), outcome
