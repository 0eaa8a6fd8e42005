"""Writes `redqueen/tasks/python/seeds/generated.txt`: programs made of the templates in `tools/seed_templates/`.

A template is a block like a seed's, with slots: `# sum of the <test>`, a program, then `f(<nums>)`, which names the
kind of each argument. Lines `slot: code :: words` after it are the slot's options; `options.txt` has those that
templates share. The words of an option go into the message. `<k>` and a few more are constants. Everything is drawn
from fixed seeds, so the file is always the same.
"""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from redqueen.method.seeds import is_reserved
from redqueen.records import Draft
from redqueen.tasks.programs.normal_form import fingerprint, shape
from redqueen.tasks.python import FILES, parse_block, reserved
from tools.same_outputs import same_as_reserved
from tools.seed_inputs import INPUTS

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ROOT / "tools" / "seed_templates"
FOLDER = ROOT / "redqueen" / "tasks" / "python" / "seeds"
GENERATED = "generated.txt"

QUOTAS = {2: 10, 3: 230, 4: 240, 5: 240, 6: 200, 7: 140, 8: 100, 9: 70, 10: 40}
"""How many programs of each number of lines are written, at most."""
MAX_OF_A_TEMPLATE = 14
MAX_OF_A_SHAPE = 3
MAX_COMBINATIONS = 60
"""How many ways of filling one template are tried."""
INPUTS_OF_A_SEED = 8
MIN_OUTPUTS = 4
"""How many different outputs a program has on its inputs; truth values have two."""
MIN_LABELS = 3
"""The same where all outputs are strings, which may be names of classes."""
MAX_PROGRAM = 270
MAX_LINE = 76
MAX_OUTPUT = 60
MAX_MESSAGE_WORDS = 12

_SLOT = re.compile(r"<([a-z]+)(\d?)(\.one)?>")
_CONSTANTS = {"k": range(2, 8), "j": range(1, 4), "b": range(9, 14), "c": "aeinorst"}
# Other names for the usual ones. A name that the program has already is not taken.
_NAMES = {
    "nums": ("nums", "nums", "items", "values", "xs", "numbers", "a"),
    "words": ("words", "words", "names", "items", "ws"),
    "s": ("s", "s", "text", "word", "t"),
    "text": ("text", "text", "s", "line"),
    "d": ("d", "d", "table", "counts"),
    "x": ("x", "x", "v", "num", "y"),
    "c": ("c", "c", "ch", "char"),
    "w": ("w", "w", "word", "name"),
    "total": ("total", "total", "t", "acc", "res"),
    "out": ("out", "out", "result", "res", "r"),
    "count": ("count", "count", "hits", "cnt"),
    "i": ("i", "i", "j", "p"),
}
_ONE = {"numbers": "number", "multiples": "multiple", "words": "word", "characters": "character", "letters": "letter"}

Options = list[tuple[str, str]]
"""The options of a slot: code and words."""


@dataclass(frozen=True, slots=True)
class Template:
    """A seed block with slots."""

    message: str
    program: str
    inputs: tuple[str, ...]
    """The kind of each argument: a key of `INPUTS`."""
    slots: dict[str, Options]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A filled template."""

    template: int
    draft: Draft
    lines: int
    shape: str


def main() -> None:
    """Writes the file and says how many programs it has."""
    drafts = generated()
    (FOLDER / GENERATED).write_text(as_text(drafts), encoding="utf-8")
    lines = Counter(len(draft.program.splitlines()) for draft in drafts)
    print(f"{len(drafts)} programs, {len({shape(d.program) for d in drafts})} shapes, lines {sorted(lines.items())}")


def as_text(drafts: list[Draft]) -> str:
    """Returns the seed blocks of the drafts."""
    blocks = [[f"# {d.message}", d.program, *(f"f({given})" for given in d.inputs)] for d in drafts]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def generated() -> list[Draft]:
    """Returns the programs of the file, in its order."""
    written = written_by_hand()
    chosen = choose(list(candidates(read_templates())), written)
    # Neighbours of one template would make any part of the file one-sided.
    random.Random("order").shuffle(chosen)
    return chosen


def written_by_hand() -> list[Draft]:
    """Returns the seeds of the other files, which a generated program must not repeat."""
    drafts: list[Draft] = []
    for name in FILES:
        if name != GENERATED:
            text = (FOLDER / name).read_text(encoding="utf-8")
            drafts += [parse_block(block) for block in text.strip().split("\n\n")]
    return drafts


def read_templates() -> list[Template]:
    """Returns all templates in the order of their files' names."""
    shared = _options((TEMPLATES / "options.txt").read_text(encoding="utf-8").splitlines())
    templates: list[Template] = []
    for path in sorted(TEMPLATES.glob("*.txt")):
        if path.name != "options.txt":
            blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
            templates += [_template(block, shared) for block in blocks]
    return templates


