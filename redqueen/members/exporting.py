"""Writes a member as a PEFT folder, or as a whole model, with a card that says how to use it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from redqueen import __version__
from redqueen.analysis.replay import MemberAtStep, find_member, fitness_at
from redqueen.config import BUNDLED, Config, GameConfig, ModelConfig
from redqueen.engine.adapters import Adapter, save_adapter
from redqueen.engine.memory.machine import VLLM_RANKS, largest_rank
from redqueen.engine.model.base import location
from redqueen.engine.model.quantized import is_quantized
from redqueen.errors import AdapterError, ModelError
from redqueen.members import ORIGINAL, about_base, code, plain, yaml_text
from redqueen.method.population import Member
from redqueen.method.prompt_lengths import seed_programs
from redqueen.method.prompts import prompts
from redqueen.plugins import PluginError
from redqueen.records import Pair, Prompt, Task
from redqueen.run.recording.terminal import number
from redqueen.run.session import Listener, announce_conversion, quiet_libraries
from redqueen.store.archive.reader import ArchiveReader
from redqueen.store.archive.rows import EvaluationRow
from redqueen.store.checkpoint import Checkpoint
from redqueen.store.directory import RunDirectory, check_free
from redqueen.store.files import printable, quoted, written_whole
from redqueen.store.lineage import Life, ancestors, lives
from redqueen.tasks.kinds import TaskKind, find
from redqueen.tasks.kinds.deduction import Deduction
from redqueen.tasks.python import NAMES

# A member for others: as transformers and PEFT load it, and as a plain model folder that needs no PEFT.


def load_member(base: str, adapter: Adapter, alpha: float) -> tuple[Any, Any]:
    """Returns the base with the adapter in it as a `peft.PeftModel`, ready to generate, and its tokenizer.

    Raises ModelError if the base cannot be loaded.
    """
    model, tokenizer = _loaded(base)
    with tempfile.TemporaryDirectory() as folder:
        save_adapter(Path(folder), adapter, alpha=alpha, base=location(base))
        return PeftModel.from_pretrained(model, folder).eval(), tokenizer


def write_merged(folder: Path, name: str, adapter: Adapter, scale: float) -> torch.dtype:
    """Writes the base called `name` with `scale` times the adapter's product added, and its tokenizer.

    Returns the dtype of the file, which is the one that the base is stored in.
    Raises ModelError if the base cannot be loaded, AdapterError if the adapter does not fit it, OSError if the folder
    cannot be written.
    """
    model, tokenizer = _loaded(name)
    if is_quantized(model):
        raise ModelError(f"'{name}' is quantised, and a sum would have to be rounded again: merge into its original")
    modules: dict[str, Any] = dict(model.named_modules())
    missing = [site for site in adapter if site not in modules]
    if missing:
        raise AdapterError(f"the adapter does not fit '{name}', which has no layer {missing[0]}")
    with torch.no_grad():
        for site, factors in adapter.items():
            weight = modules[site].weight
            # The sum is made in fp32 and rounded once. A product that is rounded to bf16 first would lose more.
            update = scale * (factors.a @ factors.b).T
            weight.copy_((weight.float() + update).to(weight.dtype))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The library writes weights that only their owner can read, whatever the umask says.
    mode = (folder / "config.json").stat().st_mode
    for file in folder.glob("*.safetensors"):
        file.chmod(mode)
    return model.dtype


def _loaded(base: str) -> tuple[Any, Any]:
    """Returns the base as its files are, and its tokenizer. Raises ModelError if it cannot be loaded."""
    where = location(base)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
        return AutoModelForCausalLM.from_pretrained(where, dtype="auto"), tokenizer
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load '{base}': {str(error).splitlines()[0]}") from error


# How to use an exported member: a program that asks it one question, and the lines to serve and to publish it.

_ADAPTER = """\
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
{imports}
base = {base}
adapter = {folder!r}  # this folder
tokenizer = AutoTokenizer.from_pretrained(base)
model = AutoModelForCausalLM.from_pretrained(base, dtype="auto")
model = PeftModel.from_pretrained(model, adapter)
"""
_MERGED = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = {folder!r}  # this folder
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
"""
_COMPLETION = """\
inputs = tokenizer(prompt, return_tensors="pt")
"""
_CHAT = """\
messages = [{"role": "user", "content": prompt}]
text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
inputs = tokenizer(text, return_tensors="pt", add_special_tokens=False)
"""
_ANSWER = """\
answer = model.generate(
    **inputs, max_new_tokens={tokens}, do_sample=False, stop_strings={stop!r}, tokenizer=tokenizer
)
print(tokenizer.decode(answer[0, inputs.input_ids.shape[1] :], skip_special_tokens=True))
"""


