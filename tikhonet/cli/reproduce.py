"""`tikhonet reproduce`: an experiment of the paper, and the page that shows it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tikhonet.cli.inputs import DataHome, load_set, numbers
from tikhonet.cli.mistakes import Failure, OptionError, check_name
from tikhonet.cli.outputs import Answer, facts, table
from tikhonet.data.bar import Bar
from tikhonet.network.extras import require
from tikhonet.paper import experiment_files

if TYPE_CHECKING:
    from tikhonet.paper.experiment import Experiment

EXAMPLE = "tikhonet reproduce mnist --quick --output mnist-quick"


def first_line(path: Path) -> str:
    """The sentence that a file opens with."""
    return path.read_text(encoding="utf-8").split('"""')[1].partition("\n")[0]


def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help=" ".join(f"{name}: {first_line(path)}" for name, path in experiment_files().items()),
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
            help="The images, such as digits, mnist or fashion-mnist.",
            metavar="NAME",
            show_default="digits, with --full mnist",
        ),
    ] = None,
    data_home: DataHome = None,
    solvers: Annotated[
        str | None, typer.Option(help="Only these.", metavar="NAME,NAME,...", show_default="all")
    ] = None,
    trials: Annotated[
        str | None,
        typer.Option(
            help="The seeds; of cross-validation, the parts.", metavar="N,N,...", show_default="0,1,2; of parts all"
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes of every solver; the paper's are 100.", min=1, metavar="N")
    ] = None,
    page_only: Annotated[
        bool, typer.Option("--page-only", help="Run nothing: make the page from the records in the folder.")
    ] = False,
) -> Answer:
    """Redo an experiment of the paper.

    Writes a page with its figures and tables. Every finished trial is kept; the same command goes on where it
    was stopped.
    """
    from tikhonet.paper.experiment import experiment_names, find_experiment
    from tikhonet.paper.page import write_report
    from tikhonet.paper.runner import count_finished

    for package in ("jinja2", "matplotlib"):  # the page needs them, and a run may take hours
        require(package)
    check_name(experiment, experiment_names(), "EXPERIMENT")
    chosen = find_experiment(experiment)
    size = chosen.sizes[1 if full else 0]
    folder = output or Path(f"{experiment}-{size.name}")
    check_folder(folder)
    name = (data or ("mnist" if full else "digits")).lower().replace("_", "-")
    check_name(name, chosen.data_sets, "--data")
    names = None if solvers is None else [part.strip() for part in solvers.split(",")]
    check_distinct(names or (), "--solvers")
    options = {"solvers": names, "trials": trials and parse_seeds(trials), "epochs": epochs}
    given = {"--data": data, "--solvers": solvers, "--trials": trials, "--epochs": epochs}
    words = [str(word) for pair in given.items() if pair[1] is not None for word in pair]
    line = shlex.join(["tikhonet", "reproduce", experiment, f"--{size.name}", "--output", folder.name, *words])
    try:
        with Bar(f"reproducing {experiment}", 1.0, "TimeElapsedColumn") as shown:
            if page_only:
                records = kept_records(experiment, folder)
            else:
                images = chosen.read(name, lambda name, split: load_set(name, split, data_home))
                records = new_records(chosen, images, size, folder, options, shown)
            shown.pulse("writing the page")
            report = write_report(folder, command=None if page_only else line)
    except KeyboardInterrupt:
        raise Failure(
            f"interrupted; {count_finished(folder)} finished trials are kept in {folder}, "
            "and the same command goes on from there",
            exit_code=130,
        ) from None
    results = summary(records, chosen.score.key)
    rows = [
        (row["title"], chosen.score.form(row[chosen.score.key]), f"{row['seconds']:.2f}") for row in results.values()
    ]
    document = {
        "experiment": experiment,
        "size": records[0].size,
        "data": records[0].data.get("name"),
        "page": report.page,
        "records": len(records),
        "figures": report.figures,
        "tables": report.tables,
        "results": results,
    }
    human = facts(page=report.page.resolve(), figures=report.page.parent / "figures", trials=len(records))
    return Answer(document, table(("solver", chosen.score.heading, "training seconds"), rows), human)


def new_records(
    experiment: Experiment, images: Any, size: Any, folder: Path, options: dict[str, Any], shown: Bar
) -> list[Any]:
    """Run what is not done yet; `shown` is the bar that tells how far it is."""
    from tikhonet.paper.runner import Progress, run

    known = [part for method in experiment.methods(size, images) for part in (method.group, method.name)]
    for solver in options["solvers"] or ():
        check_name(solver, known, "--solvers")

    def watch(report: Progress) -> None:
        left = "" if report.seconds_left is None else f", {timedelta(seconds=round(report.seconds_left))} left"
        done = f"{report.finished} of {report.trials} done"
        shown.move(report.share, f"{report.title}, trial {report.trial} ({done}{left})")

    return run(experiment, images, size, folder, progress=watch, **options)


def kept_records(experiment: str, folder: Path) -> list[Any]:
    """The records in a folder, which must be of this experiment."""
    from tikhonet.paper.experiment import load_records

    records = load_records(folder)
    if (held := records[0].experiment) != experiment:
        raise Failure(
            f"{folder} holds trials of {held}, and {experiment} is asked for; use `tikhonet reproduce {held}`"
        )
    return records


def parse_seeds(text: str) -> list[int]:
    seeds = [int(seed) for seed in numbers("--trials", text, int)]
    if wrong := [seed for seed in seeds if not 0 <= seed < 2**32]:
        raise OptionError("--trials", f"must be seeds from 0 to {2**32 - 1}, got {wrong[0]}")
    check_distinct(seeds, "--trials")
    return seeds


def check_distinct(given: Sequence[object], option: str) -> None:
    """A name or seed that is given twice would be done once and counted twice."""
    for value, count in Counter(given).items():
        if count > 1:
            raise OptionError(option, f"must be different ones, got {value} twice; leave one out")


def check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise OptionError("--output", f"must be a folder, got the file {folder}; choose another name")
    if not folder.parent.is_dir():
        raise OptionError("--output", f"the folder {folder.parent} does not exist; make it first")


def summary(records: Sequence[Any], key: str) -> dict[str, dict[str, Any]]:
    """Means over the trials of each solver; none where a trial diverged."""
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(record.method for record in records):
        own = [record for record in records if record.method == name]
        scores, seconds = [record.score for record in own], fmean(record.seconds for record in own)
        mean = None if None in scores else fmean(scores)
        found[name] = {"title": own[0].label, key: mean, "seconds": seconds, "trials": len(own)}
    return found
