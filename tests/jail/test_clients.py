"""The clients that people have, as they are published, against the real service. `make test-clients` installs them."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.jail.served import service


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with service("--seconds", "20") as address:
        yield address


def published(package: str, name: str) -> ModuleType:
    """One module of an installed package, without the rest of it, which imports Ray or a remote trainer's client."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed: make test-clients")
    place = Path(found.submodule_search_locations[0], *name.split("."))
    folder = place.is_dir()
    file = place / "__init__.py" if folder else place.with_suffix(".py")
    spec = importlib.util.spec_from_file_location(
        f"published_{package}", file, submodule_search_locations=[str(place)] if folder else None
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def verl() -> ModuleType:
    return published("verl", "utils.reward_score.sandbox_fusion")


def test_verls_scores_come_out_as_they_should(url: str, verl: ModuleType) -> None:
    def score(program: str, cases: dict[str, Any], **options: Any) -> Any:
        text = f"Here it is:\n```python\n{program}\n```"
        return verl.compute_score(url, threading.Semaphore(8), 1024, text, json.dumps(cases), **options)[0]

    printing = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
    assert score("print(sum(map(int, input().split())))", printing) == 1.0
    assert score("print(3)", printing) == 0.5
    assert score("raise ValueError", printing) == 0.0
    assert score("while True: pass", printing, timeout=1) == 0.0
    calling = {"fn_name": "add", "inputs": ["1\n2", "[1]\n[2]"], "outputs": ["3", "[1, 2]"]}
    assert score("def add(a, b):\n    return a + b", calling) == 1.0
    assert score("class Solution:\n    def add(self, a, b):\n        return a + b", calling) == 1.0
    asserting = {"assert_case": ["assert add(1, 2) == 3", "assert add(1, 2) == 4"]}
    assert score("def add(a, b):\n    return a + b", asserting) == 0.5


def test_verls_client_says_what_became_of_each_case(url: str, verl: ModuleType) -> None:
    result, said = verl.utils.check_correctness(
        url, {"inputs": ["", ""], "outputs": ["1", "1"]}, "print(1)", timeout=5, memory_limit_mb=64, language="cpp"
    )
    assert result == [-1, -1]
    assert "422" in said[0]["api_request_error"]
    result, said = verl.utils.check_correctness(
        url, {"inputs": [""], "outputs": ["1"]}, "1 / 0", timeout=5, memory_limit_mb=64
    )
    assert (result, said[0]["status"], said[0]["exit_code"]) == ([-2], "runtime_error", 1)
    assert "ZeroDivisionError" in said[0]["stderr"]


def test_tinker_cookbooks_client_works_by_its_environment_variable(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = published("tinker_cookbook", "sandbox.sandboxfusion")
    monkeypatch.setenv("SANDBOX_URL", url)
    monkeypatch.setenv("SANDBOX_MAX_CONCURRENCY", "16")

    async def play() -> list[tuple[bool, dict[str, Any]]]:
        client = module.SandboxFusionClient()
        fair = [client.run(code=f"print({n})", files={}, timeout=5) for n in range(32)]
        others = [
            client.run(code="print(open('a').read())", files={"a": "text"}, timeout=5),
            client.run(code="assert False", files={}, timeout=5),
        ]
        answers = await asyncio.gather(*fair, *others)
        await client.close()
        return answers

    answers = asyncio.run(play())
    assert [(right, said["run_result"]["stdout"]) for right, said in answers[:32]] == [
        (True, f"{n}\n") for n in range(32)
    ]
    (files, refused), (failed, said) = answers[32:]
    assert not files
    assert "files is refused" in refused["error"]
    assert not failed
    assert "AssertionError" in said["run_result"]["stderr"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sandboxfusions_own_client_reads_the_answers(url: str) -> None:
    client = pytest.importorskip("sandbox_fusion")
    endpoint = url.removesuffix("/run_code")
    mapping = client.SummaryMapping(Success="right", Failed="failed", RunTimeout="late")

    def summary(code: str) -> str:
        asked = client.RunCodeRequest(code=code, language="python", stdin="7", run_timeout=0.5)
        return client.client.summary_run_code_result(client.run_code(asked, endpoint=endpoint, max_attempts=1), mapping)

    assert summary("assert input() == '7'") == "right"
    assert summary("raise SystemExit(2)") == "failed"
    assert summary("while True: pass") == "late"
    with pytest.raises(Exception, match="422"):
        client.run_code(client.RunCodeRequest(code="", language="go"), endpoint=endpoint, max_attempts=1)


def test_verl_finds_our_compute_score_by_its_setting() -> None:
    loader = published("verl", "utils.import_utils")
    score = loader.load_extern_object(module_path="pkg://redqueen.extras.rewards.verl", object_name="compute_score")
    truth = json.dumps({"tests": ["assert add(1, 2) == 3"]})
    # As `verl/trainer/ppo/reward.py` and its reward managers call it.
    said = score(
        data_source="x",
        solution_str="def add(a, b): return a + b",
        ground_truth=truth,
        extra_info={},
        memory_limit_mb=1,
    )
    assert said == {"score": 1.0, "acc": True}