def _options(lines: list[str]) -> dict[str, Options]:
    slots: dict[str, Options] = defaultdict(list)
    for line in lines:
        if line.strip():
            name, _, option = line.partition(": ")
            code, _, words = f" {option}".partition(" ::")
            slots[name].append((code.strip().replace("\\n", "\n"), words.strip()))
    return slots


def _template(block: str, shared: dict[str, Options]) -> Template:
    first, *lines = block.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith("f("))
    kinds = tuple(kind.strip("<>") for kind in lines[at][2:-1].split(", "))
    return Template(first[2:], "\n".join(lines[:at]), kinds, {**shared, **_options(lines[at + 1 :])})


def candidates(templates: list[Template]) -> Iterator[Candidate]:
    """Yields the good programs that the templates make, each with its inputs."""
    for number, template in enumerate(templates):
        for message, program in fillings(template):
            rng = random.Random(f"{message}\n{program}")
            program = renamed(program, rng)
            if not fits(message, program):
                continue
            inputs = good_inputs(program, template.inputs, rng)
            if inputs is not None:
                yield Candidate(number, Draft(program, inputs, message), len(program.splitlines()), shape(program))


def fillings(template: Template) -> list[tuple[str, str]]:
    """Returns messages and programs of the template, in a drawn order."""
    rng = random.Random(template.message + template.program)
    named = {match[1] + match[2] for match in _SLOT.finditer(template.message + template.program)}
    used = sorted(name for name in named if _kind(name, template) in template.slots)
    choices = [template.slots[_kind(name, template)] for name in used]
    combinations = list(itertools.product(*choices))
    rng.shuffle(combinations)
    # Few combinations are repeated, with other constants.
    repeats = 1 if len(combinations) > 8 else 2
    filled = [_fill(template, dict(zip(used, c, strict=True)), rng) for c in combinations[:MAX_COMBINATIONS] * repeats]
    return list(dict.fromkeys(pair for pair in filled if pair is not None))


def _fill(template: Template, chosen: dict[str, tuple[str, str]], rng: random.Random) -> tuple[str, str] | None:
    # The same option in two slots would say one thing twice.
    if len({(_kind(name, template), option) for name, option in chosen.items()}) < len(chosen):
        return None
    constants: dict[str, str] = {}

    def constant(name: str) -> str:
        kind = name.rstrip("0123456789")
        taken = {value for other, value in constants.items() if other.rstrip("0123456789") == kind}
        if name not in constants:
            constants[name] = rng.choice([str(value) for value in _CONSTANTS[kind] if str(value) not in taken])
        return constants[name]

    def code(match: re.Match[str]) -> str:
        name = match[1] + match[2]
        return chosen[name][0] if name in chosen else match[0]

    def words(match: re.Match[str]) -> str:
        name = match[1] + match[2]
        if name not in chosen:
            return match[0]
        said = chosen[name][1]
        return " ".join(_ONE.get(word, word) for word in said.split()) if match[3] else said

    program = _SLOT.sub(code, _SLOT.sub(code, template.program))
    message = _SLOT.sub(words, template.message)
    program = _SLOT.sub(lambda match: constant(match[1] + match[2]), program)
    message = _SLOT.sub(lambda match: constant(match[1] + match[2]), message)
    # An empty option leaves a space at its place.
    program = "\n".join(line.rstrip() for line in program.split("\n"))
    return " ".join(message.split()).replace(" ,", ",").strip(","), program


def _kind(slot: str, template: Template) -> str:
    """Returns where a slot's options stand: `test2` has those of `test`, unless it has its own."""
    return slot if slot in template.slots else slot.rstrip("0123456789")


def renamed(program: str, rng: random.Random) -> str:
    """Returns the program with other names for some of its variables."""
    # Only quoted text is left alone; templates have no f-strings and no comments. `d` is a digit in some.
    parts = re.split(r"('[^']*')", program)
    present = set(re.findall(r"\w+", program))
    for name, others in _NAMES.items():
        if name in present and (name != "d" or "def f(d" in program):
            other = rng.choice(others)
            if other != name and other not in present:
                present.add(other)
                word = re.compile(rf"(?<![\w.]){name}(?!\w)")
                parts[::2] = [word.sub(other, part) for part in parts[::2]]
    return "".join(parts)


