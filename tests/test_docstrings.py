"""The docstring of every public name: numpydoc's form, the parameters of the signature, an example that runs."""

import doctest
import inspect
import re
from dataclasses import fields, is_dataclass

import numpydoc.docscrape
import pytest
import torch

import tikhonet
import tikhonet.data
import tikhonet.hashing
import tikhonet.optim

MODULES = (tikhonet, tikhonet.optim, tikhonet.data, tikhonet.hashing)
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def found():
    """Every public class and function by its name, each once."""
    named = {}
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and value not in named.values():
                named[f"{module.__name__}.{name}"] = value
    return named


PUBLIC = found()
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}


FIELDS = {cls: {part.name for part in fields(cls)} for cls in CLASSES.values() if is_dataclass(cls)}
"""Attributes that dataclasses get as parameters; a function among them is no method."""


def members(cls):
    """The public methods and properties of a class that this package defines, by their names."""
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith("tikhonet"):
            continue
        member = inspect.getattr_static(cls, name)
        function = inspect.unwrap(getattr(member, "__func__", member))
        if isinstance(member, property) or (inspect.isfunction(function) and name not in FIELDS.get(cls, ())):
            yield name, member


def parameters(value):
    """What a caller may pass, by the names of numpydoc."""
    if inspect.isclass(value) and issubclass(value, Exception | tikhonet.Status):
        return {}
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    known = inspect.signature(value).parameters.values()
    return {stars.get(part.kind, "") + part.name: part for part in known}


def wrong_parameters(value, text):
    """What a docstring says of parameters and is not so."""
    documented = numpydoc.docscrape.NumpyDocString(text)["Parameters"]
    wanted = parameters(value)
    names = [part.name for part in documented]
    if names != list(wanted):
        return [f"Parameters are {names}, the signature has {list(wanted)}"]
    scope = vars(torch) | vars(inspect.getmodule(value)) | {name: getattr(tikhonet, name) for name in tikhonet.__all__}
    return [problem for part in documented if (problem := wrong_default(part, wanted[part.name], scope))]


def wrong_default(part, parameter, scope):
    if not part.type or not part.desc:
        return f"{part.name} needs a type and a sentence"
    kind, _, written = part.type.partition(", default=")
    given = parameter.default
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or given is parameter.empty:
        return f"{part.name} has no default" if written or "optional" in kind else None
    if not written:
        optional = kind.endswith(", optional") and (given is None or "factory" in repr(given))
        return None if optional else f"{part.name} must say default={given!r}"
    is_so = eval(written, {"torch": torch}, scope) == given
    return None if is_so else f"{part.name} has the default {given!r}, not {written}"


def returns_something(function):
    return function.__annotations__.get("return") not in ("None", None)


def wrong(value, text):
    """What is missing in a docstring, or not so."""
    parsed = numpydoc.docscrape.NumpyDocString(text)
    problems = [] if len(parsed["Summary"]) == 1 and parsed["Summary"][0].endswith(".") else ["no summary in one line"]
    if not isinstance(value, property):
        problems += wrong_parameters(value, text)
    if inspect.isroutine(value) and returns_something(value) and not (parsed["Returns"] or parsed["Yields"]):
        problems.append("no Returns")
    return problems


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_says_what_the_signature_has(name):
    value = PUBLIC[name]
    assert wrong(value, inspect.cleandoc(vars(value).get("__doc__") or value.__doc__)) == []


@pytest.mark.parametrize("name", CLASSES)
def test_every_method_and_property_has_a_docstring_of_its_signature(name):
    problems = {}
    for member_name, member in members(CLASSES[name]):
        value = member if isinstance(member, property) else getattr(CLASSES[name], member_name)
        if not inspect.ismethod(value) and inspect.isfunction(value):
            value = value.__get__(object())  # without self
        text = inspect.getdoc(getattr(CLASSES[name], member_name)) or ""
        if found := wrong(value, text):
            problems[member_name] = found
    assert problems == {}


@pytest.mark.parametrize("name", CLASSES)
def test_attributes_that_are_documented_are_there(name):
    cls = CLASSES[name]
    documented = numpydoc.docscrape.NumpyDocString(inspect.cleandoc(cls.__doc__))["Attributes"]
    known = set(dir(cls)) | {name for base in cls.__mro__ for name in getattr(base, "__annotations__", {})}
    for base in cls.__mro__:
        if base.__module__.startswith("tikhonet"):
            known |= set(re.findall(r"self\.(\w+)", inspect.getsource(base)))
    assert {part for entry in documented for part in entry.name.split(", ")} <= known | {"n_features_in_"}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of_a_docstring_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    value = PUBLIC[name]
    examples = doctest.DocTestParser().get_doctest(value.__doc__, {}, name, None, 0)
    assert examples.examples
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(examples)
    assert result.failed == 0, capsys.readouterr().out
