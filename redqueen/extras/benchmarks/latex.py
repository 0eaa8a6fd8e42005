"""Brings the text of a mathematical answer into one form, and splits lists of answers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# What a mathematical answer is made of: brackets, items, sides of a relation.
#
# The text is in one spelling (`spelling`). Only what stands outside of all brackets counts: in $f(x, y) = 3$ there is
# one item and one relation.

_OPENING = "([{"
_CLOSING = ")]}"
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)

RELATION = re.compile(r"\\(?:le|ge|ne|in|approx)(?![A-Za-z])|[<>=]")
OR = re.compile(r"\\text\s*\{\s*,?\s*or\s*\}|\\lor(?![A-Za-z])|(?<![A-Za-z\\])or(?![A-Za-z])")
AND = re.compile(
    r"\\text\s*\{\s*,?\s*and\s*\}|\\land(?![A-Za-z])|(?<![A-Za-z\\])and(?![A-Za-z])|[,;]|\\text\s*\{\s*[,;]\s*\}"
)
_LIST = re.compile(rf"{OR.pattern}|{AND.pattern}")
_SET = re.compile(r"\\(?:cup|cap|setminus)(?![A-Za-z])|\\mathbb\s*\{|\\emptyset(?![A-Za-z])")
_EITHER_SIGN = re.compile(r"\\pm(?![A-Za-z])")
_MOST_SIGNS = 4
_SUCH_THAT = re.compile(r"\\mid(?![A-Za-z])|[|:]|\\colon(?![A-Za-z])|\\text\s*\{\s*(?:such that|s\.t\.)\s*\}")
# What an answer is called: x, f(x), f(f(2)), P(X = 3), f^{-1}(x), a_{n}, AB, \angle ABC, [ABC], |AB|, \text{Area}.
_NAME = re.compile(
    r"(?:\\(?:angle|triangle|overline|measuredangle|mathbb|mathcal)\s*)?(?:m\s*\\angle\s*)?"
    r"(?:\{?[A-Z]{1,4}\}?|\\?[A-Za-z]|\\[a-z]+|\\text\s*\{[^{}]*\}|\|[A-Z]{2}\||\[[A-Z]{3,}\])"
    r"(?:_(?:\{[^{}]*\}|\w))?(?:\^\{?\\?[a-z*]+\}?|\^\{-1\}(?=\s*\())?(?:\s*\([^()]*(?:\([^()]*\)[^()]*)*\))?"
)
_FUNCTIONS = re.compile(r"\\(?:a?rc)?(?:sin|cos|tan|cot|sec|csc|ln|log|exp|pi|sqrt|infty|frac|lim|sum)(?![a-z])")


@dataclass(frozen=True, slots=True)
class Group:
    r"""Items between brackets, or a list without any: `opening` is one of "", `(`, `[` and `\{`."""

    opening: str
    closing: str
    items: tuple[str, ...]

    @property
    def pair(self) -> bool:
        """Whether it can be an interval."""
        return self.opening in ("(", "[") and self.closing in (")", "]") and len(self.items) == 2


def depths(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """Yields each sign or command with the number of brackets around it; a bracket counts as inside of itself."""
    depth = 0
    for token in _TOKEN.finditer(text):
        bare = token[0].lstrip("\\")
        if (bare and bare in _OPENING) or token[0] == "\\langle":
            depth += 1
        yield token, depth
        if (bare and bare in _CLOSING) or token[0] == "\\rangle":
            depth -= 1


def depth_of(text: str) -> int:
    """Returns how many brackets stand in each other at most."""
    return max((depth for _, depth in depths(text)), default=0)


def split(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Returns the parts of a text between the separators outside of all brackets, and these separators."""
    parts: list[str] = []
    separators: list[str] = []
    start = 0
    for token, depth in depths(text):
        found = separator.match(text, token.start())
        if depth == 0 and found and found.end() > token.start() >= start:
            parts.append(text[start : found.start()])
            separators.append(found[0])
            start = found.end()
    return [part.strip() for part in (*parts, text[start:])], separators


