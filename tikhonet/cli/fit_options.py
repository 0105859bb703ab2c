"""The parameters of the estimators as options of `tikhonet fit`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tikhonet.cli.names import one_of
from tikhonet.descent.devices import check_device

CLASSIFIER_HEADS = ("logistic", "svm", "ridge", "trained")
REGRESSOR_HEADS = ("ridge", "trained")
CLASSIFIER_LOSSES = ("squared", "huber", "softmax", "squared_hinge")
REGRESSOR_LOSSES = ("squared", "huber")


def numbers(option: str, text: str, kind: type[int] | type[float]) -> list[int] | list[float]:
    """`200,200` as numbers."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise typer.BadParameter(f"must be {what} with commas between, got {text!r}", param_hint=option) from None


def widths(text: str) -> list[int]:
    found = [int(width) for width in numbers("--hidden", text, int)]
    if min(found) < 1:
        raise typer.BadParameter(f"must be widths of at least 1, got {text!r}", param_hint="--hidden")
    return found


def device(name: str) -> str:
    try:
        return check_device(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def choice(words: str, *known: str, default: str | None = None) -> Any:
    """An option with these values; `default` says what is done where there is none."""
    text = f"{words}: {', '.join(known)}."
    return typer.Option(help=text, callback=one_of(*known), metavar="WORD", show_default=default or True)


def count(words: str, default: str | None = None) -> Any:
    return typer.Option(help=words, min=1, metavar="N", show_default=default or True)


def number(words: str) -> Any:
    return typer.Option(help=words, metavar="X")


Task = Annotated[
    str | None, choice("What is learned", "classification", "regression", "hash", default="by y: one of the first two")
]
Hidden = Annotated[
    str | None, typer.Option(help="Widths of the hidden layers.", metavar="N,N,...", show_default="by the task")
]
Skip = Annotated[bool, typer.Option("--skip", help="Identity edges between layers of one width.")]
Constraint = Annotated[str | None, choice("The set of each weight matrix", "l1", "l2", "frobenius", "nonnegative")]
Radius = Annotated[float, number("That of the ball.")]
Sparsity = Annotated[
    float | None, typer.Option(help="The share of weights that may be nonzero.", metavar="X", show_default="all")
]
SparsityOver = Annotated[str, choice("That share of what", "row", "layer", "network", "units")]
Head = Annotated[str | None, choice("The linear map on the features", *CLASSIFIER_HEADS, default="by the task")]
Solver = Annotated[str, choice("Mini-batches, or all rows in two ways", "stochastic", "proximal", "alg1")]
Loss = Annotated[str, choice("What trains the network", *CLASSIFIER_LOSSES)]
Lift = Annotated[str, choice("How ReLU is lifted", "auto", "fenchel", "tikhonov")]
Gamma = Annotated[str, typer.Option(help="The lift's weight, one or one a layer.", metavar="auto|X,X,...")]
MaxIter = Annotated[int | None, count("Epochs, or iterations over all rows.", default="by the rows")]
Tol = Annotated[float, number("The share of the start's gradient at which full-batch solvers stop.")]
BatchSize = Annotated[int | None, count("Rows in a mini-batch.", default="by the rows")]
Dropout = Annotated[str, typer.Option(help="Share of inputs and features dropped.", metavar="auto|X|X,X")]
EarlyStopping = Annotated[
    bool | None,
    typer.Option(
        "--early-stopping/--no-early-stopping", help="Hold rows out to stop by.", show_default="from 100 rows on"
    ),
]
ValidationFraction = Annotated[float, number("The share held out.")]
Patience = Annotated[int, count("Epochs without progress before it stops.")]
ImageSize = Annotated[
    int | None, count("Make the images of a folder squares of this side.", default="as they are, all alike")
]
Bits = Annotated[
    int | None, typer.Option(help="The length of codes, 8 to 512, for --task hash.", metavar="N", show_default="48")
]
Codes = Annotated[
    str | None,
    choice("Codes are learned too, or one word a class; for --task hash", "learned", "classes", default="learned"),
]
ClassWeight = Annotated[str | None, choice("Weights of the classes", "balanced")]
Device = Annotated[str, typer.Option(help="Where torch computes.", callback=device, metavar="NAME")]
Dtype = Annotated[str, choice("The type of the weights", "float32", "float64")]
