"""What can go wrong in ordinary use: one line that says what to do, the right exit code, and nothing lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from redqueen.store.directory import RunDirectory
from tests.cli.archived import archived
from tests.cli.conftest import SMALL
from tests.cli.running import redqueen

pytestmark = pytest.mark.integration

Prepare = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Situation:
    """A command in a folder that holds a finished run ("run"), its base ("model") and a full folder ("full")."""

    command: str
    says: str
    """A part of the line on standard error."""
    prepare: Prepare | None = None
    """Damages something first."""
    code: int = 2
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    first: str = ""
    """A line that stands before it."""


def write(name: str, text: str) -> Prepare:
    def prepare(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return prepare


def remove(name: str) -> Prepare:
    def prepare(folder: Path) -> None:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return prepare


def change(name: str, **values: object) -> Prepare:
    """Changes keys of a JSON file; None removes one."""

    def prepare(folder: Path) -> None:
        data = {**json.loads((folder / name).read_text()), **values}
        (folder / name).write_text(json.dumps({key: value for key, value in data.items() if value is not None}))

    return prepare


def flip_last_byte(pattern: str) -> Prepare:
    def prepare(folder: Path) -> None:
        path = next(folder.glob(pattern))
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    return prepare


def execute(statement: str) -> Prepare:
    def prepare(folder: Path) -> None:
        connection = sqlite3.connect(folder / "run" / "run.sqlite")
        connection.execute(statement)
        connection.commit()
        connection.close()

    return prepare


def overwrite_page(folder: Path) -> None:
    """Damages a page in the middle of the archive; its header stays."""
    path = folder / "run" / "run.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def make_archived(folder: Path) -> None:
    archived(folder / "archived")


def tiny_train(rest: str) -> str:
    return f"train --run new --model model {rest}"


def problems_for(template: str | None) -> Prepare:
    """Gives the base another chat template, or none, and writes a problem of a benchmark."""

    def prepare(folder: Path) -> None:
        file = folder / "model" / "chat_template.jinja"
        file.unlink() if template is None else file.write_text(template)
        (folder / "math500.jsonl").write_text('{"problem": "1 + 1?", "answer": "2", "unique_id": "1"}\n')

    return prepare


MATH500 = "eval base --model model --limit 1 --benchmarks math500 --data . --template"
RESUME = "train --resume run --steps 3"
FAMILIES = ("gpt2", "t5", "bert", "mamba", "rwkv", "never_heard_of")
SITUATIONS: dict[str, Situation] = {
    # Settings.
    "unknown recipe": Situation("train nosuch", "no recipe 'nosuch'"),
    "setting without a value": Situation("train learning.lr", "write learning.lr=VALUE"),
    "recipe after the settings": Situation("train run.steps=2 asymmetric", "the recipe comes first"),
    "two recipes": Situation("train quickstart rlvr", "two recipes, 'quickstart' and 'rlvr'"),
    "setting given twice": Situation("train learning.lr=1e-4 learning.lr=2e-4", "learning.lr is given twice"),
    "steps given twice": Situation("train run.steps=3 --steps 5", "run.steps is given twice"),
    "comparison given twice": Situation("train matched=total --matched total", "matched is given twice"),
    "option given twice": Situation("train --matched total --matched per_adapter", "--matched is given twice"),
    "comparison by nothing": Situation("compare run --by nokey", "none is like it"),
    "a key like none": Situation("train nosuch=1", "none is like it: redqueen keys"),
    "option that is a setting": Situation("train --lr 1e-4", "learning.lr=VALUE"),
    "unknown key": Situation("train learning.rate=1", "unknown key 'learning.rate'"),
    "no number": Situation("train learning.lr=fast", "learning.lr"),
    "negative": Situation("train learning.lr=-1", "greater than or equal to 0"),
    "infinite": Situation("train learning.lr=inf", "finite"),
    "unknown tracker": Situation("train run.trackers=comet", "run.trackers"),
    "doubled tracker": Situation("train run.trackers=wandb,wandb", "given twice"),
    "no steps": Situation("train --steps 0", "run.steps"),
    "rank 0": Situation("train model.rank=0", "model.rank"),
    "unknown dtype": Situation("train model.dtype=int8", "model.dtype"),
    "unknown device": Situation("train model.device=tpu", "model.device"),
    "negative workers": Situation("train --workers -1", "model.workers"),
    "no kinds": Situation("train game.kinds=", "game.kinds"),
    "unknown kind": Situation("train game.kinds=code_x", "game.kinds"),
    "doubled kind": Situation("train game.kinds=code_o,code_o", "given twice"),
    "one proposal": Situation("train game.proposals=1", "can never learn"),
    "one attempt": Situation("train game.attempts=1", "can never learn"),
    "fewer inputs than inputs": Situation("train game.max_inputs=2", "at least min_inputs"),
    "no teachers": Situation("train population.teachers=0", "population.teachers"),
    "single agent of four": Situation("train population.single_agent=true", "needs population.teachers=1"),
    "all are elite": Situation("train evolution.elite=2", "no member can be replaced"),
    "gamma 1": Situation("train evolution.gamma=1", "evolution.gamma"),
    "matches without champions": Situation("train league.hall_matches=0.5", "needs champions"),
    "teachers held out": Situation("train league.teacher_fitness=held_out", "for students only"),
    "unknown comparison": Situation("train --matched sideways", "choose one of none"),
    "temperature 0": Situation("train sampling.temperature=0", "sampling.temperature"),
    "more held-out tasks than there are": Situation(
        "train league.student_fitness=held_out league.held_out_tasks=9999", "held_out_tasks"
    ),
    "dtype of the environment": Situation(
        tiny_train("model.dtype=auto"), "REDQUEEN_DTYPE", environment={"REDQUEEN_DTYPE": "int8"}
    ),
    "several workers on a GPU": Situation(tiny_train("--workers 2 model.device=cuda"), "model.device=c"),
    # Models.
    "no such folder": Situation("train --model ./nofolder", "the folder ./nofolder does not exist"),
    "deep path": Situation("train --model a/b/c", "the folder a/b/c does not exist"),
    "not downloaded": Situation("train quickstart --model some/body", "not downloaded yet, and HF_HUB_OFFLINE is set"),
    "no id": Situation("train --model a$b", "no Hugging Face id"),
    "a file as model": Situation("train --model full/precious.txt", "is a file: give the folder of a model"),
    "folder without a model": Situation("train --model full", "has no config.json"),
    "damaged model configuration": Situation(tiny_train(""), "cannot load 'model'", write("model/config.json", "{")),
    "no family": Situation(tiny_train(""), "family 'None'", change("model/config.json", model_type=None)),
    **{
        f"family {family}": Situation(
            tiny_train(""), f"family '{family}' is not supported", change("model/config.json", model_type=family)
        )
        for family in FAMILIES
    },
    "a classifier": Situation(
        tiny_train(""),
        "its head is LlamaForSequenceClassification",
        change("model/config.json", architectures=["LlamaForSequenceClassification"]),
    ),
    **{
        f"quantised by {method}": Situation(
            tiny_train(""),
            f"quantised by {method.upper()}, whose products pass no gradient on",
            change("model/config.json", quantization_config={"quant_method": method}),
        )
        for method in ("gptq", "awq", "fp8", "mxfp4")
    },
    "quantised twice": Situation(
        tiny_train("model.quantize=nf4"),
        "quantised already, by bitsandbytes",
        change("model/config.json", quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True}),
    ),
    "hosted in several processes": Situation(
        tiny_train("--workers 2"), "in one process", change("model/config.json", model_type="olmo2")
    ),
    "no chat template": Situation(
        tiny_train("model.prompts=chat"), "has no chat template: use", remove("model/chat_template.jinja")
    ),
    "a chat template that does not parse": Situation(
        tiny_train("model.prompts=chat"),
        "has a chat template that fails (TemplateSyntaxError: ",
        write("model/chat_template.jinja", "{% for m in messages %}{{"),
    ),
    "eval in chat without a template": Situation(
        f"{MATH500} chat", "model has no chat template: use --template completion", problems_for(None)
    ),
    "eval in the standard form without a template": Situation(
        f"{MATH500} standard", "model has no chat template: use --template completion", problems_for(None)
    ),
    "eval with a template that does not parse": Situation(
        f"{MATH500} standard", "model has a chat template that fails (Te", problems_for("{% if %}")
    ),
    "eval with a template that refuses": Situation(
        f"{MATH500} standard", "fails (TemplateError: no chat", problems_for("{{ raise_exception('no chat') }}")
    ),
    "damaged tokenizer": Situation(tiny_train(""), "cannot load 'model'", write("model/tokenizer.json", "{")),
    "damaged weights": Situation(tiny_train(""), "cannot load 'model'", write("model/model.safetensors", "no")),
    "no weights": Situation(tiny_train(""), "model has no weights", remove("model/model.safetensors")),
    "no tokenizer": Situation(tiny_train(""), "model has no tokenizer", remove("model/tokenizer.json")),
    "a plan that does not fit": Situation(
        "train paper_7b --dry-run --for 24GiB --json", "does not fit", code=1, first="planning paper_7b ...\n"
    ),
    "unknown layers": Situation(tiny_train("model.targets=all-linear"), "all-linear"),
    "unknown layers in a plan": Situation(
        tiny_train("--dry-run model.targets=foo_proj"),
        "no module named foo_proj (model.targets): choose among down_proj",
        first="planning quickstart ...\n",
    ),
    "no starting adapter": Situation(tiny_train("population.init=typo"), "population.init=typo holds no adapter"),
    "no starting adapter in a plan": Situation(
        tiny_train("--dry-run population.init=typo"), "typo holds no adapter", first="planning quickstart ...\n"
    ),
    "adapter of another base": Situation(
        tiny_train("population.init=full"), "full", write("full/adapter_config.json", '{"r": 8}')
    ),
    # New runs.
    "a run on a file": Situation("train --run full/precious.txt", "choose another --run"),
    "a run below a file": Situation("train --run full/precious.txt/run", "cannot write"),
    "a run on other things": Situation("train --run full", "holds no run: choose another --run"),
    "another configuration": Situation(
        "train --config run/config.json --run run learning.lr=3e-4", "learning.lr=0.0001 (asked: 0.0003)"
    ),
    "more steps without --resume": Situation(
        "train --config run/config.json --run run --steps 9", "redqueen train --resume run --steps 9"
    ),
    "a run whose configuration is damaged": Situation("train --run run", "is damaged", write("run/config.json", "{")),
    "no such configuration": Situation("train --config nofile", "cannot read nofile"),
    "a folder as configuration": Situation("train --config run", "cannot read run"),
    "damaged configuration": Situation("train --config full/c.json", "is damaged", write("full/c.json", "mine")),
    "configuration without an ending": Situation(
        "train --config full/precious.txt", "must end in .toml, .yaml or .json"
    ),
    "a key twice in a file of settings": Situation(
        "train --config full/c.toml", "A key is written twice", write("full/c.toml", "[run]\nsteps=1\nsteps=2\n")
    ),
    "a list as settings": Situation(
        "train --config full/c.yaml", "learning: and below it, indented, lr: 1e-4", write("full/c.yaml", "- 1\n")
    ),
    "seeds that are a folder": Situation("train game.seeds=full", "game.seeds=full cannot be read: Is a directory"),
    "seeds that are rows": Situation(
        "train game.seeds=full/t.txt", "redqueen tasks import full/t.txt", write("full/t.txt", '{"a": 1}\n')
    ),
    "seeds that are a table": Situation(
        "train game.seeds=full/t.csv", "A table must be rows of JSON first", write("full/t.csv", "a,b\n")
    ),
    "grow from a folder": Situation("grow full", "full is a folder, but not a run: give one file of tasks"),
    "a list as configuration": Situation(
        "train --config full/c.json", "holds no JSON object", write("full/c.json", "[]")
    ),
    "configuration of another version": Situation(
        "train --config full/c.json", "nokey", write("full/c.json", '{"nokey": 1}')
    ),
    "configuration and recipe": Situation("train quickstart --config run/config.json", "give one of them"),
    # Resuming.
    "no such run": Situation("train --resume nothing", "the folder nothing does not exist"),
    "a file as run": Situation("train --resume full/precious.txt", "is a file"),
    "no run": Situation("train --resume full", "holds no run"),
    "plan of a resumed run": Situation("train --resume run --steps 9 --dry-run", "a plan is of a new run"),
    "resume with a generator": Situation(
        "train --resume run game.source=reasoning_gym:chain_sum", "cannot change in a resumed run"
    ),
    "a module's path": Situation("train plugins=./parts.py", "is a path: give the module's name"),
    "two sources of kinds": Situation("train rlvr game.kinds=code_o game.source=reasoning_gym:x", "leave one out"),
    "modules given twice": Situation("eval base --plugins a --plugins b", "--plugins is given twice"),
    "a key that is no text": Situation("train --config on.yaml", "'True'", write("on.yaml", "on: 2\n")),
    "a long question": Situation(f"ask run S0 f({'x' * 300})", "question"),
    "resume with another setting": Situation("train --resume run learning.lr=1", "cannot change in a resumed run"),
    "resume with another seed": Situation("train --resume run run.seed=4", "cannot change in a resumed run"),
    "resume with a recipe": Situation("train --resume run asymmetric", "keeps its recipe: leave 'asymmetric' out"),
    "resume with a model": Situation("train --resume run --model model", "leave out --run, --model"),
    "resume with an unknown key": Situation("train --resume run run.stepz=4", "unknown key 'run.stepz'"),
    "no checkpoint": Situation(
        "train --resume run", "has no checkpoint left, so it cannot go on", remove("run/checkpoints")
    ),
    "damaged checkpoint": Situation(
        RESUME, "step-000002 is damaged", flip_last_byte("run/checkpoints/*2/members/*/a*s")
    ),
    "incomplete checkpoint": Situation(
        RESUME,
        "move the folder away to resume from the one before",
        remove("run/checkpoints/step-000002/manifest.json"),
    ),
    "metrics without a step": Situation(
        RESUME, "lacks step 2: put the file back, or move step-000002 away", write("run/metrics.jsonl", '{"step": 1}\n')
    ),
    "metrics with a step twice": Situation(
        RESUME, "has step 2 twice", write("run/metrics.jsonl", '{"step": 1}\n{"step": 2}\n{"step": 2}\n')
    ),
    "archive without a step": Situation(
        RESUME, "run.sqlite lacks step 2: put", execute("DELETE FROM matches WHERE step = 2")
    ),
    "empty archive": Situation(RESUME, "run.sqlite is empty: put a copy", write("run/run.sqlite", "")),
    "an archive that names no member": Situation(
        "lineage run", "it names a member '../S0'", execute("UPDATE members SET name = '../S0' WHERE name = 'S0'")
    ),
    "a link in a run": Situation(
        RESUME, "notes is a link, and a run holds", lambda f: (f / "run/notes").symlink_to(f / "full")
    ),
    "no archive": Situation(RESUME, "run.sqlite is missing", remove("run/run.sqlite")),
    "archive that is none": Situation(RESUME, "not a database", write("run/run.sqlite", "no database" * 99)),
    "archive of another version": Situation(RESUME, "another version", execute("PRAGMA user_version = 1")),
    "damaged metrics": Situation(RESUME, "line 1, is damaged", write("run/metrics.jsonl", '{"step"\n')),
    "metrics of something else": Situation(
        RESUME, "line 2, is damaged", write("run/metrics.jsonl", '{"step": 1}\n[]\n')
    ),
    "binary metrics": Situation(
        RESUME, "cannot read", lambda folder: (folder / "run/metrics.jsonl").write_bytes(b"\xff\n")
    ),
    "no metrics": Situation(RESUME, "metrics.jsonl is missing", remove("run/metrics.jsonl")),
    "a process trains there": Situation(
        RESUME, "another process is training", lambda f: RunDirectory(f / "run").lock()
    ),
    "no memory": Situation(RESUME, "GiB free", environment={"NO_MEMORY": "1"}),
    # Looking at runs.
    "lineage of nothing": Situation("lineage nothing", "does not exist"),
    "lineage of a file": Situation("lineage full/precious.txt", "is a file"),
    "lineage without an archive": Situation(
        "lineage run", "no archive (run.sqlite): put it back", remove("run/run.sqlite")
    ),
    "lineage of a damaged archive": Situation("lineage run", "cannot read", overwrite_page),
    "lineage of another version": Situation("lineage run", "another version", execute("DROP TABLE champions")),
    "figure of an unknown kind": Situation("lineage run --figure tree.gif", ".png or .svg"),
    "report of damaged metrics": Situation("report run", "line 1, is damaged", write("run/metrics.jsonl", "{\n")),
    "report without metrics": Situation("report run", "metrics.jsonl is missing", remove("run/metrics.jsonl")),
    "report into no folder": Situation("report run --out nothing/page.html", "cannot write"),
    "export of nobody": Situation("export run S99 out", "S99' ever lived in run: choose one of T0, T1, S0, S1, best-s"),
    "ask without a member": Situation("ask run f(1)==? f(2)", "'f(1)==?' is a question, where the name of a member is"),
    "compare into a full folder": Situation("compare run --out full", "full is not empty: choose another folder"),
    "compare into a file": Situation("compare run --out full/precious.txt", "precious.txt is a file: choose a folder"),
    "export into a file": Situation("export run S0 full/precious.txt", "precious.txt is a file: choose a folder"),
    "export of nothing": Situation("export nothing S0 out", "does not exist"),
    "export into a full folder": Situation("export run S0 full", "not empty"),
    "export without checkpoints": Situation("export run S0 out", "no checkpoint", remove("run/checkpoints")),
    "retention at no checkpoint": Situation("retention run --step 77", "no checkpoint at step 77"),
    "ancestry without an archive": Situation("ancestry run", "no archive", remove("run/run.sqlite")),
    "tasks of nothing": Situation("tasks export nothing --out out.jsonl", "does not exist"),
    "tasks without an archive": Situation("tasks export run --out out.jsonl", "no archive", remove("run/run.sqlite")),
    "tasks of a damaged archive": Situation("tasks export run --out out.jsonl", "cannot read", overwrite_page),
    "tasks in an unknown format": Situation("tasks export run --out out.csv", "FILE.parquet, FILE.jsonl, or a folder"),
    "tasks onto a file": Situation("tasks export run --out full/precious.txt/", "exists already"),
    "tasks into a full folder": Situation("tasks export run --out full", "exists already"),
    "tasks into no folder": Situation("tasks export archived --out nothing/out.jsonl", "cannot write", make_archived),
    "tasks below a file": Situation("tasks export archived --out full/precious.txt/out", "cannot write", make_archived),
    "tasks of impossible solve rates": Situation(
        "tasks export run --out out.jsonl --solve-rate 0.9 0.1", "two numbers from 0 to 1"
    ),
    "tasks that are not there": Situation(
        "tasks export archived --out out.jsonl --kind code_i --solve-rate 0.5 1", "of 5 valid tasks", make_archived
    ),
    "tasks of a run without any": Situation("tasks export run --out out.jsonl", "no valid task yet"),
    "import of a run": Situation("tasks import run --out out.txt", "run is a run: write its tasks with"),
    "import of nothing": Situation("tasks import nothing.jsonl --out out.txt", "cannot read nothing.jsonl: No such"),
    "import of an unknown format": Situation(
        "tasks import full/precious.txt --out out.txt", "must end in .parquet, .jsonl or"
    ),
    "import of a folder of other things": Situation(
        "tasks import full --out out.txt", "full holds no tasks: give a file, or"
    ),
    "import of a damaged file": Situation(
        "tasks import full/t.parquet --out out.txt", "cannot read", write("full/t.parquet", "no Parquet")
    ),
    "import of an empty file": Situation(
        "tasks import full/t.jsonl --out out.txt", "full/t.jsonl has no rows", write("full/t.jsonl", "\n")
    ),
    "import into Parquet": Situation("tasks import full/t.jsonl --out t.parquet", "is written as text: give a name"),
    "import into a document": Situation("tasks import full/t.jsonl --out t.docx", "is written as text: give a name"),
    "import onto a file": Situation("tasks import full/t.jsonl --out full/precious.txt", "exists already"),
    "import into no folder": Situation("tasks import full/t.jsonl --out nothing/out.txt", "nothing does not exist"),
    "eval of nothing": Situation("eval nothing", "nothing"),
    "eval of nobody": Situation("eval run --members S99", "choose one of T0, "),
    "ask the base of a step": Situation("ask run base x --step 1", "leave --step out"),
    "ask with a file that is not there": Situation("ask run S0 question.txt", "there is no file question.txt"),
    "ask nobody": Situation("ask run S99 question.txt", "no member 'S99'"),
    "eval on an unknown benchmark": Situation("eval run --benchmarks nothing", "nothing"),
    # Other commands.
    "verify without a file": Situation("verify nofile", "nofile"),
    "sweep of an unknown key": Situation("sweep --grid nokey=1 --out out", "nokey"),
    "sweep with a setting twice": Situation("sweep run.steps=1 run.steps=2 --out out", "run.steps is given twice"),
    "transfer of nothing": Situation("transfer nothing --out out", "nothing"),
    "transfer without a run": Situation("transfer run.steps=2 --out out", "name the runs"),
    "sweep without values": Situation("sweep --grid learning.lr --out out", "learning.lr"),
    "the word help": Situation("help", "there is no command 'help': redqueen --help lists the commands"),
    "warm start into a full folder": Situation("warm-start full", "not empty"),
    "warm start without steps": Situation("warm-start out --steps many", "whole numbers"),
}


def test_there_are_many_situations() -> None:
    assert len(SITUATIONS) >= 60


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_bad_situation_is_one_line_and_loses_nothing(
    name: str, finished: Path, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation = SITUATIONS[name]
    shutil.copytree(finished, tmp_path / "run")
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").write_text("mine")
    if situation.prepare is not None:
        situation.prepare(tmp_path)
    for key, value in situation.environment.items():
        monkeypatch.setenv(key, value)
    if "NO_MEMORY" in situation.environment:
        monkeypatch.setattr("redqueen.engine.memory.machine.free_memory", lambda: 1000)
    args = situation.command.split()
    # What is asked of a new run on the tiny base must be quick, should it start against all expectations.
    if "new" in args:
        given = situation.command.replace("--workers", "model.workers")
        args += [setting for setting in SMALL if setting.partition("=")[0] not in given]
    before = contents(tmp_path)
    done = redqueen(*args, cwd=tmp_path)
    assert done.returncode == situation.code, done
    assert situation.says in done.stderr
    assert done.stderr.startswith(situation.first)
    assert len(done.stderr.removeprefix(situation.first).splitlines()) == 1, done.stderr
    assert contents(tmp_path) == before, "nothing is lost, changed or left behind"


def contents(folder: Path) -> dict[str, bytes]:
    """Returns every file by name. The lock of a run says nothing once its process has ended."""
    files = [path for path in folder.rglob("*") if path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in files}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_is_one_line(model: str, tmp_path: Path) -> None:
    done = redqueen("train", "--model", model, "model.device=cuda", cwd=tmp_path)
    assert done.returncode == 2
    assert "use model.device=cpu" in done.stderr
    assert list(tmp_path.iterdir()) == []
