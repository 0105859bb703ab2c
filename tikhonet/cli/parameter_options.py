"""The parameters of the estimators as options: name, values, default and help are read from the estimators."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions, make_constraint

from tikhonet.cli.inputs import numbers
from tikhonet.cli.mistakes import Failure, OptionError, check_name, nearest, one_of
from tikhonet.cli.outputs import Answer
from tikhonet.data.tables import is_number
from tikhonet.estimators.classifier import BCDClassifier
from tikhonet.estimators.regressor import BCDRegressor
from tikhonet.hashing.hasher import BCDHasher

ESTIMATORS: dict[str, type[BaseEstimator]] = {
    "classification": BCDClassifier,
    "regression": BCDRegressor,
    "hash": BCDHasher,
}
SHORTER = {
    "hidden_layer_sizes": "hidden",
    "n_bits": "bits",
    "n_iter_no_change": "patience",
    "categorical_features": "categorical",
    "memory_budget": "memory",
}
"""Parameters whose options have names of their own."""
NO_OPTIONS = ("random_state", "n_jobs", "warm_start")
"""Parameters that have options in several commands, or of which a command has no use."""


@dataclass(frozen=True)
class Parameter:
    """A parameter that some of the estimators have, as an option."""

    name: str

    @property
    def option(self) -> str:
        return "--" + SHORTER.get(self.name, self.name).replace("_", "-")

    @property
    def tasks(self) -> list[str]:
        return [task for task, estimator in ESTIMATORS.items() if self.name in estimator._parameter_constraints]

    def allowed(self, *tasks: str) -> list[Any]:
        """The declared constraints of the estimators of these tasks, or of all."""
        return [one for task in tasks or self.tasks for one in ESTIMATORS[task]._parameter_constraints[self.name]]

    def words(self, *tasks: str) -> list[str]:
        """The words that it can be, in the order in which the estimator describes them."""
        known = {word for one in self.allowed(*tasks) if isinstance(one, StrOptions) for word in one.options}
        text = " ".join(part for task in tasks or self.tasks for part in self.described(task))
        return sorted(sorted(known), key=lambda word: f'{text}"{word}"'.index(f'"{word}"'))

    @property
    def number(self) -> type[int] | type[float] | None:
        kinds = [one.type for one in self.allowed() if isinstance(one, Interval)]
        return None if not kinds else int if all(issubclass(kind, Integral) for kind in kinds) else float

    @property
    def listed(self) -> bool:
        """Whether it takes several values, with commas between."""
        return "array-like" in self.allowed()

    def described(self, task: str) -> tuple[str, str]:
        """The type and the description that the estimator's docstring has of it."""
        text = inspect.getdoc(ESTIMATORS[task]) or ""
        found = re.search(rf"^ *{self.name} : (.+)\n((?:(?! *\w+ : ).+\n?)+)", text, flags=re.M)
        return (found[1], " ".join(found[2].split())) if found else ("", "")

    def default(self) -> str | bool:
        """The default as the help shows it."""
        values = {str(getattr(ESTIMATORS[task](), self.name)) for task in self.tasks}
        return "by the task" if len(values) > 1 else False if values <= {"None", "False"} else values.pop()

    def annotation(self) -> Any:
        """The option for the command: a flag, or text that `value` understands."""
        clause = re.split(r"[;:](?:\s|$)|\.(?:\s+[A-Z]|$)", self.described(self.tasks[0])[1])[0]
        tasks = "" if len(self.tasks) == len(ESTIMATORS) else f", for --task {' and '.join(self.tasks)}"
        words, text = self.words(), clause + tasks
        if "boolean" in self.allowed():
            name = f"{self.option}/--no-{self.option[2:]}" if words else self.option
            return Annotated[bool | None, typer.Option(name, help=f"{text}.", show_default=self.default())]
        form = {int: "N", float: "X", None: "NAME"}[self.number] if self.number or self.listed or not words else "WORD"
        if self.listed:
            form = f"{form},{form},..."
        if words and self.number is None and not self.listed:
            check, text = one_of(words), f"{text}: {', '.join(words)}"
        else:
            check, form = None, "|".join([*words, form])
        return Annotated[
            str | None,
            typer.Option(self.option, help=f"{text}.", callback=check, metavar=form, show_default=self.default()),
        ]

    def value(self, given: Any, task: str) -> Any:
        """The value for the estimator of a task; raise unless that allows it."""
        if task not in self.tasks:
            raise OptionError(self.option, f"is for {' and '.join(self.tasks)}, not for {task}")
        value = given
        if isinstance(given, str) and self.number and given not in self.words(task):
            if self.words(task) and not self.listed and not is_number(given):
                words = ", ".join(self.words(task))
                raise OptionError(
                    self.option, f"must be {words} or a number, got {given!r}{nearest(given, self.words(task))}"
                )
            several = numbers(self.option, given, self.number)
            plain = not self.listed or not np.ndim(getattr(ESTIMATORS[task](), self.name))
            value = several[0] if len(several) == 1 and plain else several
        elif isinstance(given, str) and self.listed and given not in self.words(task):
            value = [int(part) if re.fullmatch(r"-?\d+", part) else part for part in given.split(",")]
        elif isinstance(given, str) and self.words(task):
            check_name(given, self.words(task), self.option)
        rules = [make_constraint(one) for one in self.allowed(task)]
        if not any(rule.is_satisfied_by(value) for rule in rules):
            ranges = " or ".join(str(rule) for rule in rules if isinstance(rule, (Interval, StrOptions)))
            raise Failure(f"{self.option} must be {ranges}, got {given}", exit_code=2)
        return value


def is_option(parameter: Parameter) -> bool:
    """Whether the command line can say it: words, numbers, flags and names, but no objects."""
    simple = parameter.words() or parameter.number or any(one in ("boolean", str) for one in parameter.allowed())
    return bool(simple) and parameter.name not in NO_OPTIONS


PARAMETERS = {
    name: Parameter(name)
    for name in dict.fromkeys(name for estimator in ESTIMATORS.values() for name in estimator._parameter_constraints)
    if is_option(Parameter(name))
}


def with_parameters(command: Callable[..., Answer]) -> Callable[..., Answer]:
    """The command with an option for each parameter of the estimators in place of its `**parameters`."""
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    derived = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=parameter.annotation())
        for name, parameter in PARAMETERS.items()
    ]
    command.__signature__ = signature.replace(parameters=[*own, *derived])  # type: ignore[attr-defined]
    return command
