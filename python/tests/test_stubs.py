"""The stubs say what the binary has: names, parameters, defaults."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import bentpipe
from bentpipe import _bentpipe

STUBS = ast.parse((Path(bentpipe.__file__).parent / "_bentpipe.pyi").read_text())
# What Python gives every class, and what PyO3 adds to its own.
GENERAL = {"__doc__", "__module__", "__weakref__", "__qualname__", "__new__", "__repr__", "__bases__"}


def parameters(function: ast.FunctionDef) -> list[tuple[str, str | None]]:
    """Names and defaults, without self and cls."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults = [None] * (len(arguments) - len(function.args.defaults)) + [ast.unparse(at) for at in function.args.defaults]
    return [(argument.arg, default) for argument, default in zip(arguments, defaults) if argument.arg not in ("self", "cls")]


def real_parameters(function: object) -> list[tuple[str, str | None]]:
    """The same of something that is called."""
    real = inspect.signature(function).parameters.values()
    empty = inspect.Parameter.empty
    return [(at.name, None if at.default is empty else repr(at.default)) for at in real if at.name not in ("self", "cls")]


def stubs_of(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    return {at.name: at for at in body if isinstance(at, (ast.FunctionDef, ast.ClassDef))}


def test_the_module_has_what_the_stubs_say_and_no_more():
    real = {name for name in dir(_bentpipe) if not name.startswith("__")}
    assert real == set(stubs_of(STUBS.body))
    assert _bentpipe.__version__ == bentpipe.__version__


def test_functions_have_the_parameters_of_the_stubs():
    functions = {name: stub for name, stub in stubs_of(STUBS.body).items() if isinstance(stub, ast.FunctionDef)}
    assert len(functions) > 5
    for name, stub in functions.items():
        assert real_parameters(getattr(_bentpipe, name)) == parameters(stub), name


def test_classes_have_the_members_of_the_stubs():
    for name, stub in stubs_of(STUBS.body).items():
        if not isinstance(stub, ast.ClassDef):
            continue
        real = getattr(_bentpipe, name)
        if issubclass(real, Exception):
            assert real.__bases__[0].__name__ == stub.bases[0].id
            continue
        members = stubs_of(stub.body)
        assert set(vars(real)) - GENERAL == set(members) - GENERAL, name
        for member, function in members.items():
            value = vars(real)[member]
            is_property = any(getattr(at, "id", getattr(at, "attr", None)) in ("property", "setter") for at in function.decorator_list)
            assert inspect.isgetsetdescriptor(value) == is_property, f"{name}.{member}"
            if not is_property and not member.startswith("__"):
                assert real_parameters(value) == parameters(function), f"{name}.{member}"
        if "__new__" in members:
            assert real_parameters(real) == parameters(members["__new__"]), name