def enclosed(text: str) -> tuple[str, str, str] | None:
    """Returns the bracket that opens a text, what it holds, and the one that closes it; None if none does."""
    tokens = [(token, depth) for token, depth in depths(text) if not token[0].isspace()]
    if len(tokens) < 2 or any(depth < 1 for _, depth in tokens):
        return None
    first, last = tokens[0][0], tokens[-1][0]
    opening = {"(": "(", "[": "[", "\\{": "\\{", "{": "\\{", "\\langle": "("}.get(first[0])
    closing = {")": ")", "]": "]", "\\}": "\\}", "}": "\\}", "\\rangle": ")"}.get(last[0])
    # In (a)(b) the first bracket is closed before the end.
    if opening is None or closing is None or _closed_before(tokens):
        return None
    return opening, text[first.end() : last.start()].strip(), closing


def _closed_before(tokens: list[tuple[re.Match[str], int]]) -> bool:
    return any(depth == 1 and token[0].lstrip("\\") in (*_CLOSING, "rangle") for token, depth in tokens[:-1])


def group(text: str) -> Group | None:
    """Returns the items of a list, a set, a point or an interval; None for a text that is none of them."""
    around = enclosed(text)
    if around is not None:
        opening, inner, closing = around
        items = items_of(inner)
        if (len(items) > 1 or opening == "\\{") and not (opening == "\\{" and such_that(text)):
            return Group(opening, closing, items)
        return None
    items = items_of(text)
    return Group("", "", items) if len(items) > 1 else None


def items_of(text: str) -> tuple[str, ...]:
    r"""Returns the items of a list; one with $\pm$ stands for two."""
    items: list[str] = []
    for part in split(text, _LIST)[0]:
        items += _signs(part) if part else []
    return tuple(items)


def _signs(text: str) -> list[str]:
    parts = _EITHER_SIGN.split(text)
    if not 1 < len(parts) <= _MOST_SIGNS:
        return [text]
    readings = [parts[0]]
    for part in parts[1:]:
        readings = [reading + sign + part.lstrip() for reading in readings for sign in "+-"]
    return readings


def relation(text: str) -> tuple[list[str], list[str]] | None:
    """Returns the sides of a relation and its signs; None if it is none."""
    sides, signs = split(text, RELATION)
    return (sides, [sign.strip() for sign in signs]) if signs else None


def such_that(text: str) -> str | None:
    r"""Returns the condition of a set that is written as $\{x \mid x > 2\}$; None if it is no such set."""
    around = enclosed(text)
    if around is None or around[0] != "\\{":
        return None
    parts, signs = split(around[1], _SUCH_THAT)
    variable = relation(parts[0])
    named = is_name(variable[0][0] if variable else parts[0])
    return parts[1] if len(signs) == 1 and named and relation(parts[1]) else None


def is_set(text: str) -> bool:
    """Returns whether a text has signs of sets outside of all brackets."""
    return any(depth <= 1 and _SET.match(text, token.start()) for token, depth in depths(text))


def is_name(text: str) -> bool:
    """Returns whether a text is one name, which an answer may be given under, or a point of names as (x, y)."""
    around = enclosed(text)
    if around is not None and around[0] == "(":
        return all(map(is_name, items_of(around[1])))
    return bool(_NAME.fullmatch(text.strip())) and not _FUNCTIONS.match(text.strip())


# Writes the many spellings of a mathematical text as one: LaTeX for Unicode, one command for each sign.

_SIGNS = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": r"\div ",
    "±": r"\pm ", "∓": r"\mp ", "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ",
    "∞": r"\infty ", "∈": r"\in ", "∪": r"\cup ", "∩": r"\cap ", "∖": r"\setminus ", "∅": r"\emptyset ",
    "°": r"^{\circ}", "º": r"^{\circ}", "′": r"'", "∣": r"\mid ", "∨": r"\lor ", "∧": r"\land ", "⟨": r"\langle ",
    "⟩": r"\rangle ", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℚ": r"\mathbb{Q}", "ℕ": r"\mathbb{N}", "ℂ": r"\mathbb{C}", "ℓ": "l", "ħ": r"\hbar ",
    "¢": r"\text{ cents}", "€": "", "£": "", "¥": "", "…": r"\ldots ",
}  # fmt: skip
_GREEK = {"FINAL SIGMA": "sigma", "LAMDA": "lambda", "OMICRON": "o"}
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u00ad]")
_ROOT = re.compile(r"([√∛∜])\s*(\d+(?:\.\d+)?|\\?[A-Za-z]+(?![A-Za-z])|\{[^{}]*\}|\([^()]*\))")
_ROOTS = {"√": r"\sqrt", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]"}
_RAISED = re.compile("(?:[⁰¹²³⁴-⁹⁺⁻⁽⁾ⁿⁱ])+")
_LOWERED = re.compile("(?:[₀-₉₊₋₍₎ₐ-ₜ])+")

