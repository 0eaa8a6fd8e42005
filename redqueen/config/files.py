"""Files of settings that people write: TOML or YAML, with sections as in `redqueen keys`."""

from __future__ import annotations

import json
import textwrap
import tomllib
from collections.abc import Iterable
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from redqueen.base.optional import require
from redqueen.base.plain_files import read_plain_text
from redqueen.config import Config, ConfigError
from redqueen.config.keys import describe, flat

ENDINGS = (".toml", ".yaml", ".yml")
WIDTH = 100
_MOST_BYTES = 1 << 20
_MOST_VALUES = 10_000
_LEVELS = 4
"""A file has sections, a section settings, and a setting may be a list of texts."""
_TOO_DEEP = "it is nested too deeply: write sections, and a value or a list of values for each setting in them"


def is_settings(file: Path) -> bool:
    """Returns whether a file's name is one of settings, and not of a run's config.json."""
    return file.suffix in ENDINGS


def read_settings(file: Path) -> dict[str, Any]:
    """Returns the settings in a file by their keys, such as "learning.lr"; it may also have "recipe" and "matched".

    Raises ConfigError if it cannot be read, MissingLibraryError if YAML needs a library that is not installed.
    """
    try:
        text = read_plain_text(file, _MOST_BYTES)
        data = tomllib.loads(text) if file.suffix == ".toml" else _yaml(file, text)
        _check_size(data)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text: save it in that encoding, uncompressed") from None
    except ValueError as error:
        # Python's reader says of a key that is written twice only that its value cannot be overwritten.
        said = " ".join(str(error).split()).replace("Cannot overwrite a value", "A key is written twice")
        raise ConfigError(f"{file}: {said}") from error
    except RecursionError:
        raise ConfigError(f"{file}: {_TOO_DEEP}") from None
    if not isinstance(data, dict):
        example = "[learning] and lr = 1e-4" if file.suffix == ".toml" else "learning: and below it, indented, lr: 1e-4"
        raise ConfigError(f"{file} holds no settings: write sections, such as {example}")
    return dict(flat(cast("dict[str, Any]", data)))


def _yaml(file: Path, text: str) -> Any:
    yaml = require("yaml", "train", f"{file.name} is YAML, which")

    class OnceEach(yaml.SafeLoader):
        """Refuses a key that is written twice, of which the library would take the last."""

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            written: set[Any] = set()
            for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
                if (key.tag, key.value) in written:
                    problem = f"'{key.value}' is written twice: write it once"
                    raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
                # Several mappings may be merged into one.
                if key.tag != "tag:yaml.org,2002:merge":
                    written.add((key.tag, key.value))
            return node

    try:
        return yaml.load(text, OnceEach)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{where}{error.problem}") from error
    except yaml.YAMLError as error:
        raise ValueError(error) from error


def _check_size(data: Any) -> None:
    """Raises ValueError if data hold more than settings do: a name of YAML may stand in itself, or for thousands."""
    level = [data]
    for _ in range(_LEVELS):
        level = list(islice(chain.from_iterable(map(_inside, level)), _MOST_VALUES + 1))
        if len(level) > _MOST_VALUES:
            raise ValueError(f"it holds more than {_MOST_VALUES:,} values")
    if level:
        raise ValueError(_TOO_DEEP)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def write_settings(config: Config, file: Path) -> None:
    """Writes all settings with what each means; those that differ from the defaults are set, the others are comments.

    Raises OSError if the file is there or cannot be written.
    """
    toml = file.suffix == ".toml"
    lines = [
        "# Settings of a run. Train with them:",
        f"#     redqueen train --config {file.name}",
        "# A line like #lr = 0.1 is a setting at its default: take the # away and change it.",
        "# What stands on the command line as KEY=VALUE wins over this file.",
        "",
        _assigned("recipe", config.recipe, toml=toml),
    ]
    defaults = Config()
    section = ""
    for key in describe(Config):
        own, _, field = key.name.rpartition(".")
        if own != section:
            section = own
            lines += ["", f"[{own}]" if toml else f"{own}:"]
        setting = attrgetter(key.name)
        value = setting(config)
        inset = "  " if own and not toml else ""
        lines += ["", *(f"{inset}# {line}" for line in textwrap.wrap(key.meaning, WIDTH))]
        mark = "#" if value == setting(defaults) else ""
        lines.append(f"{inset}{mark}{_assigned(field, value, toml=toml)}")
    with file.open("x", encoding="utf-8") as opened:
        opened.write("\n".join(lines) + "\n")


def _assigned(name: str, value: Any, *, toml: bool) -> str:
    # TOML has no word for a missing value. Texts, numbers and lists are written alike in JSON and in both formats.
    text = '"none"' if value is None and toml else json.dumps(list(value) if isinstance(value, tuple) else value)
    return f"{name} = {text}" if toml else f"{name}: {text}"
