"""`tikhonet reproduce`: an experiment of the paper, and the page that shows it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tikhonet.cli.inputs import DataHome, Json, load_set, numbers
from tikhonet.cli.mistakes import Failure, check_name
from tikhonet.cli.outputs import facts, show, table
from tikhonet.cli.progress import bar
from tikhonet.data.dataset import SPLITS, Dataset
from tikhonet.paper.experiments.databases import SETTINGS, read_database
from tikhonet.paper.experiments.records import HashingRecord, Trial

EXAMPLE = "tikhonet reproduce mnist --quick --output mnist-quick"

EXPERIMENTS = {name: f"tikhonet.paper.experiments.{name}" for name in ("mnist", "sparse", "hashing")}
"""By name, the module with its sizes QUICK and FULL, its `methods` and its `run`; imported when it is asked for."""
IMAGES = ("digits", "mnist", "fashion-mnist")
SETS = {"mnist": IMAGES, "sparse": IMAGES, "hashing": tuple(SETTINGS)}
"""What each experiment can be run on."""
HEADINGS = {"error_percent": "test error %", "mean_average_precision": "mAP"}


def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help="mnist: Sec. 3.3.1 and Fig. 3 of the paper; sparse: error against nonzeros; hashing: Sec. 3.3.2.",
            show_default=False,
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's size, hours; or the digits, a few minutes.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder to write.", metavar="DIR", show_default="EXPERIMENT-SIZE"),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help=f"The images: {', '.join(IMAGES)}; for hashing {', '.join(SETTINGS)}.",
            metavar="NAME",
            show_default="digits, with --full mnist",
        ),
    ] = None,
    data_home: DataHome = None,
    solvers: Annotated[
        str | None, typer.Option(help="Only these.", metavar="NAME,NAME,...", show_default="all")
    ] = None,
    trials: Annotated[str, typer.Option(help="The seeds.", metavar="N,N,...")] = "0,1,2",
    epochs: Annotated[
        int | None, typer.Option(help="Passes of every solver; the paper's are 100.", min=1, metavar="N")
    ] = None,
    as_json: Json = False,
) -> None:
    """Redo an experiment of the paper.

    Writes a page with its figures and tables. Every finished trial is kept; the same command goes on where it
    was stopped.
    """
    from tikhonet.network.graph import Network
    from tikhonet.paper import experiments
    from tikhonet.paper.report import write_report

    check_name(experiment, EXPERIMENTS, "EXPERIMENT")
    chosen_experiment = import_module(EXPERIMENTS[experiment])
    size = chosen_experiment.FULL if full else chosen_experiment.QUICK
    name = (data or ("mnist" if full else "digits")).lower().replace("_", "-")
    check_name(name, SETS[experiment], "--data")
    folder = output or Path(f"{experiment}-{size.name}")
    check_folder(folder)
    seeds = parse_seeds(trials)
    chosen = None if solvers is None else [name.strip() for name in solvers.split(",")]
    known = chosen_experiment.methods(size, Network.paper(4))
    if experiment == "hashing":
        known |= {method.way: method for method in known.values()}
    for solver in chosen or ():
        check_name(solver, known, "--solvers")
    check_distinct(chosen or (), "--solvers")
    images = read_database(name, reader(data_home)) if experiment == "hashing" else read_images(name, data_home)
    with bar(f"reproducing {experiment}", 1.0, forecast=True) as shown:

        def watch(report: experiments.Progress) -> None:
            text = f"{report.title}, trial {report.trial} ({report.finished} of {report.trials} done)"
            shown.update(report.share, text, report.seconds_left)

        options: dict[str, Any] = {"solvers": chosen, "trials": seeds, "epochs": epochs, "progress": watch}
        try:
            records = chosen_experiment.run(images, size, folder, **options)
        except KeyboardInterrupt:
            finished = len(list((folder / "records").glob("*.json")))
            raise Failure(
                f"interrupted; {finished} finished trials are kept in {folder / 'records'}, "
                "and the same command goes on from there",
                exit_code=130,
            ) from None
        shown.pulse("writing the page")
        report = write_report(folder, command=command(experiment, size.name, folder, data, solvers, trials, epochs))
    results, kind = summary(records), type(records[0])
    rows: list[tuple[object, ...]] = [
        (row["title"], figure(row[kind.SCORE], kind), f"{row['seconds']:.2f}") for row in results.values()
    ]
    document = {
        "experiment": experiment,
        "size": size.name,
        "data": name,
        "page": report.page,
        "records": len(records),
        "figures": report.figures,
        "tables": report.tables,
        "results": results,
    }
    human = facts(page=report.page.resolve(), figures=report.page.parent / "figures", trials=len(records))
    show(document, as_json, table(("solver", HEADINGS[kind.SCORE], "training seconds"), rows), human)


def parse_seeds(text: str) -> list[int]:
    seeds = [int(seed) for seed in numbers("--trials", text, int)]
    wrong = [seed for seed in seeds if not 0 <= seed < 2**32]
    if wrong:
        raise typer.BadParameter(f"must be seeds from 0 to {2**32 - 1}, got {wrong[0]}", param_hint="--trials")
    check_distinct(seeds, "--trials")
    return seeds


def check_distinct(given: Sequence[object], option: str) -> None:
    """What is given twice would be done once and counted twice."""
    for place, value in enumerate(given):
        if value in given[:place]:
            raise typer.BadParameter(f"must be different ones, got {value} twice; leave one out", param_hint=option)


def check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"must be a folder, got the file {folder}; choose another name", param_hint="--output")
    if not folder.parent.is_dir():
        raise typer.BadParameter(f"the folder {folder.parent} does not exist; make it first", param_hint="--output")


def reader(data_home: Path | None) -> Callable[[str, str], Dataset]:
    return lambda name, split: load_set(name, split, data_home)


def read_images(name: str, data_home: Path | None) -> Any:
    from tikhonet.paper import experiments

    if name == "digits":
        return experiments.digits()
    train, test = (load_set(name, split, data_home) for split in SPLITS)
    return experiments.Images(train.X, train.y, test.X, test.y, name, train.shape, train.classes)


def command(experiment: str, size: str, folder: Path, data: str | None, *rest: Any) -> str:
    """What the page says redoes it."""
    parts = ["tikhonet", "reproduce", experiment, f"--{size}", "--output", folder.name]
    solvers, trials, epochs = rest
    given = {
        "--data": data,
        "--solvers": solvers,
        "--trials": trials if trials != "0,1,2" else None,
        "--epochs": epochs,
    }
    parts += [part for option, value in given.items() if value is not None for part in (option, str(value))]
    return shlex.join(parts)


def summary(records: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """Means over the trials of each solver; none where a trial diverged."""
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(record.method for record in records):
        own = [record for record in records if record.method == name]
        scores = [record.score for record in own if record.score is not None]
        mean = float(np.mean(scores)) if len(scores) == len(own) else None
        seconds = float(np.mean([record.seconds for record in own]))
        bits = f", {own[0].bits} bits" if isinstance(own[0], HashingRecord) else ""
        found[name] = {"title": own[0].title + bits, own[0].SCORE: mean, "seconds": seconds, "trials": len(own)}
    return found


def figure(value: float | None, kind: type[Trial]) -> str:
    return "diverged" if value is None else f"{value:.4f}" if kind is HashingRecord else f"{value:.2f}"