_ONE_COMMAND = {
    "leq": "le", "leqslant": "le", "leqq": "le", "geq": "ge", "geqslant": "ge", "geqq": "ge", "neq": "ne",
    "lt": "lt", "gt": "gt", "varepsilon": "epsilon", "varphi": "phi", "vartheta": "theta", "varrho": "rho",
    "varsigma": "sigma", "varkappa": "kappa", "varnothing": "emptyset", "infin": "infty", "simeq": "approx",
    "thickapprox": "approx", "doteq": "approx", "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom",
    "tbinom": "binom", "vee": "lor", "wedge": "land", "backslash": "setminus", "smallsetminus": "setminus",
    "lg": "log_{10}", "ast": "cdot", "bullet": "cdot", "ge": "ge", "tg": "tan",
    "ctg": "cot", "arctg": "arctan", "mbox": "text", "textrm": "text", "textnormal": "text", "textup": "text",
    "textsf": "text", "mathrm": "text", "mathsf": "text", "mathit": "text", "textit": "text", "textbf": "text",
    "mathbf": "text", "boldsymbol": "text", "bm": "text", "hbox": "text", "operatorname": "text",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?")
_NOTHING = re.compile(
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|rm|it|bf|phantom\{\}|hfill|allowbreak|left|right|middle"
    r"|[bB]igg?[lrm]?|large|Large|LARGE|huge|Huge)(?![A-Za-z])\s*\.?(?=[\s()\[\]{}|\\<>/0-9A-Za-z.+-]|$)"
)
_FUNCTION = re.compile(r"\\text\s*\{\s*(arc)?(sin|cos|tan|cot|sec|csc|ln|log|exp|sinh|cosh|tanh|lcm|gcd|max|min)\s*\}")
_PYTHON = re.compile(r"\b(?:np|numpy|math)\.(?=[a-z])")
# Upright letters that stand for no unit.
_LETTER = re.compile(r"\\text\s*\{\s*([abceijknopqruvwxyz])\s*\}")
# Of a subscript without braces TeX takes one sign, but people who do not write TeX mean all of x_12.
_SUBSCRIPT = re.compile(
    r"_\s*(?:(?:\\text\s*)?\{((?:[^{}]|\{[^{}]*\})*)\}|(\\[A-Za-z]+)|(\d(?!\d)|[A-Za-z](?![A-Za-z\d])))"
)
_NEGATIVE_POWER = re.compile(r"\^\s*-(\d+|[A-Za-z])")
# What TeX reads without braces, or with `choose` in place of them.
_ONE_SIGN = re.compile(
    r"(\\(?:sqrt\s*\[[^\[\]]*\]|(?:binom|hat|vec|bar|dot|ddot)(?![A-Za-z])))\s*([A-Za-z\d]|\\[A-Za-z]+)"
)
_BELOW = re.compile(r"(\\binom\{[^{}]*\})\s*([A-Za-z\d]|\\[A-Za-z]+)")
_CHOOSE = re.compile(r"(?:^|(?<!\\)\{)([^{}]*)\\choose(?![A-Za-z])([^{}]*)(?:\}|$)")
# What changes how an answer looks: a colour, a line below it.
_LOOK = re.compile(r"\\(?:(?:text)?color\s*\{[^{}]*\}|underline)\s*(?:\{((?:[^{}]|\{[^{}]*\})*)\})?")
# A subscript with one of these is a value, as in \\log_{\\frac{1}{2}}, and no name.
_VALUE = re.compile(r"\\(?:frac|sqrt|binom|to|rightarrow)(?![A-Za-z])|[\^+*/=<>-]")
_PRIMES = re.compile(r"\^\s*(?:\{\s*((?:\\prime\s*)+)\}|(\\prime(?![A-Za-z])))|('+)")
_REPEATING = re.compile(
    r"(\d*)\.(\d*)(?:\\(?:overline|bar|dot|overset\{\\cdot\})\s*(?:\{\s*(\d+)\s*\}|\s*(\d)))(?![\d.\\])"
)
_BRITISH = re.compile(r"(\d*)\.(\d*)\\dot\s*\{?(\d)\}?(\d*)\\dot\s*\{?(\d)\}?")
_AND_SO_ON = re.compile(r"(\d*\.\d*?)(?:(\d)\2{2,}|(\d{2,}?)\3+)\s*(?:\\l?dots[bc]?(?![a-z])|\\cdots|\.\.\.)")
# What people write who write no LaTeX.
_PLAIN = {
    "<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "+/-": r"\pm ", "+-": r"\pm ", "**": "^", "...": r"\ldots ",
}  # fmt: skip
_PLAIN_SIGNS = re.compile("|".join(map(re.escape, _PLAIN)))
_PLAIN_WORDS = re.compile(
    r"(?<![A-Za-z\\{])(pi|sqrt|theta|alpha|beta|gamma|lambda|sin|cos|tan|cot|sec|csc|log|ln|exp|arcsin|arccos|arctan)"
    r"(?![A-Za-z])"
)
_PLAIN_ROOT = re.compile(r"\\sqrt\s*\(([^()]*)\)")
_UNION = re.compile(r"(?<=[)\]])\s*U\s*(?=[(\[])")
_NUMBER_IN_TEXT = re.compile(r"\\text\s*\{\s*([+-]?\d[\d.,/ ]*)\s*\}")
_ALL_IN_TEXT = re.compile(r"\\text\s*\{([^{}]*[\d=<>][^{}]*)\}")
_TEXT = re.compile(r"\\text\s*\{[^{}]*\}")
_NUMBER_IN_LIST = re.compile(r"\b(or|and)\s+([+-]?\d(?:[\d.,/]*\d)?)")
_NO_TEXT = re.compile(r"\\text\s*\{\s*\}")
_SPOKEN_SIGN = re.compile(r"\\text\s*\{\s*(?:minus|negative)\s*\}(?=\s*[\w\\.(])")
_SPOKEN_POWER = re.compile(r"(?<=[\w)}])\s*\\text\s*\{\s*(squared|cubed)\s*\}")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z])|\{\s*o\s*\}|o(?![A-Za-z]))|\\degrees?(?![A-Za-z])")


