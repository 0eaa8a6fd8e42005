"""The tasks of a run behind OpenEnv's own server, asked by its own client. `make test-openenv` installs OpenEnv."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from tests.cli.archived import ADDS, archived, archived_tests

pytest.importorskip("openenv.core", reason="OpenEnv is not installed: make test-openenv")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from redqueen.base.server import bind
    from redqueen.extras.rewards.openenv import make_app

    app = make_app(archived(tmp_path_factory.mktemp("openenv") / "run"))
    listener = bind(0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=30)


def test_openenvs_client_plays_episodes(url: str) -> None:
    from openenv.core.generic_client import GenericEnvClient

    with GenericEnvClient(base_url=url).sync() as env:
        asked = env.reset(index=0)
        assert "return x + 3" in asked.observation["prompt"]
        right = env.step({"text": "<answer>\n```output\n4\n```\n</answer>"})
        assert (right.done, right.reward, right.observation["verdict"]) == (True, 1.0, "correct")
        env.reset(index=0)
        assert env.step({"text": "<answer>\n```output\n5\n```\n</answer>"}).reward == -0.5
        env.reset(index=1)
        assert env.step({"text": "I do not know"}).reward == -1.0
        drawn = [env.reset(seed=seed).observation["prompt"] for seed in (1, 1, 2, 3, 4)]
        assert drawn[0] == drawn[1]
        assert len(set(drawn)) > 1


def test_a_task_with_tests_is_an_episode(tmp_path: Path) -> None:
    from redqueen.extras.rewards.judges import posed_tasks
    from redqueen.extras.rewards.openenv import AnswerAction, PuzzleEnvironment

    environment = PuzzleEnvironment(posed_tasks(archived_tests(tmp_path / "run")))
    with pytest.raises(IndexError):
        environment.reset(index=-1)
    for index, program in ((1, ADDS), (2, "print(2 * int(input()))")):
        assert environment.reset(index=index).kind == "code_t"
        done = environment.step(AnswerAction(text=f"<answer>\n```python\n{program}\n```\n</answer>"))
        assert (done.reward, done.verdict) == (1.0, "correct")


def test_an_environment_says_what_it_has_and_wants_a_task_before_an_answer() -> None:
    from redqueen.extras.rewards.openenv import AnswerAction, PuzzleEnvironment
    from redqueen.records import Pair, Task

    task = Task(id="a", kind="code_o", author="", step=0, program="def f(x):\n    return x", pairs=(Pair("1", "1"),))
    environment = PuzzleEnvironment([task])
    assert (environment.list_splits(), environment.num_tasks("train"), environment.num_tasks("test")) == (
        ["train"],
        1,
        0,
    )
    assert environment.list_tasks("train") == [{"id": "a", "index": 0, "kind": "code_o"}]
    with pytest.raises(IndexError):
        environment.get_task("train", 1)
    with pytest.raises(RuntimeError, match="reset comes first"):
        environment.step(AnswerAction(text="1"))
