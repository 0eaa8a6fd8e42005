"""Takes the answer out of a model's text: a program, or what its last box holds."""

from __future__ import annotations

import re

from redqueen.tasks.programs.fenced import chosen, fenced_blocks

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_CUT = re.compile(r"\\(?:b|bo|box|boxe|f|fb|fbo)$")
# A sentence or a line ends; the point of a decimal and those of an ellipsis do not count.
_END = re.compile(r"[!?](?:\s|$)|(?<!\.)\.(?:[\s$]|\\[)\]]|$)|\n")
# Only signs, names and connecting words stand between two boxes, perhaps on two lines.
_BESIDE = re.compile(
    r"(?:[\s$,;&*()\[\]:=•-]|\d+[.)]|\\(?:text|quad|qquad|[,;:!()\[\]\\])|[{}]|\b(?:and|or|[A-Za-z](?:_\{?\w+\}?)?)(?![A-Za-z]))*"
)
_TAKEN_BACK = re.compile(
    r"\b(?:no|not|wait|actually|instead|rather|sorry|mistake|incorrect|wrong|correction|corrected|error|but)\b", re.I
)


def code_answer(text: str, *names: str) -> str:
    r"""Returns the program in a text: the last fenced block of Python that defines `names`, or all of the text.

    Without names it is a script, the last block that is called Python or parses as a program.

    >>> code_answer("Here it is:\n```python\ndef f(x):\n    return x\n```\nIt works.")
    'def f(x):\n    return x\n'
    """
    # A text that was copied from a file may begin with a mark of its encoding.
    text = text.removeprefix("\ufeff")
    program = chosen(list(fenced_blocks(text)), [name for name in names if name])
    return text if program is None else program.rstrip("\n") + "\n"


def last_boxed(text: str) -> str | None:
    r"""Returns what the last `\boxed{...}` of a text holds, or None if there is none or the last one is cut off.

    >>> last_boxed(r"So \boxed{1}, no: \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """
    boxes = _boxes(text)
    return boxes[-1][2] if boxes else None


def boxed_together(text: str) -> str | None:
    r"""Returns what the boxes of the last sentence hold, as a list: for a problem with several answers.

    >>> boxed_together(r"Try \boxed{7}. So $x=\boxed{1}$ or $x=\boxed{2}$.")
    '1, 2'
    """
    boxes = _boxes(text)
    if not boxes or boxes[-1][2] is None:
        return None
    together = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        between = text[box[1] : together[0][0]]
        # What is taken back, in the same sentence, is no answer.
        if box[2] is None or _TAKEN_BACK.search(between) or not (_BESIDE.fullmatch(between) or _same_sentence(between)):
            break
        together.insert(0, box)
    return ", ".join(str(content) for _, _, content in together)


def _same_sentence(between: str) -> bool:
    return _END.search(between) is None


def _boxes(text: str) -> list[tuple[int, int, str | None]]:
    """Returns where each box begins and ends, and what it holds; None for the last one if the text ends in it."""
    boxes: list[tuple[int, int, str | None]] = []
    for box in _BOX.finditer(text):
        start = box.end()
        if start == len(text):
            boxes.append((box.start(), start, None))
        elif text[start] == "{":
            inner = braced(text, start)
            end = len(text) if inner is None else start + len(inner) + 2
            # What stands in a box that is cut off is cut off too.
            boxes.append((box.start(), end, None if inner is None else inner.strip()))
            if inner is None:
                break
        # `\boxed 2` is TeX for `\boxed{2}`.
        elif text[start - 1].isspace() and (word := re.match(r"[^\s$.,]+", text[start:])):
            boxes.append((box.start(), start + word.end(), word.group()))
    # The text may end within the command itself.
    if _CUT.search(text):
        boxes.append((len(text), len(text), None))
    return boxes


def braced(text: str, start: int) -> str | None:
    """Returns what stands between the brace at `start` and the one that closes it; None if none does."""
    depth = 0
    escaped = False
    for at in range(start, len(text)):
        letter = text[at]
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : at]
    return None