def usage(exported: CardFacts) -> str:
    """Returns the card's section as Markdown."""
    member, config = exported.member, exported.config
    prompt = _example(member, config.game, config.model.prompts)
    # The beginning of the answer that a format writes on the member's behalf is part of the text to complete.
    text = prompt.text if prompt.chat else prompt.text + prompt.prefix
    tokens = config.sampling.proposal_tokens if member.role == "teacher" else config.sampling.attempt_tokens
    program = "\n".join(
        [
            _loading(config.model.name, exported.folder, merged=exported.merged),
            f"prompt = {_literal(text)}",
            (_CHAT if prompt.chat else _COMPLETION) + _ANSWER.format(tokens=tokens, stop=_stops(prompt)),
        ]
    )
    return f"```python\n{program}```\n\n{_notes(member, config.model, exported.folder, merged=exported.merged)}"


def _loading(base: str, folder: Path, *, merged: bool) -> str:
    if merged:
        return _MERGED.format(folder=str(folder))
    if base != BUNDLED:
        return _ADAPTER.format(imports="", base=repr(base), folder=str(folder))
    # Where the bundled base lies differs from machine to machine.
    imports = "\nfrom redqueen.engine.model.base import location\n"
    return _ADAPTER.format(imports=imports, base=f"location({BUNDLED!r})", folder=str(folder))


def _stops(prompt: Prompt) -> list[str]:
    # The reasoning may mention the tag; behind a fence it ends an answer.
    return [f"```\n{stop}" if prompt.tagged else stop for stop in prompt.stop]


def _notes(member: Member, model: ModelConfig, folder: Path, *, merged: bool) -> str:
    publish = f"Publish it: {code(f'hf upload USER/NAME {quoted(folder)}')}."
    if merged:
        convert = f"python convert_hf_to_gguf.py {quoted(folder)} --outfile {member.name}.gguf --outtype f16"
        return (
            "The weights are rounded to the dtype that the base is stored in, so answers may differ a little from the\n"
            f"adapter's. vLLM serves it: {code(f'vllm serve {quoted(folder)}')}.\n"
            f"llama.cpp and Ollama read GGUF, which llama.cpp's script makes: {code(convert)}.\n"
            f"{publish}"
        )
    bundled = model.name == BUNDLED
    base = "BASE" if bundled else quoted(model.name)
    # vLLM has no adapters of a larger rank, and other ranks are no values of the option.
    if model.rank > VLLM_RANKS[-1]:
        return publish
    named = quoted(f"{member.name}={folder}")
    serve = f"vllm serve {base} --enable-lora --max-lora-rank {largest_rank(model.rank)} --lora-modules {named}"
    notes = f"vLLM serves it: {code(serve)}.\n{publish}"
    if bundled:
        notes += (
            "\n\nThe base comes with Red Queen and not from the hub. `location` converts it once and returns its\n"
            "folder, which is BASE in the line above. For a folder that needs nothing else, export with `--merge`."
        )
    return notes


_EXAMPLES = (
    ("def f(nums):\n    return sorted(nums)", "sort the numbers", (("[3, 1, 2]", "[1, 2, 3]"), ("[]", "[]"))),
    ("def f(text):\n    return text.upper()", "in capitals", (("'abc'", "'ABC'"), ("'x'", "'X'"))),
)