def fits(message: str, program: str) -> bool:
    """Says whether the texts are short enough, and the program reads every variable that it sets."""
    names = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Name)]
    read = {name.id for name in names if isinstance(name.ctx, ast.Load)}
    return (
        {name.id for name in names} <= read | {"_"}
        and len(program) <= MAX_PROGRAM
        and max(map(len, program.splitlines())) <= MAX_LINE
        and len(message.split()) <= MAX_MESSAGE_WORDS
    )


def good_inputs(program: str, kinds: tuple[str, ...], rng: random.Random) -> tuple[str, ...] | None:
    """Returns inputs on which the program says much, an edge case first where it works; None if there are too few."""
    space: dict[str, object] = {}
    exec(compile(program, "<seed>", "exec"), space)
    outputs: dict[str, object] = {}
    for given in _drawn(kinds, rng):
        # Written and read again: the program may change its arguments.
        text = repr(given)
        if text in outputs:
            continue
        try:
            output = space["f"](*eval(text))  # type: ignore[operator]
        except (ValueError, IndexError, KeyError, ZeroDivisionError, TypeError):
            continue
        if len(repr(output)) <= MAX_OUTPUT:
            outputs[text] = output
    texts = _varied(outputs)
    if len(texts) < INPUTS_OF_A_SEED or _says_little(texts, outputs):
        return None
    return tuple(text[1:-2] if text.endswith(",)") else text[1:-1] for text in texts)


def _drawn(kinds: tuple[str, ...], rng: random.Random) -> Iterator[tuple[object, ...]]:
    draws = [INPUTS[kind][1] for kind in kinds]
    edge = INPUTS[kinds[0]][0]
    yield (edge, *(draw(rng) for draw in draws[1:]))
    for _ in range(60):
        yield tuple(draw(rng) for draw in draws)


def _varied(outputs: dict[str, object]) -> list[str]:
    # First one input for each output, then more of the same: at most half repeat an output.
    seen: Counter[str] = Counter()
    ranks: list[tuple[int, int, str]] = []
    for number, (text, output) in enumerate(outputs.items()):
        ranks.append((seen[repr(output)], number, text))
        seen[repr(output)] += 1
    best = sorted(ranks)[:INPUTS_OF_A_SEED]
    return [text for _, _, text in sorted(best, key=lambda rank: rank[1])]


def _says_little(texts: list[str], outputs: dict[str, object]) -> bool:
    said = [outputs[text] for text in texts]
    counts = Counter(map(repr, said))
    least = MIN_OUTPUTS
    if all(isinstance(output, str) for output in said):
        least = MIN_LABELS
    elif all(isinstance(output, bool) for output in said):
        least = 2
    few = len(counts) < least or max(counts.values()) > INPUTS_OF_A_SEED - 3
    return few or all(eval(text)[0] == outputs[text] for text in texts)


def choose(found: list[Candidate], written: list[Draft]) -> list[Draft]:
    """Returns programs up to the quotas: new shapes first, from all templates in turn."""
    chosen: list[Draft] = []
    shapes = Counter(shape(draft.program) for draft in written)
    taken = {fingerprint(draft.program) for draft in written}
    messages = {draft.message for draft in (*written, *reserved())}
    of_template: Counter[int] = Counter()
    lines: Counter[int] = Counter()
    for most in range(1, MAX_OF_A_SHAPE + 1):
        for candidate in _in_turn(found):
            draft = candidate.draft
            mark = fingerprint(draft.program)
            full = lines[candidate.lines] >= QUOTAS.get(candidate.lines, 0)
            often = of_template[candidate.template] >= MAX_OF_A_TEMPLATE or shapes[candidate.shape] >= most
            # What held-out evaluation poses is never trained on, nor anything alike.
            known = mark in taken or draft.message in messages or is_reserved(draft.program)
            if full or often or known or same_as_reserved(draft):
                continue
            chosen.append(draft)
            taken.add(mark)
            messages.add(draft.message)
            shapes[candidate.shape] += 1
            of_template[candidate.template] += 1
            lines[candidate.lines] += 1
    return chosen


def _in_turn(found: list[Candidate]) -> list[Candidate]:
    """Returns the candidates so that each template gives its first, then each its second, and so on."""
    place: Counter[int] = Counter()
    keys: list[int] = []
    for candidate in found:
        keys.append(place[candidate.template])
        place[candidate.template] += 1
    return [candidate for _, candidate in sorted(zip(keys, found, strict=True), key=lambda pair: pair[0])]


if __name__ == "__main__":
    main()