def one_spelling(text: str) -> str:
    r"""Returns a text with one spelling of each sign.

    >>> one_spelling("x² ≤ ½"), one_spelling(r"\dfrac{1}{3} \leqslant \varepsilon")
    ('x^{2} \\le  \\frac{1}{2}', '\\frac{1}{3} \\le \\epsilon')
    >>> one_spelling(r"0.1\overline{6}"), one_spelling(r"52_{\text{8}}")
    ('\\frac{15}{90}', '52_{8}')
    """
    text = _LOOK.sub(lambda match: match[1] or "", _latex(text))
    text = _NOTHING.sub("", text)
    text = _COMMAND.sub(lambda match: "\\" + _ONE_COMMAND.get(match[1], match[1]), text)
    text = re.sub(r"\\lt(?![A-Za-z])", "<", re.sub(r"\\gt(?![A-Za-z])", ">", text))
    text = re.sub(r"\\lbrace(?![A-Za-z])\s*", r"\\{", re.sub(r"\\rbrace(?![A-Za-z])", r"\\}", text))
    text = re.sub(r"\\l?brack(?![A-Za-z])\s*", "[", re.sub(r"\\rbrack(?![A-Za-z])", "]", text))
    text = _FUNCTION.sub(lambda match: f"\\{match[1] or ''}{match[2]} ", text)
    text = _PYTHON.sub(lambda _: "\\", text)
    text = _NUMBER_IN_TEXT.sub(r"\1", text)
    if (whole := _ALL_IN_TEXT.fullmatch(text.strip())) is not None:
        text = whole[1]
    text = _from_words(text)
    text = re.sub(r"\\mathbb\s*([A-Z])", r"\\mathbb{\1}", text)
    text = _from_plain(re.sub(r"\\[lr]?vert(?![A-Za-z])", "|", text))
    text = _LETTER.sub(r"\1", text)
    text = _DEGREES.sub(lambda _: r"^{\circ}", text)
    text = re.sub(r"\\hbar(?![A-Za-z])", "h_{bar}", re.sub(r"\\ell(?![A-Za-z])", "l", text))
    text = _SUBSCRIPT.sub(lambda match: f"_{{{_plain(match[match.lastindex or 0])}}}", text)
    text = _NEGATIVE_POWER.sub(r"^{-\1}", text)
    text = _BELOW.sub(r"\1{\2}", _ONE_SIGN.sub(r"\1{\2}", _CHOOSE.sub(r"{\\binom{\1}{\2}}", text)))
    text = _PRIMES.sub(_prime, text)
    text = re.sub(r"(?<![A-Za-z\\])(?:infinity|inf)(?![A-Za-z])", r"\\infty", text)
    text = _BRITISH.sub(r"\1.\2\\overline{\3\4\5}", text)
    text = _AND_SO_ON.sub(lambda match: f"{match[1]}\\overline{{{match[2] or match[3]}}}", text)
    return _REPEATING.sub(_fraction, re.sub(r"\.\((\d+)\)", r".\\overline{\1}", text))


