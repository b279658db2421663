"""The texts that expressions of the package may have, found without running it: for the page that lists all errors."""

from __future__ import annotations

import ast
import functools
import itertools
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["PACKAGE", "VALUE", "Package", "Scope", "name_of", "nodes_of"]

PACKAGE: Final = Path(__file__).resolve().parents[1] / "dataflow_model"
VALUE: Final = "…"
"""Stands for what is known only when the program runs."""
_DEEPEST: Final = 4
"""So many calls, or names for names, are followed at most."""


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a module, its root first; parsing and walking take seconds in all."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@attrs.frozen(eq=False)
class Scope:
    """Where an expression stands.

    Attributes:
        path: the module.
        function: the innermost function around it; `None` outside of functions.
        arguments: what the function is given by name, where one call of it is looked at, with where that stands.
    """

    path: Path
    function: ast.FunctionDef | None
    arguments: Mapping[str, tuple[ast.expr, Scope]] = attrs.field(factory=dict)


@attrs.frozen(eq=False)
class Package:
    """What is written in the package.

    Attributes:
        calls: every call, by the name of what is called.
        functions: by name.
        fields: what the fields of classes are given by name, in every call of a class.
        constants: by name and module, what is assigned outside of functions.
    """

    calls: dict[str, list[tuple[Scope, ast.Call]]] = attrs.field(factory=lambda: defaultdict(list))
    functions: dict[str, list[Scope]] = attrs.field(factory=lambda: defaultdict(list))
    fields: dict[str, list[tuple[ast.expr, Scope]]] = attrs.field(factory=lambda: defaultdict(list))
    constants: dict[str, dict[Path, list[ast.expr]]] = attrs.field(factory=lambda: defaultdict(dict))

    @classmethod
    def read(cls) -> Self:
        """Read all modules."""
        package = cls()
        classes: dict[str, list[str]] = {}
        for path in sorted(PACKAGE.rglob("*.py")):
            tree = nodes_of(path)[0]
            package._enter(tree, Scope(path, None))
            for name, values in _assigned(tree).items():
                package.constants[name][path] = values
            for node in nodes_of(path):
                if isinstance(node, ast.ClassDef):
                    classes[node.name] = [part.target.id for part in node.body if _is_field(part)]  # type: ignore[attr-defined]
        for name, fields in classes.items():
            for scope, call in package.calls.get(name, ()):
                for field, value in _given(call, fields):
                    package.fields[field].append((value, scope))
        return package

    def _enter(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                inside = Scope(scope.path, child)
                self.functions[child.name].append(inside)
                self._enter(child, inside)
                continue
            if isinstance(child, ast.Call):
                self.calls[name_of(child.func)].append((scope, child))
            self._enter(child, scope)

    # ------------------------------------------------------------------------------------------------------ calls

    def bindings(
        self, scope: Scope, expressions: Sequence[ast.expr], line: int, depth: int = 0
    ) -> Iterator[tuple[Scope, Path, int]]:
        """Yield a scope with arguments for each call that gives some expressions their texts, and where the call is.

        That is the scope itself, where the expressions depend on no parameter of the function around them.
        """
        calls = list(self._calls_of(scope)) if depth < _DEEPEST and _parameters_in(expressions, scope) else []
        if not calls:
            yield scope, scope.path, line
        for caller, call in calls:
            given = dict(_given(call, _taken(scope.function)))
            passed = list(given.values())
            for outer, origin, at in self.bindings(caller, passed, call.lineno, depth + 1):
                arguments = {name: (value, outer) for name, value in given.items()}
                yield Scope(scope.path, scope.function, {**_defaults(scope), **arguments}), origin, at

    def _calls_of(self, scope: Scope) -> Iterator[tuple[Scope, ast.Call]]:
        assert scope.function is not None  # noqa: S101 - it has a parameter
        name = scope.function.name
        if name.startswith("__"):
            return
        for caller, call in self.calls.get(name, ()):
            is_visible = caller.path == scope.path or not (name.startswith("_") or self._is_ambiguous(call))
            if is_visible and caller.function is not scope.function and _fits(call, scope):
                yield caller, call

    def _is_ambiguous(self, call: ast.Call) -> bool:
        """Return whether a call is of a method of which several modules define one of that name."""
        is_of_method = isinstance(call.func, ast.Attribute)
        return is_of_method and len({scope.path for scope in self.functions[name_of(call.func)]}) > 1

    # ------------------------------------------------------------------------------------------------------ texts

    def texts(self, node: ast.expr, scope: Scope, depth: int = 0) -> list[str]:
        """Return the texts that an expression may have, with `VALUE` for what is not known before."""
        if depth > _DEEPEST:
            return [VALUE]
        match node:
            case ast.Constant(value=str() as text):
                return [" ".join(text.split()) if text.strip() else text]
            case ast.Constant(value=None):
                return []
            case ast.JoinedStr():
                parts = [self._part(part, scope, depth) for part in node.values]
                return ["".join(parts).replace(VALUE * 2, VALUE)]
            case ast.BinOp(op=ast.Add()):
                sides = (self.texts(side, scope, depth) for side in (node.left, node.right))
                return ["".join(pair) for pair in itertools.product(*sides)]
            case ast.IfExp():
                return self._all([(node.body, scope), (node.orelse, scope)], depth)
            case ast.BoolOp(op=ast.Or()):
                return self._all([(value, scope) for value in node.values], depth)
            case ast.Name():
                return self._named(node.id, scope, depth)
            case ast.Attribute() if node.attr in self.fields:
                return self._all(self.fields[node.attr], depth + 1)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                return self._returned(name, depth)
            case _:
                return [VALUE]

    def _part(self, part: ast.expr, scope: Scope, depth: int) -> str:
        """Return a part of an f-string; what it is given is known where one call of the function is looked at."""
        if isinstance(part, ast.Constant):
            return str(part.value)
        assert isinstance(part, ast.FormattedValue)  # noqa: S101 - there is nothing else
        if isinstance(part.value, ast.Name) and part.conversion == -1 and part.value.id in scope.arguments:
            texts = self._named(part.value.id, scope, depth)
            return texts[0] if len(texts) == 1 else VALUE
        return VALUE

    def _named(self, name: str, scope: Scope, depth: int) -> list[str]:
        if name in scope.arguments:
            value, outer = scope.arguments[name]
            return self.texts(value, outer, depth + 1)
        local = {} if scope.function is None else _assigned(scope.function)
        if name in local:
            return self._all([(value, scope) for value in local[name]], depth + 1)
        if name in _parameters(scope.function):
            return [VALUE]
        modules = self.constants.get(name, {})
        modules = {scope.path: modules[scope.path]} if scope.path in modules else modules  # else it is imported
        return self._all(
            [(value, Scope(path, None)) for path, values in modules.items() for value in values], depth + 1
        )

    def _returned(self, name: str, depth: int) -> list[str]:
        """Return the texts that a function may return."""
        returned = [
            (node.value, scope)
            for scope in self.functions[name]
            for node in ast.walk(scope.function)  # type: ignore[arg-type] # it has one
            if isinstance(node, ast.Return) and node.value is not None
        ]
        return self._all(returned, depth + 1)

    def _all(self, values: Sequence[tuple[ast.expr, Scope]], depth: int) -> list[str]:
        texts = dict.fromkeys(text for value, scope in values for text in self.texts(value, scope, depth))
        return list(texts) or [VALUE]


def name_of(function: ast.expr) -> str:
    """Return the last part of the name of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _parameters(function: ast.FunctionDef | None) -> list[str]:
    if function is None:
        return []
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _taken(function: ast.FunctionDef | None) -> list[str]:
    """Return the parameters that a caller gives."""
    parameters = _parameters(function)
    return parameters[1:] if parameters[:1] in (["self"], ["cls"]) else parameters


def _fits(call: ast.Call, scope: Scope) -> bool:
    """Return whether a call gives all that a function needs; otherwise it calls another one of the same name."""
    needed = set(_taken(scope.function)) - set(_defaults(scope))
    return needed <= {name for name, _ in _given(call, _taken(scope.function))}


def _defaults(scope: Scope) -> dict[str, tuple[ast.expr, Scope]]:
    """Return the defaults of a function's parameters."""
    assert scope.function is not None  # noqa: S101 - it has been called
    arguments, outside = scope.function.args, Scope(scope.path, None)
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    keywords = zip((argument.arg for argument in arguments.kwonlyargs), arguments.kw_defaults, strict=True)
    return {name: (value, outside) for name, value in (*pairs, *keywords) if value is not None}


def _parameters_in(expressions: Sequence[ast.expr], scope: Scope) -> bool:
    """Return whether the texts of expressions are those that the function around them is given."""
    known = set(_parameters(scope.function)) - {"self", "cls"}
    for expression in expressions:
        match expression:
            case ast.Name(id=name) if name in known:
                return True
            case ast.JoinedStr(values=parts):
                plain = (part for part in parts if isinstance(part, ast.FormattedValue) and part.conversion == -1)
                if any(isinstance(part.value, ast.Name) and part.value.id in known for part in plain):
                    return True
            case ast.BinOp(left=left, right=right):
                if _parameters_in([left, right], scope):
                    return True
            case ast.BoolOp(values=values):
                if _parameters_in(values, scope):
                    return True
            case _:
                pass
    return False


def _given(call: ast.Call, names: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a call gives to parameters or fields of these names, in this order."""
    yield from zip(names, (value for value in call.args if not isinstance(value, ast.Starred)), strict=False)
    yield from (
        (keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None and keyword.arg in names
    )


def _is_field(part: ast.stmt) -> bool:
    return isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)


@functools.cache
def _assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what the names of a scope are given, without those of functions inside it."""
    values: dict[str, list[ast.expr]] = defaultdict(list)
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    values[target.id].append(node.value)
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
    return values
