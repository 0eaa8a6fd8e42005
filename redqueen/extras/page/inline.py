"""One file of HTML with the live page's own scripts and style inside it: it asks for nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from redqueen.store.files import to_json

STATIC = Path(__file__).with_name("static")
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:const|function|class) (\w+)", re.MULTILINE)


def document(title: str, body: str, data: object, entry: str) -> str:
    """Returns a page with this body and the script `entry` of the static files, which finds `data` as JSON."""
    scripts = [_read("theme.js"), _read("vendor/uPlot.iife.min.js"), bundle(entry)]
    # The policy names each script by its hash. A text that a model wrote cannot become one, whatever it says, and
    # nothing can be asked from anywhere.
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:"
    style = _read("vendor/uPlot.min.css") + _read("style.css")
    early, library, page = (f"<script>{script}</script>" for script in scripts)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style>",
            early,
            "</head>\n<body>",
            body,
            f'<script type="application/json" id="data">{_json(data)}</script>',
            library,
            page,
            "</body>\n</html>\n",
        ]
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of texts, which scrolls by itself where it is wider than the page."""
    body = "".join(_row("td", row) for row in rows)
    box = f'<div class="wide" tabindex="0" role="group" aria-label="{escape(head[0])}">'
    return f"{box}<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table></div>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def bundle(entry: str) -> str:
    """Returns a module of the static files, and all that it imports, as one classic script."""
    order: list[str] = []
    _visit(entry, order)
    statements = ['"use strict";', *(_wrapped(name) for name in order)]
    return "\n".join(statements)


def _visit(name: str, order: list[str]) -> None:
    """Adds the module to `order` after those that it imports."""
    if name in order:
        return
    for _, target in _IMPORT.findall(_read(name)):
        _visit(_resolve(name, target), order)
    order.append(name)


def _wrapped(name: str) -> str:
    """Returns a module as a function that is called at once and returns what the module exports."""
    # In one file there are no addresses to import from. Each module keeps a scope of its own, because two of them may
    # use one name for different things.
    text = _read(name)
    exports = ", ".join(_EXPORT.findall(text))
    text = _IMPORT.sub(lambda match: f"const {{{match[1]}}} = {_variable(_resolve(name, match[2]))};\n", text)
    text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
    return f"const {_variable(name)} = (() => {{\n{text}\nreturn {{ {exports} }};\n}})();"


def _resolve(name: str, target: str) -> str:
    """Returns the module that `name` means by `target`, relative to the static files."""
    return str((STATIC / name).parent.joinpath(target).resolve().relative_to(STATIC.resolve()))


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name)


def _read(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _json(data: object) -> str:
    # `</script>` and `<!--` would end or change the element that holds the data, also inside a string.
    # A text of the archive may hold half of a pair of surrogates, which UTF-8 has no bytes for; ASCII has escapes.
    return to_json(data).replace("<", "\\u003c")
