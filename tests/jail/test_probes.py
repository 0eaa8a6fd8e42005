"""What the machine's isolation is found to be, and that its absence is never silent."""

from __future__ import annotations

import pytest

from redqueen.jail import (
    IsolationError,
    Probe,
    Profile,
    Sandbox,
    pool,
    probe,
    probes,
)
from redqueen.jail.process import Zygote

pytestmark = pytest.mark.integration


def test_the_tier_follows_from_the_probes() -> None:
    tier, items = probe()
    found = {item.name: item.ok for item in items}
    assert {"files", "sockets", "processes", "signals", "hash seeds", "addresses", "seccomp"} <= found.keys()
    assert (tier == "full") == all(item.ok for item in items if item.required or item.name == "landlock")


@pytest.mark.parametrize(
    ("broken", "tier"), [("seccomp", "process"), ("landlock", "no-landlock"), ("own user", "same-user"), ("", "full")]
)
def test_each_missing_wall_is_named_and_lowers_the_tier(
    monkeypatch: pytest.MonkeyPatch, broken: str, tier: str
) -> None:
    if probe()[0] != "full":
        pytest.skip("this machine is not the best case to take walls from")
    start = Zygote.__init__

    def weaker(self: Zygote, profile: Profile, variant: int, mothers: int) -> None:
        start(self, profile, variant, mothers)
        absent = {
            "seccomp": {"seccomp": False},
            "landlock": {"landlock": "absent"},
            "own user": {"unprivileged": False},
        }
        self.isolation |= absent.get(broken, {})

    monkeypatch.setattr(Zygote, "__init__", weaker)
    found, items = probes._probe_once.__wrapped__()
    assert found == tier
    assert [item.name for item in items if not item.ok] == ([broken] if broken else [])


def test_no_isolation_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [Probe("seccomp", False, "the filter does not load"), Probe("clocks", False, "", required=False)]
    monkeypatch.setattr(pool, "probe", lambda: ("process", items))
    with pytest.raises(
        IsolationError, match=r"isolated on this machine: seccomp \(the filter does not load\); --unsafe-no-isolation "
    ):
        Sandbox(workers=1)
    with Sandbox(workers=1, allow_unsafe=True) as unsafe:
        assert unsafe.tier == "process"