def _example(member: Member, game: GameConfig, written: str) -> Prompt:
    """Returns a prompt in the format `written`: a question for a student, for a teacher the request for a task."""
    name = game.kinds[0]
    in_words = Prompt(f"a question of the kind {name}, written by the prompt format {written}", ())
    try:
        kind = find(name)
        form = prompts(written, game)
    except PluginError:
        # It is an own part of the run, and nothing is imported to export a member.
        return in_words
    if name in NAMES:
        tasks = [_task(kind, *example) for example in _EXAMPLES]
    elif isinstance(kind, Deduction):
        # No output is shown, so none has to be known.
        tasks = list(islice(filter(None, map(kind.of_program, seed_programs(None, name))), 2))
    else:
        return in_words
    if member.role == "teacher":
        return form.propose(name, tasks, tasks[0] if kind.starts_from_program else None)
    return form.attempt(tasks[0], ())


def _task(kind: TaskKind, program: str, message: str, pairs: tuple[tuple[str, str], ...]) -> Task:
    whole = Task(
        id="example",
        kind=kind.name,
        author="example",
        step=0,
        program=program,
        pairs=tuple(Pair(input_text, output) for input_text, output in pairs),
        message=message,
    )
    return kind.of_program(whole) or whole


def _literal(text: str) -> str:
    """Returns `text` as Python source, on several lines where that needs no escapes."""
    # Marks of Markdown would end the block that the source stands in.
    if any(sign in text for sign in ('"""', "\\", "```")) or text.endswith('"') or printable(text) != text:
        return repr(text)
    return f'"""{text}"""'


# The card of an exported member: what it is, how to use it in ten lines, and where it comes from.


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A member's share of a benchmark's problems, each attempted once."""

    benchmark: str
    right: int
    judged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """What a card tells of."""

    member: Member
    config: Config
    saved: Checkpoint
    family: Sequence[Life]
    """The member and its ancestors."""
    fitness: float | None
    """The member's; None where it is not known yet."""
    folder: Path
    """Where it is written."""
    scores: Sequence[Score]
    """What it solved of held-out problems while the run went on, at the step that is exported."""
    merged: bool
    """Whether the folder is a whole model, and not an adapter."""


def card(exported: CardFacts) -> str:
    """Returns the model card, with the metadata that the Hugging Face hub reads."""
    member = exported.member
    config = exported.config
    saved = exported.saved
    league = config.league
    fitness_name = league.teacher_fitness if member.role == "teacher" else league.student_fitness
    rows = "\n".join(_row(life) for life in exported.family)
    what = "A whole model: the base with a LoRA adapter merged into it," if exported.merged else "A LoRA adapter"
    how = "by co-evolution" if config.population.teachers else "on fixed tasks"
    return f"""{_metadata(exported)}
# {member.name}, a {member.role}

{what} trained {how} with Red Queen {__version__} (recipe {code(config.recipe)}, {saved.step} steps).

- base: {about_base(config.model.name)}
- base fingerprint (SHA-256 of its weights in the run's dtype): {code(saved.fingerprint)}
- rating: {member.rating.mu:.2f} ± {member.rating.sigma:.2f}, fitness ({code(fitness_name)}) \
{number(exported.fitness)}
- won, drawn, lost: {member.wins}, {member.draws}, {member.losses}
- prompts: {code(config.model.prompts)}, the format that it was trained on; the example below is one

## Use

{usage(exported)}

## Lineage, youngest first

Fitness: of the parents at the birth, then the member's own when it was first rated, and at its end or now. Steps count
from 1; births and replacements are at a step's end.

| member | born | operator | parents | parents' fitness | own first | own last | replaced |
|---|---|---|---|---|---|---|---|
{rows}
"""


