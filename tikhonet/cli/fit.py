"""`tikhonet fit`: train a network on a data set or a file, and save it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tikhonet.cli.inputs import Seed, Source, Threads, choice, names
from tikhonet.cli.mistakes import OptionError
from tikhonet.cli.outputs import Answer, errors, facts, headline, held_out, output_option, save_or_rescue
from tikhonet.cli.parameter_options import ESTIMATORS, PARAMETERS, with_parameters
from tikhonet.cli.progress import by_chunks, memory_now, memory_peak, train
from tikhonet.data.folder import shape_of
from tikhonet.descent.result import Status
from tikhonet.hashing.neighbours import alike
from tikhonet.problem.memory_budget import bytes_of
from tikhonet.problem.ranks import Ranks

EXAMPLE = "tikhonet fit --data digits --solver proximal --max-iter 5 --output my.model"


@with_parameters
def fit(
    source: Source,
    output: Annotated[Path, output_option("The model file to write.")],
    image_size: Annotated[
        int | None,
        typer.Option(
            help="Make the images of a folder squares of this side.",
            min=1,
            metavar="N",
            show_default="as they are, all alike",
        ),
    ] = None,
    task: Annotated[str | None, choice(ESTIMATORS, "What is learned.", "by y: one of the first two")] = None,
    random_state: Seed = 0,
    n_jobs: Threads = None,
    **parameters: Any,
) -> Answer:
    """Train a network and save it.

    The rows are those of a file of your own, the images of a folder whose subfolders are the classes, or the training
    part of a data set. Ctrl-C or SIGTERM ends training after the epoch that is running, and saves what was learned;
    with --checkpoint after the step that is running, and the same command goes on from there.

    Under `torchrun --nproc-per-node=2 -m tikhonet fit ...` each process trains on its share of the rows.
    """
    memory = parameters.get("memory_budget")
    if memory is None:
        rows = source.read("train", task, size=image_size, categories=names(parameters.get("categorical_features")))
    else:
        rows = source.by_pieces()
    unlabelled = task == "hash" and rows.y is None  # all bits then know neighbours
    y: Any = None if unlabelled else source.labels(rows, 1 if task == "classification" else None)
    task = task or source.infer_task(y)
    if task == "regression":
        y = source.numbers(y)
    elif task == "classification" and y.dtype.kind == "f" and len(fractions := y[y != np.floor(y)]):
        raise OptionError(
            "--task", f"must be regression for labels that are numbers such as {fractions[0]:g}, got classification"
        )
    given = {name: value for name, value in parameters.items() if value is not None}
    chosen = {name: PARAMETERS[name].value(value, task) for name, value in given.items()}
    check_effect(chosen)
    if task == "hash" and rows.named and not alike(rows.feature_names) and chosen.get("units", "auto") == "auto":
        chosen["units"] = "spread"  # a matrix does not tell the estimator the names of its columns
    if isinstance(chosen.get("network"), str) and (shape := shape_of(rows.feature_names, rows.X.shape[1])):
        chosen.setdefault("input_shape", shape if len(shape) == 3 else (1, *shape))
    estimator: Any = ESTIMATORS[task](**chosen, random_state=random_state, n_jobs=n_jobs)
    ranks, before = Ranks(), memory_now()
    seconds, advice, exit_code = train(estimator, rows.X, y, ranks)
    used = max(0.0, memory_peak() - before)
    if ranks.rank:  # the first process alone has something to say
        raise typer.Exit(exit_code)
    if task == "hash":
        measures = estimator.report_.to_dict() | {"mixture": estimator.mixture_.to_dict()}
    else:
        measures = errors(task, y, by_chunks(estimator.predict, rows.X, "predicting"))
    if rows.named:
        estimator.feature_names_in_ = np.array(rows.feature_names, dtype=object)
        estimator.label_name_ = rows.label_name
    save_or_rescue(estimator.save, output)
    status: Status = estimator.status_
    sentence = status.value.partition(". ")[0].rstrip(".") + "."
    remedy = f" To do: {advice}." if advice else ""
    title = source.title("train")
    document = {
        "model": output,
        "task": task,
        "data": title,
        "rows": len(rows.X),
        "features": rows.X.shape[1],
        "status": status.name,
        "message": sentence + remedy,
        "iterations": estimator.n_iter_,
        "seconds": seconds,
        "training": measures,
        "held_out": (held := held_out(task, estimator)),
        "sparsity": estimator.sparsity_["zeros"],
        "sparsity_kind": estimator.sparsity_["kind"],
        "bytes": output.stat().st_size,
    }
    if memory is not None:
        document["memory"] = {"budget": bytes_of(memory), "used": used, "before": before}
    human = facts(
        data=f"{title}: {len(rows.X):,} rows of {rows.X.shape[1]} columns, {task}",
        status=f"{sentence}{remedy}",
        iterations=estimator.n_iter_,
        training=headline(measures),
        **({"held_out": headline(held)} if held else {}),
        **(
            {"memory": f"{used / 1e6:.0f} MB of {memory}, beside {before / 1e6:.0f} MB of the process"}
            if memory
            else {}
        ),
        seconds=f"{seconds:.1f}",
        model=output,
    )
    return Answer(document, human, exit_code=exit_code)


def check_effect(chosen: dict[str, Any]) -> None:
    """Raise where an option would change nothing."""
    needs = {"radius": ("constraint", ""), "sparsity_over": ("sparsity", ""), "quantile": ("loss", "quantile")}
    for name, (needed, value) in needs.items():
        if name in chosen and (needed not in chosen or chosen[needed] != (value or chosen[needed])):
            option, other = PARAMETERS[name].option, f"{PARAMETERS[needed].option} {value}".strip()
            raise OptionError(option, f"has no effect without {other}; add that, or leave it out")
