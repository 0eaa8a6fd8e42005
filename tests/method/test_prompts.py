"""Both prompt formats: written texts can be read back, hostile texts stay text, and no prompt shows its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redqueen.config import GameConfig
from redqueen.jail import LiteralError, parse_arguments, parse_literal
from redqueen.method.prompts import ChatPrompts, CompletionPrompts, Prompts, prompts
from redqueen.records import Draft, Kind, Pair, Task
from redqueen.tasks.python import NAMES
from tests.linear import LENGTH, LIMIT_S, cpu_seconds

FORMATS = ("completion", "chat")
START = Task(
    id="s",
    kind="code_f",
    author="T0",
    step=0,
    program="def f(x):\n    return x + 1",
    pairs=tuple(Pair(str(i), str(i + 1)) for i in range(6)),
    message="add one",
)


@pytest.fixture(params=FORMATS)
def form(request: pytest.FixtureRequest) -> Prompts:
    return prompts(request.param, GameConfig())


@pytest.fixture
def completion() -> CompletionPrompts:
    return CompletionPrompts(GameConfig())


@pytest.fixture
def chat() -> ChatPrompts:
    return ChatPrompts(GameConfig())


def fence(name: str, body: str) -> str:
    return f"```{name}\n{body}\n```"


def test_each_name_gives_its_format() -> None:
    assert isinstance(prompts("completion", GameConfig()), CompletionPrompts)
    assert isinstance(prompts("chat", GameConfig()), ChatPrompts)


@pytest.mark.parametrize("kind", NAMES)
def test_a_written_proposal_reads_back_as_its_task(
    form: Prompts, kind: Kind, seed_tasks: dict[Kind, list[Task]]
) -> None:
    for task in seed_tasks[kind]:
        start = task if kind == "code_f" else None
        draft = form.read_proposal(kind, form.write_proposal(task), start)
        assert isinstance(draft, Draft), (task.message, draft)
        assert draft.program == task.program
        assert draft.message == (task.message if kind == "code_f" else "")
        assert draft.inputs == tuple(pair.input for pair in task.pairs)[: len(draft.inputs)]
        assert len(draft.inputs) >= (GameConfig().min_inputs if kind == "code_f" else 1)


def test_a_message_of_several_lines_is_one_comment_of_a_completion(completion: CompletionPrompts) -> None:
    task = replace(START, message="First line.\n\nSecond line:  add one.")
    message = "First line. Second line: add one."
    draft = completion.read_proposal("code_f", completion.write_proposal(task), task)
    assert isinstance(draft, Draft)
    assert (draft.message, draft.inputs) == (message, tuple(pair.input for pair in task.pairs[:5]))
    asked = completion.attempt(task, ()).text
    assert f"# {message}\n" in asked
    assert all(line.startswith("# ") for line in asked.splitlines())


@pytest.mark.parametrize("kind", NAMES)
def test_a_written_attempt_reads_back_as_the_recorded_answer(
    form: Prompts, kind: Kind, seed_tasks: dict[Kind, list[Task]]
) -> None:
    for task in seed_tasks[kind]:
        pair = task.pairs[0]
        answer = {"code_o": pair.output, "code_i": pair.input, "code_f": task.program}[kind]
        assert form.read_attempt(kind, form.write_attempt(task)) == answer


@pytest.mark.parametrize("kind", NAMES)
def test_what_is_written_begins_with_the_prefix_and_holds_no_stop(
    form: Prompts, kind: Kind, seed_tasks: dict[Kind, list[Task]]
) -> None:
    for task in seed_tasks[kind]:
        for prompt, text in (
            (form.propose(kind, [], task if kind == "code_f" else None), form.write_proposal(task)),
            (form.attempt(task, []), form.write_attempt(task)),
        ):
            assert text.startswith(prompt.prefix)
            assert prompt.stop
            # a stop string may end the text, as the sampler would have cut it there
            assert not any(stop in text for stop in prompt.stop), task.message


# Five inputs are written whatever game.min_inputs says: with 6 or more all the warm start's targets are invalid.
def test_a_written_code_f_proposal_has_as_many_inputs_as_the_game_asks_for(seed_tasks: dict[Kind, list[Task]]) -> None:
    task = next(t for t in seed_tasks["code_f"] if len(t.pairs) >= 8)
    for name in FORMATS:
        form = prompts(name, GameConfig(min_inputs=7))
        assert isinstance(form.read_proposal("code_f", form.write_proposal(task), task), Draft), name


def test_a_code_f_prompt_depends_on_neither_the_program_nor_a_hidden_pair(
    form: Prompts, seed_tasks: dict[Kind, list[Task]]
) -> None:
    for task in seed_tasks["code_f"]:
        other = replace(
            task,
            program="def f(secret):\n    return 'secret'",
            pairs=task.shown + tuple(Pair("'hidden'", "'secret'") for _ in task.hidden),
        )
        assert len(task.hidden) >= 2
        assert form.attempt(task, []) == form.attempt(other, [])


def test_a_code_f_prompt_shows_the_message_and_each_shown_pair_in_so_many_words(
    form: Prompts, seed_tasks: dict[Kind, list[Task]]
) -> None:
    for task in seed_tasks["code_f"]:
        text = form.attempt(task, []).text
        assert task.message in text
        for pair in task.shown:
            assert f"f({pair.input}) == {pair.output}\n" in text or (
                f"{fence('input', pair.input)}\n{fence('output', pair.output)}" in text
            )


def test_a_code_f_prompt_changes_with_every_shown_pair(form: Prompts) -> None:
    for i in range(len(START.shown)):
        pairs = tuple(Pair(p.input, "'changed'") if i == j else p for j, p in enumerate(START.pairs))
        assert form.attempt(replace(START, pairs=pairs), []) != form.attempt(START, [])


def test_half_of_the_pairs_are_shown_and_none_is_both(seed_tasks: dict[Kind, list[Task]]) -> None:
    for task in seed_tasks["code_f"]:
        assert task.shown + task.hidden == task.pairs
        assert 0 <= len(task.shown) - len(task.hidden) <= 1
        assert not {p.input for p in task.shown} & {p.input for p in task.hidden}


def test_a_code_o_prompt_does_not_depend_on_the_output(form: Prompts, seed_tasks: dict[Kind, list[Task]]) -> None:
    for task in seed_tasks["code_o"]:
        prompt = form.attempt(task, [])
        assert prompt == form.attempt(replace(task, pairs=(Pair(task.pairs[0].input, "'secret'"),)), [])
        assert task.program in prompt.text
        assert task.pairs[0].input in prompt.text


def test_a_code_i_prompt_does_not_depend_on_the_input(form: Prompts, seed_tasks: dict[Kind, list[Task]]) -> None:
    for task in seed_tasks["code_i"]:
        prompt = form.attempt(task, [])
        assert prompt == form.attempt(replace(task, pairs=(Pair("'secret'", task.pairs[0].output),)), [])
        assert task.program in prompt.text
        assert task.pairs[0].output in prompt.text


@pytest.mark.parametrize("kind", ["code_o", "code_i"])
def test_the_message_is_for_code_f_only(form: Prompts, kind: Kind, seed_tasks: dict[Kind, list[Task]]) -> None:
    for task in seed_tasks[kind][::20]:
        assert form.attempt(task, []) == form.attempt(replace(task, message="a hint"), [])


@pytest.mark.parametrize("kind", NAMES)
def test_worked_examples_come_before_the_question_with_their_answers(
    completion: CompletionPrompts, kind: Kind, seed_tasks: dict[Kind, list[Task]]
) -> None:
    example, task = seed_tasks[kind][0], seed_tasks[kind][-1]
    alone, worked = completion.attempt(task, []), completion.attempt(task, [example])
    assert worked.text == completion.attempt(example, []).text + completion.write_attempt(example) + "\n\n" + alone.text
    assert (worked.stop, worked.prefix) == (alone.stop, alone.prefix)


@pytest.mark.parametrize("kind", NAMES)
def test_references_are_shown_to_the_teacher(form: Prompts, kind: Kind, seed_tasks: dict[Kind, list[Task]]) -> None:
    references = seed_tasks[kind][3:6]
    start = START if kind == "code_f" else None
    text = form.propose(kind, references, start).text
    assert all(task.program in text for task in references)
    assert (START.program in text) == (start is not None)
    if kind == "code_f":
        assert START.message not in text.replace(START.program, "")


def test_chat_prompts_are_messages_and_completions_are_raw(completion: CompletionPrompts, chat: ChatPrompts) -> None:
    for kind in NAMES:
        start = START if kind == "code_f" else None
        assert chat.propose(kind, [], start).chat
        assert chat.attempt(replace(START, kind=kind), []).chat
        assert not completion.propose(kind, [], start).chat
        assert not completion.attempt(replace(START, kind=kind), []).chat


@pytest.mark.parametrize("text", ["0) or (True)", "0), f(1)", "1) == 1 or f(2)", "*[1])", "x=1)", "__import__('os'))"])
def test_an_answer_that_closes_the_call_early_stays_one_text_that_is_no_literal(
    completion: CompletionPrompts, text: str
) -> None:
    answer = completion.read_attempt("code_i", text)
    assert answer == text[:-1]
    with pytest.raises(LiteralError):
        parse_arguments(answer)


@pytest.mark.parametrize("text", ["3", "3) # the input", "3) and more", "", "(3", "3)\nmore", "3);"])
def test_a_code_i_answer_must_end_with_the_calls_parenthesis(completion: CompletionPrompts, text: str) -> None:
    assert completion.read_attempt("code_i", text) is None


@pytest.mark.parametrize(("text", "answer"), [(")", ""), (" 3 )", "3 "), ("(1, 2))", "(1, 2)"), ("')')", "')'")])
def test_a_code_i_answer_is_what_stands_before_the_last_parenthesis(
    completion: CompletionPrompts, text: str, answer: str
) -> None:
    assert completion.read_attempt("code_i", text) == answer


@pytest.mark.parametrize("text", [" 4 or True", " f(2)", " 4, assert", " 4 == 4", " [x for x in ()]"])
def test_words_after_a_code_o_answer_make_it_no_literal(completion: CompletionPrompts, text: str) -> None:
    answer = completion.read_attempt("code_o", text)
    assert answer == text.strip()
    with pytest.raises(LiteralError):
        parse_literal(answer)


@pytest.mark.parametrize("kind", ["code_o", "code_f"])
def test_an_empty_completion_is_no_answer(completion: CompletionPrompts, kind: Kind) -> None:
    assert completion.read_attempt(kind, "") is None
    assert completion.read_attempt(kind, "\n\n") is None


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x",
        "def f(x):\n    return x\nf(1)\nf(2)",
        "def f(x):\n    return x\nf(1) # one",
        "def f(x):\n    return x\nf(1)\nI hope this helps",
        "def f(x):\n    return x\nf(1",
        "",
    ],
)
def test_a_completion_without_exactly_one_call_at_its_end_is_no_proposal(
    completion: CompletionPrompts, text: str
) -> None:
    assert completion.read_proposal("code_o", text, None) == "a program and one call f(...) are needed"


@pytest.mark.parametrize(
    "text",
    [
        "#\nf(1)\nf(2)\nf(3)\nf(4)",
        "# a message\nf(1)\nf(2)\nf(3)",
        "# a message\nf(1)\nf(2)\nf(3)\nf(3)",
        "# a message\nf(1)\nf(2)\nf(3)\nf(4)\nthe end",
        "# a message\ndef f(x):\n    return 0\nf(1)\nf(2)\nf(3)\nf(4)",
        "# a message",
        "",
    ],
)
def test_a_code_f_completion_needs_a_message_enough_inputs_and_no_program_of_its_own(
    completion: CompletionPrompts, text: str
) -> None:
    assert completion.read_proposal("code_f", text, START) == "a message and 4 different calls f(...) are needed"


def test_a_code_f_proposal_keeps_the_program_it_started_from(form: Prompts) -> None:
    inputs = [f"[{i}]" for i in range(14)]
    text = {
        CompletionPrompts: "# in other words\n" + "\n".join(f"f({given})" for given in inputs),
        ChatPrompts: f"<answer>{fence('message', 'in other words')}\n" + "\n".join(fence("input", i) for i in inputs),
    }[type(form)]  # type: ignore[index]
    assert form.read_proposal("code_f", text, START) == Draft(START.program, tuple(inputs[:10]), "in other words")


def test_only_what_follows_the_last_answer_tag_counts(chat: ChatPrompts) -> None:
    text = f"<think>maybe <answer>\n{fence('output', '1')}</think>\n<answer>\n{fence('output', '2')}\n"
    assert chat.read_attempt("code_o", text) == "2"
    text = f"{fence('output', '1')}\n<answer>\n{fence('output', '2')}\n</answer>\n{fence('output', '3')}"
    assert chat.read_attempt("code_o", text) == "2"


@pytest.mark.parametrize(
    "text",
    [
        f"<answer>\n{fence('output', '1')}\n{fence('output', '2')}\n",
        f"<answer>\n{fence('input', '1')}\n",
        "<answer>\n1\n",
        "<answer>\n```output\n1\n",
        "<answer>\n`output 1`\n",
        fence("output", "1"),
        f"{fence('output', '1')}\n<answer>\n",
        "<answer>",
        "",
    ],
    ids=["two", "other", "bare", "unclosed", "inline", "no tag", "before the tag", "empty answer", "empty"],
)
def test_without_exactly_one_closed_block_there_is_no_chat_answer(chat: ChatPrompts, text: str) -> None:
    assert chat.read_attempt("code_o", text) is None


REASONING = "The result goes between <answer> and </answer>, after <think> and </think>."
DRAFT = f"The form is <answer>\n{fence('output', '1')}\n</answer>."


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{REASONING} So 2.</think>\n<answer>\n{fence('output', '2')}\n</answer>",
        f"{REASONING}\n<answer>\n{fence('output', '2')}\n</answer>",
        f"<think>{DRAFT}</think><answer>\n{fence('output', '2')}\n</answer>",
        f"<answer>\n{fence('output', '1')}\n</answer>\nWait.\n<answer>\n{fence('output', '2')}\n</answer>",
        f"<answer>\n{fence('output', '2')}\n</answer>\nIt is between <answer> and </answer>.",
        f"<answer>{fence('output', '2')}</answer>",
        f"<answer>\nBetween <answer> and </answer>:\n<answer>\n{fence('output', '2')}",
        f"<answer>\n{fence('', '2')}\n</answer>",
        f"<answer>\n{fence('Output', '2')}\n</answer>",
        f"<answer>\n{fence('text', '2')}\n</answer>",
        f"<answer>\n{fence('', '2')}\n{fence('python', 'f(1) == 2')}\n</answer>",
        f"<answer>\n{fence('output', '2')}\nthat is\n{fence('output', '2')}\n</answer>",
        "<answer>\n- ~~~output\n  2\n  ~~~\n</answer>",
        "<answer>\n````output\n2````</answer>",
    ],
)
def test_words_about_tags_and_drafts_are_no_chat_answer(chat: ChatPrompts, text: str) -> None:
    assert chat.read_attempt("code_o", text) == "2"


def test_what_a_chat_text_thinks_is_no_answer_in_place_of_one_that_cannot_be_read(chat: ChatPrompts) -> None:
    assert chat.read_attempt("code_o", f"<think>{DRAFT}</think>\n<answer>2</answer>") is None


ADD = "def f(x):\n    return x + 1"


@pytest.mark.parametrize(
    "blocks",
    [
        fence("py", ADD),
        fence("Python3", ADD),
        fence("", ADD),
        fence("code", ADD),
        f"{fence('python', ADD)}\n{fence('python', 'print(f(1))')}",
        f"{fence('', ADD)}\n{fence('python', 'print(f(1))')}",
        f"{fence('python', ADD)}\n{fence('output', '2')}",
        f"1. The function:\n\n   {fence('python', ADD).replace(chr(10), chr(10) + '   ')}",
    ],
)
def test_a_chat_program_is_the_block_that_defines_the_function(chat: ChatPrompts, blocks: str) -> None:
    assert chat.read_attempt("code_f", f"<answer>\n{blocks}\n</answer>") == ADD


def test_a_tag_within_a_chat_program_ends_nothing(chat: ChatPrompts) -> None:
    program = "def f(x):\n    return '<answer></answer></think>' + x"
    assert chat.read_attempt("code_f", f"<think>so</think><answer>\n{fence('python', program)}\n</answer>") == program


@pytest.mark.parametrize(("program", "given"), [("py", "Input"), ("", "input"), ("Python", "")])
def test_the_blocks_of_a_chat_proposal_may_be_spelled_otherwise(chat: ChatPrompts, program: str, given: str) -> None:
    text = f"<think>{REASONING}</think><answer>\n{fence(program, ADD)}\n{fence(given, '1')}\n</answer>"
    assert chat.read_proposal("code_o", text, None) == Draft(ADD, ("1",))


def test_a_block_that_is_not_closed_before_the_next_is_none(chat: ChatPrompts) -> None:
    assert chat.read_attempt("code_o", f"<answer>\n```input\n1\n{fence('output', '2')}\n") == "2"
    assert chat.read_attempt("code_i", f"<answer>\n```input\n1\n{fence('output', '2')}\n") is None


def test_a_fence_within_a_line_belongs_to_the_answer(chat: ChatPrompts) -> None:
    assert chat.read_attempt("code_o", f"<answer>\n{fence('output', repr('a```b'))}\n") == repr("a```b")


@pytest.mark.parametrize(
    "answer",
    [
        f"{fence('python', START.program)}",
        f"{fence('input', '1')}",
        f"{fence('python', START.program)}\n{fence('input', '1')}\n{fence('input', '2')}",
        f"{fence('python', START.program)}\n{fence('python', START.program)}\n{fence('input', '1')}",
    ],
    ids=["no input", "no program", "two inputs", "two programs"],
)
def test_a_chat_proposal_needs_one_program_and_one_input(chat: ChatPrompts, answer: str) -> None:
    refused = "one ```python block and one ```input block are needed"
    assert chat.read_proposal("code_i", f"<answer>\n{answer}\n", None) == refused
    assert chat.read_proposal("code_i", answer, None) == "no <answer> with fenced blocks"


@pytest.mark.parametrize("messages", [[], [""], ["  "], ["a", "b"]])
def test_a_chat_code_f_proposal_needs_one_message(chat: ChatPrompts, messages: list[str]) -> None:
    blocks = [fence("message", m) for m in messages] + [fence("input", str(i)) for i in range(4)]
    refused = "one ```message block and 4 different ```input blocks are needed"
    assert chat.read_proposal("code_f", "<answer>\n" + "\n".join(blocks), START) == refused


def test_a_chat_program_keeps_its_blank_lines_and_indentation(chat: ChatPrompts) -> None:
    program = "import math\n\n\ndef f(x):\n\n    if x:\n        return '<think>'\n    return math.pi"
    text = f"<answer>\n{fence('python', program)}\n"
    assert chat.read_attempt("code_f", text) == program


@given(st.text(), st.sampled_from(NAMES), st.sampled_from(FORMATS))
def test_no_text_breaks_a_reader_and_answers_are_taken_from_it_verbatim(text: str, kind: Kind, name: str) -> None:
    form = prompts(name, GameConfig())
    answer = form.read_attempt(kind, text)
    assert answer is None or answer in text
    draft = form.read_proposal(kind, text, START if kind == "code_f" else None)
    assert isinstance(draft, Draft | str)
    if isinstance(draft, str):
        assert draft
        assert "\n" not in draft


PIECES = st.sampled_from(
    ["<answer>", "</answer>", "```python\n", "```input\n", "```output\n", "```message\n", "```", "\n", " ", "f(1)", "x"]
)


@given(st.lists(PIECES, max_size=25).map("".join), st.sampled_from(NAMES))
def test_no_arrangement_of_tags_and_fences_breaks_the_chat_reader(text: str, kind: Kind) -> None:
    chat = ChatPrompts(GameConfig())
    answer = chat.read_attempt(kind, text)
    if answer is not None:
        # The fence's own indentation is no part of it, nor is a fence behind its last line.
        lines = {line.strip() for line in text.partition("<answer>")[2].split("\n")}
        lines |= {line.partition("```")[0].strip() for line in lines}
        assert {line.strip() for line in answer.split("\n")} <= lines
    draft = chat.read_proposal(kind, text, START if kind == "code_f" else None)
    if isinstance(draft, Draft):
        assert len(set(draft.inputs)) == len(draft.inputs) >= (4 if kind == "code_f" else 1)


# The chat reader's regular expression is quadratic on a run of spaces or letters: seconds for 20,000 characters, and a
# model that repeats itself writes as many in the 2,048 tokens of `paper_7b`, in every completion of a batch.
@pytest.mark.slow
@pytest.mark.parametrize("unit", [" ", "a", "\n```python", "\n`"])
@pytest.mark.parametrize("lead", ["", "\n"])
def test_reading_takes_time_in_proportion_to_the_text(form: Prompts, lead: str, unit: str) -> None:
    text = f"<answer>\n```python{lead}{unit * (LENGTH // len(unit))}"

    def read() -> None:
        for kind in NAMES:
            form.read_attempt(kind, text)
            form.read_proposal(kind, text, START if kind == "code_f" else None)

    assert cpu_seconds(read) < LIMIT_S