def _from_words(text: str) -> str:
    r"""Returns a text in which signs, and what a list has in $\text{ or 6}$, stand outside of words."""
    apart = _TEXT.sub(lambda words: _NUMBER_IN_LIST.sub(r"}\\text{\1} \2 \\text{", words[0]), text)
    apart = _SPOKEN_SIGN.sub("-", _NO_TEXT.sub("", apart) if apart != text else apart)
    return _SPOKEN_POWER.sub(lambda match: "^{2}" if match[1] == "squared" else "^{3}", apart)


def _from_plain(text: str) -> str:
    """Returns a text in which LaTeX takes the place of what people write without it: sqrt(2), pi, <=."""
    text = _PLAIN_SIGNS.sub(lambda match: _PLAIN[match[0]], text)
    text = _UNION.sub(lambda _: r"\cup ", text)
    return _PLAIN_ROOT.sub(r"\\sqrt{\1}", _PLAIN_WORDS.sub(r"\\\1 ", text))


def _latex(text: str) -> str:
    """Returns a text in which LaTeX takes the place of Unicode."""
    if text.isascii():
        return text
    text = _INVISIBLE.sub("", text)
    text = re.sub("(?:\\d\u0305)+", lambda match: f"\\overline{{{match[0][::2]}}}", text)
    text = _ROOT.sub(lambda match: f"{_ROOTS[match[1]]}{{{match[2].strip('{}')}}}", text)
    text = _RAISED.sub(lambda match: f"^{{{unicodedata.normalize('NFKC', match[0])}}}", text)
    text = _LOWERED.sub(lambda match: f"_{{{unicodedata.normalize('NFKC', match[0])}}}", text)
    text = "".join(map(_sign, text))
    # Letters of other alphabets of mathematics, and signs of full width.
    return unicodedata.normalize("NFKC", text).replace("−", "-")


def _sign(sign: str) -> str:
    if sign.isascii() or sign in _SIGNS:
        return _SIGNS.get(sign, sign)
    name = unicodedata.name(sign, "")
    if name.startswith("GREEK ") and " LETTER " in name:
        letter = name.rpartition(" LETTER ")[2]
        letter = _GREEK.get(letter, letter.lower())
        return f"\\{letter if 'SMALL' in name else letter.capitalize()} "
    if unicodedata.decomposition(sign).startswith("<fraction>"):
        above, _, below = unicodedata.normalize("NFKC", sign).partition("⁄")
        return f"\\frac{{{above}}}{{{below}}}"
    return sign


def _plain(subscript: str) -> str:
    """Returns a subscript without commands: whether it is upright, or a Greek letter, says nothing."""
    if _VALUE.search(subscript):
        return subscript
    return re.sub(r"\\text(?![A-Za-z])|[\\{}\s]", "", subscript)


def _prime(match: re.Match[str]) -> str:
    written = match[1] or match[2] or match[3]
    return "_{" + "prime" * (written.count("prime") or len(written)) + "}"


def _fraction(match: re.Match[str]) -> str:
    """Returns a decimal whose last digits repeat for ever as a fraction."""
    before, repeated = match[2], match[3] or match[4]
    below = int("9" * len(repeated)) * 10 ** len(before)
    above = int((match[1] or "0") + before + repeated) - int((match[1] or "0") + before)
    return f"\\frac{{{above}}}{{{below}}}"


