"""Modules off the list that a program reaches through one on it, where it writes that plainly: `json.codecs`.

Like every check by name this is no wall: it gives an honest status early. Child-side, standard library only.
"""

from __future__ import annotations

import ast
import sys
from types import ModuleType


def hidden_module(tree: ast.Module, allowed: frozenset[str]) -> str:
    """Returns the first module that the program takes from a module on the list and may not have, or ""."""
    modules = imported_modules(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if off_the_list(imported_value(node, alias), allowed):
                    return f"import of {node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute):
            owner = module_of(node.value, modules, allowed)
            if owner is not None and off_the_list(vars(owner).get(node.attr), allowed):
                return f"{owner.__name__}.{node.attr} at line {node.lineno}"
    return ""


def imported_modules(tree: ast.Module) -> dict[str, ModuleType]:
    """Returns the modules behind the names that the program binds by imports and by nothing else."""
    modules: dict[str, ModuleType | None] = {}
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds `a`, and `import a.b as c` binds `c` to `a.b`.
                top = alias.name.partition(".")[0]
                modules[alias.asname or top] = sys.modules.get(alias.name if alias.asname else top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                value = imported_value(node, alias)
                modules[alias.asname or alias.name] = value if isinstance(value, ModuleType) else None
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    return {name: module for name, module in modules.items() if module is not None and name not in bound}


def imported_value(node: ast.ImportFrom, alias: ast.alias) -> object:
    """Returns what `from module import name` takes from a module that is loaded, or None."""
    module = sys.modules.get(node.module or "")
    return None if module is None else vars(module).get(alias.name)


def module_of(node: ast.expr, modules: dict[str, ModuleType], allowed: frozenset[str]) -> ModuleType | None:
    """Returns the module on the list that an expression such as `json.decoder` is, or None."""
    if isinstance(node, ast.Name):
        return modules.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = module_of(node.value, modules, allowed)
        value = None if owner is None else vars(owner).get(node.attr)
        return value if isinstance(value, ModuleType) and not off_the_list(value, allowed) else None
    return None


def off_the_list(value: object, allowed: frozenset[str]) -> bool:
    """Returns whether a value is a module whose top package is not allowed."""
    return isinstance(value, ModuleType) and value.__name__.partition(".")[0] not in allowed
