"""The small mistakes that the functions of a module could have: one change of its syntax each."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

Place: TypeAlias = tuple[str, int]
"""A function: its qualified name and the first line, which are the same before and after."""
Change: TypeAlias = tuple[str, ast.AST]

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
_COMPLETE = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
"""Comparisons whose other form is their negation: negating them as well adds nothing."""
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult},
    **{ast.Div: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
    **{ast.LShift: ast.RShift, ast.RShift: ast.LShift},
}
_DROPPED = "dropped "
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Mutant(NamedTuple):
    """One change of one function: the `variant`th that a node of its module allows."""

    module: str
    line: int
    what: str
    function: Place
    position: int
    variant: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.what}"


def mutants_of(module: str, source: str) -> list[Mutant]:
    """List the changes that the functions of a module allow, in the order of their lines."""
    tree = ast.parse(source)
    inside = dict(_inside_functions(tree))
    functions = (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    ends = {end for function in functions for end in _ends(function.body)}
    return sorted(
        Mutant(module, _line_of(node), what, inside[node], index, variant)
        for index, node in enumerate(ast.walk(tree))
        if node in inside
        for variant, (what, _) in enumerate(_changes(node))
        if not (node in ends and what.startswith(_DROPPED))
    )


def mutated(mutant: Mutant, source: str) -> types.CodeType:
    """Compile a module with the one change."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[mutant.position]
    _, changed = list(_changes(node))[mutant.variant]
    whole = cast("ast.Module", _Replacing(node, changed).visit(tree))
    return compile(ast.fix_missing_locations(whole), mutant.module, "exec", dont_inherit=True)


def _line_of(node: ast.AST) -> int:
    """Return the first line of a node; some kinds have only parts that have lines."""
    return min(one.lineno for one in ast.walk(node) if isinstance(one, ast.expr | ast.stmt))


def _inside_functions(tree: ast.AST, name: str = "") -> Iterator[tuple[ast.AST, Place]]:
    """Yield what a call of a function evaluates, with the place of the outermost function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            place = name + node.name, min(one.lineno for one in (node, *node.decorator_list))
            for statement in node.body:
                yield from ((one, place) for one in _evaluated(statement))
        elif isinstance(node, ast.ClassDef):
            yield from _inside_functions(node, f"{name}{node.name}.")
        elif isinstance(node, ast.stmt):
            yield from _inside_functions(node, name)


def _ends(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the last returns of None or False: without them a function would return None."""
    match body:
        case [*_, ast.Return(value=None | ast.Constant(value=None | False)) as last]:
            yield last
        case [*_, ast.If(body=one, orelse=other)]:
            yield from (*_ends(one), *_ends(other))
        case [*_, ast.Match(cases=cases)]:
            yield from (end for case in cases for end in _ends(case.body))
        case _:
            pass


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for field, value in ast.iter_fields(node):
        if field not in {"annotation", "returns"}:
            children = cast("list[object]", value) if isinstance(value, list) else [value]
            for child in children:
                if isinstance(child, ast.AST):
                    yield from _evaluated(child)


def _changes(node: ast.AST) -> Iterator[Change]:
    """Yield what a node can be replaced with, and how that reads."""
    for changed in _replacements(node):
        yield f"{_text(node)} -> {_text(changed)}", changed
    if _can_be_dropped(node):
        # What is never run is compiled still: a generator stays one, and a name stays local.
        never = ast.If(test=ast.Constant(value=False), body=[cast("ast.stmt", node)], orelse=[])
        yield _DROPPED + _text(node), ast.copy_location(never, node)


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    yield from _with_another_sign(node)
    yield from _with_tests_negated(node)
    match node:
        case ast.Return(value=ast.Constant(value=value) as constant):
            yield _with(node, value=_with(constant, value=_another(value)))
        case _:
            pass


def _with_another_sign(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            yield from _compared(node)
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _CALCULATED:
            yield _with(node, op=_CALCULATED[type(op)]())
        case _:
            pass


def _with_tests_negated(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from (_with(node, test=negated) for negated in _negated(test))
        case ast.match_case(guard=ast.expr() as guard):
            yield from (_with(node, guard=negated) for negated in _negated(guard))
        case ast.comprehension(ifs=tests):
            for n, test in enumerate(tests):
                for negated in _negated(test):
                    yield _with(node, ifs=[*tests[:n], negated, *tests[n + 1 :]])
        case _:
            pass


def _negated(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the negation of a test, unless another change of the test is that already."""
    match test:
        case ast.Compare(ops=[op]) if isinstance(op, _COMPLETE):
            pass
        case ast.UnaryOp(op=ast.Not()):
            pass
        case _:
            yield ast.copy_location(ast.UnaryOp(op=ast.Not(), operand=test), test)


def _compared(node: ast.Compare) -> Iterator[ast.AST]:
    for n, op in enumerate(node.ops):
        yield _with(node, ops=[*node.ops[:n], _COMPARED[type(op)](), *node.ops[n + 1 :]])
    for n, side in enumerate(node.comparators):
        if isinstance(side, ast.Constant) and type(side.value) is int:
            more = _with(side, value=side.value + 1)
            yield _with(node, comparators=[*node.comparators[:n], more, *node.comparators[n + 1 :]])


def _another(value: object) -> object:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return "" if value else "changed"
        case None:
            return True
        case _:
            return None


def _can_be_dropped(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Return() | ast.Continue() | ast.Break() | ast.AugAssign():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return False
        case ast.Expr(value=value):
            return not isinstance(value, ast.Constant)
        case _:
            return False


def _with(node: ast.AST, **changed: Any) -> Any:
    fields = {**dict(ast.iter_fields(node)), **changed}
    return ast.copy_location(type(node)(**fields), node)


def _text(node: ast.AST) -> str:
    """Write a node on one short line: of a compound statement, its head."""
    match node:
        case ast.comprehension(ifs=tests):
            text = f"if {' if '.join(map(ast.unparse, tests))}"
        case ast.match_case(guard=ast.expr() as guard):
            text = f"case if {ast.unparse(guard)}"
        case _:
            text = ast.unparse(node)
    head = text.splitlines()[0]
    return head if len(head) <= 100 else f"{head[:97]}..."


class _Replacing(ast.NodeTransformer):
    def __init__(self, node: ast.AST, changed: ast.AST) -> None:
        self._node = node
        self._changed = changed

    def visit(self, node: ast.AST) -> Any:
        # What the change was made of stands in it unchanged.
        return self._changed if node is self._node else self.generic_visit(node)