def _metadata(exported: CardFacts) -> str:
    """Returns the header that the hub reads. What is not known is left out: a wrong licence is worse than none."""
    name = exported.config.model.name
    lines = ["---", f"library_name: {'transformers' if exported.merged else 'peft'}"]
    # A folder of this machine is no name that the hub could link to.
    if name == BUNDLED or not Path(name).exists():
        lines.append(f"base_model: {yaml_text(ORIGINAL if name == BUNDLED else name)}")
        lines.append(f"base_model_relation: {'finetune' if exported.merged else 'adapter'}")
    if name == BUNDLED:
        lines.append("license: apache-2.0")
    lines += ["pipeline_tag: text-generation", "tags: [redqueen, populora, lora]", *_results(exported), "---"]
    return "\n".join(lines)


def _results(exported: CardFacts) -> list[str]:
    """Returns the scores as the hub shows them beside a model."""
    if not exported.scores:
        return []
    lines = ["model-index:", f"- name: {yaml_text(exported.member.name)}", "  results:"]
    for score in exported.scores:
        title = "reserved programs of Red Queen" if score.benchmark == "reserved" else score.benchmark
        lines += [
            "  - task: {type: text-generation}",
            f"    dataset: {{type: {yaml_text(score.benchmark)}, name: {yaml_text(title)}}}",
            "    metrics:",
            "    - type: solve_rate",
            f"      name: of {score.judged} held-out problems, one attempt each as in training",
            f"      value: {score.right / score.judged:.4f}",
        ]
    return lines


def _row(life: Life) -> str:
    born = life.born or "start"
    died = life.died or "-"
    before = ", ".join(number(value) for value in life.parent_fitness) or "-"
    return (
        f"| {life.name} | {born} | {plain(life.operator)} | {', '.join(life.parents) or '-'} | {before} | "
        f"{number(life.first)} | {number(life.last)} | {died} |"
    )


def export(run: Path, name: str, out: Path, step: int | None, listener: Listener, *, merge: bool) -> MemberAtStep:
    """Writes the member `name`, as it was after `step` steps or as late as it can be had, and returns it.

    Raises UserError if `out` is not empty or cannot be written, RunError if there is no such run, checkpoint or member.
    """
    check_free(out)
    # "." has no name that another one could be made of.
    out = Path(os.path.abspath(out)) if out.name in ("", "..") else out
    directory = RunDirectory(run)
    config = directory.config()
    found = find_member(directory, config.evolution_settings, name, step)
    member = found.member
    family = ancestors(lives(run), member.name)
    quiet_libraries()
    announce_conversion(config.model, listener)
    with written_whole(out) as scratch:
        scratch.mkdir(parents=True)
        adapter = found.saved.adapters[member.name]
        if merge:
            rank = next(iter(adapter.values())).a.shape[1]
            write_merged(scratch, config.model.name, adapter, found.saved.alpha / rank)
        else:
            # A folder of this machine's cache would not tell others where the base is.
            base = ORIGINAL if config.model.name == BUNDLED else location(config.model.name)
            save_adapter(scratch, adapter, alpha=found.saved.alpha, base=base)
        exported = CardFacts(
            member=member,
            config=config,
            saved=found.saved,
            family=family,
            fitness=fitness_at(directory, config.league, member.role, found.saved.step)(member),
            folder=out,
            scores=_scores(directory, member.name, found.saved.step),
            merged=merge,
        )
        (scratch / "README.md").write_text(card(exported), encoding="utf-8")
    return found


def _scores(directory: RunDirectory, member: str, step: int) -> list[Score]:
    """Returns what a member solved of held-out problems after a step (`evals.every`); nothing if that was not asked."""
    rows: dict[str, list[str]] = {}
    with ArchiveReader(directory.archive) as archive:
        for row in archive.every(EvaluationRow, step):
            if row.member == member and row.status not in ("infra_error", "nondeterministic"):
                rows.setdefault(row.benchmark, []).append(row.status)
    return [
        Score(benchmark=name, right=statuses.count("correct"), judged=len(statuses)) for name, statuses in rows.items()
    ]
