"""Names of members become folders and words of command lines, so only those that a run gives are read from files."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from redqueen.evals.held_out import START
from redqueen.method.hall_of_fame import champion_of, check_name
from redqueen.method.population import Member, Population
from redqueen.method.rating import Rating
from redqueen.method.seeds import AUTHOR, OWN
from redqueen.store.archive.rows import BANK


def test_every_name_that_a_run_gives_is_one() -> None:
    table = Population(born={"teacher": 10**9})
    names = [table.add_member(role, 0).name for role in ("teacher", "student", "both")]
    names += [champion_of(names[0], "teacher", 10**6, Rating(), None).name, START, BANK, AUTHOR, OWN]
    assert [check_name(name) for name in names] == names


@pytest.mark.parametrize(
    "name",
    ["", "../S0", "/S0", "S0/..", "S0\n", "S 0", "0S", "-S0", "S0;rm", "S0`", "S0@", "S0@x", "S0@4@5", "S" * 42, "Sé"],
)
def test_any_other_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ValueError, match="it names a member") as caught:
        check_name(name)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="it names a member"):
        TypeAdapter(Member).validate_python({"name": name, "role": "student", "born": 0})