# Between groups of three digits; two of the last kind are needed, for 1.234 is a decimal. A comma and a space, as in
# "100, 200", separate two numbers.
_NUMBER = r"[+-]?\d{1,3}(?:(?:(?:(?:,\\!|\{,\}|\\[,;:! ])\s*|~|,|\s+)\d{3})+(?:\.\d+)?|(?:\.\d{3}){2,})"
# The number begins the answer, or stands behind its name, and only a unit follows.
_THOUSANDS = re.compile(rf"(^|=\s*|\\approx\s*)({_NUMBER})(?=\s*(?:$|\\text|\\?%|\^|\\[,;: ]|[a-z]))")
# In "6,764, 10,945" a space follows the commas between numbers.
_THOUSANDS_IN_LIST = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?=\s*(?:$|[,;]\s|\\|\$|and|or))")
_SCIENTIFIC = re.compile(r"(?<![A-Za-z\\])(\d+(?:\.\d*)?|\.\d+)\s*[eE]([+-]?\d+)(?![A-Za-z\d])")
_POINT_AT_END = re.compile(r"(\d)\.(?![\d\\.])")
_SPACES = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|\\thinspace(?![A-Za-z])|~|\s+")
# Signs around formulas. The \[ in \\[4pt] is not one of them: it is a space below a row.
_DOLLARS = re.compile(r"\\?\$|(?<=\\\\)\s*\[[^\[\]]*\]|(?<!\\)\\[()\[\]]")
_BEFORE = re.compile(r"(?:=|\\approx(?![A-Za-z])|\\equiv(?![A-Za-z])|\\therefore(?![A-Za-z])|:)\s*")
_AROUND = re.compile(rf"^(?:{_SPACES.pattern})+|(?:{_SPACES.pattern}|[.,;])+$")
_COMMAS = re.compile(r"[,;]|\\text\s*\{\s*(?:[,;]\s*)?(?:and|or)?\s*\}|(?<=\s)(?:and|or)(?=\s)")


def normal(text: str) -> str:
    r"""Returns an answer in one spelling, without dollars, signs around it, and commas between thousands.

    >>> normal(r"$= \dfrac{1}{2}$.")
    '\\frac{1}{2}'
    >>> normal("1,000,000"), normal("4.5e33")
    ('1000000', '4.5 \\times 10^{33}')
    """
    text = _spelled(text)
    text = _THOUSANDS.sub(lambda match: match[1] + _digits(match[2]), text)
    text = _POINT_AT_END.sub(r"\1", text)
    return _SCIENTIFIC.sub(r"\1 \\times 10^{\2}", text).strip()


def _spelled(text: str) -> str:
    text = one_spelling(_DOLLARS.sub("", text))
    text = _AROUND.sub("", text)
    return _AROUND.sub("", _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text)


def _digits(number: str) -> str:
    """Returns a number without what stands between its groups of digits."""
    if number.count(".") > 1:
        return number.replace(".", "")
    return re.sub(r"[^\d.+-]", "", number)


def without_thousands(text: str) -> str:
    """Returns a list without the commas between thousands, as far as they differ from those between its items.

    >>> without_thousands("6,764, 10,945")
    '6764, 10945'
    """
    return _THOUSANDS_IN_LIST.sub(lambda match: match[0].replace(",", ""), text)


def key(text: str) -> str:
    """Returns a text that is the same for answers that differ in white space only."""
    return _SPACES.sub("", normal(text))


def split_answers(text: str) -> tuple[str, ...]:
    r"""Returns the answers in a list that is separated by commas, `and` or `or`, outside of all brackets.

    >>> split_answers(r"$(1,2), (3,4)$ and $5$")
    ('(1,2)', '(3,4)', '5')
    >>> split_answers(r"\{1, 2\}")
    ('1', '2')
    """
    text = _DOLLARS.sub("", text).strip()
    around = enclosed(text)
    # Braces around everything make a set: its members are meant.
    if around is not None and around[0] == "\\{":
        text = around[1]
    return tuple(filter(None, split(text, _COMMAS)[0]))


def given_answers(text: str) -> tuple[str, ...]:
    r"""Returns the answers that a text gives: `split_answers`, also of $x \in \{1, 2\}$ and of $\pm 1$.

    >>> given_answers(r"x \in \{5, 1\}"), given_answers(r"x = \pm 2")
    (('5', '1'), ('x = +2', 'x = -2'))
    """
    text = _spelled(text)
    found = relation(text)
    if found is not None and len(found[1]) == 1 and all(map(is_name, items_of(found[0][0]))):
        members = group(found[0][1])
        if members is not None and members.opening == "\\{":
            return members.items
    around = enclosed(text)
    return items_of(around[1] if around is not None and around[0] == "\\{" else text)


def are_several(answers: Sequence[str]) -> bool:
    """Returns whether references ask for more than one answer; 58,500 is one."""
    return len([part for answer in answers for part in given_answers(normal(answer))]) > 1
