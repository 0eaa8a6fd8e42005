"""How to use an exported member: a program that asks it one question, and the lines to serve and to publish it."""

from __future__ import annotations

from pathlib import Path

from redqueen.base.markup import code
from redqueen.config import BUNDLED, Config
from redqueen.method.population import Member
from redqueen.method.prompts import prompts
from redqueen.plugins import PluginError
from redqueen.records import Pair, Prompt, Task
from redqueen.store.files import printable, quoted
from redqueen.tasks.kinds import TaskKind, find

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


def usage(member: Member, config: Config, folder: Path, *, merged: bool) -> str:
    """Returns the card's section as Markdown."""
    prompt = _example(member, config)
    # The beginning of the answer that a format writes on the member's behalf is part of the text to complete.
    text = prompt.text if prompt.chat else prompt.text + prompt.prefix
    tokens = config.sampling.proposal_tokens if member.role == "teacher" else config.sampling.attempt_tokens
    program = "\n".join(
        [
            _loading(config, folder, merged=merged),
            f"prompt = {_literal(text)}",
            (_CHAT if prompt.chat else _COMPLETION) + _ANSWER.format(tokens=tokens, stop=_stops(prompt)),
        ]
    )
    return f"```python\n{program}```\n\n{_notes(member, config, folder, merged=merged)}"


def _loading(config: Config, folder: Path, *, merged: bool) -> str:
    if merged:
        return _MERGED.format(folder=str(folder))
    if config.model.name != BUNDLED:
        return _ADAPTER.format(imports="", base=repr(config.model.name), folder=str(folder))
    # Where the bundled base lies differs from machine to machine.
    imports = "\nfrom redqueen.engine.model.base import location\n"
    return _ADAPTER.format(imports=imports, base=f"location({BUNDLED!r})", folder=str(folder))


def _stops(prompt: Prompt) -> list[str]:
    # The reasoning may mention the tag; behind a fence it ends an answer.
    return [f"```\n{stop}" if prompt.tagged else stop for stop in prompt.stop]


def _notes(member: Member, config: Config, folder: Path, *, merged: bool) -> str:
    publish = f"Publish it: {code(f'hf upload USER/NAME {quoted(folder)}')}."
    if merged:
        return (
            "The weights are rounded to the dtype that the base is stored in, so answers may differ a little from the\n"
            f"adapter's. vLLM should serve it: {code(f'vllm serve {quoted(folder)}')}. This line has not been tried.\n"
            f"{publish}"
        )
    bundled = config.model.name == BUNDLED
    base = "BASE" if bundled else quoted(config.model.name)
    serve = (
        f"vllm serve {base} --enable-lora --max-lora-rank {config.model.rank} "
        f"--lora-modules {quoted(f'{member.name}={folder}')}"
    )
    notes = f"vLLM should serve it: {code(serve)}.\nThis line has not been tried. {publish}"
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


def _example(member: Member, config: Config) -> Prompt:
    """Returns a prompt in the run's format: a question for a student, for a teacher the request for a task."""
    name = config.game.kinds[0]
    try:
        kind = find(name)
        form = prompts(config.model.prompts, config.game)
    except PluginError:
        # It is an own part of the run, and nothing is imported to export a member.
        return Prompt(f"a question of the kind {name}, written by the prompt format {config.model.prompts}", ())
    tasks = [_task(kind, *example) for example in _EXAMPLES]
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
