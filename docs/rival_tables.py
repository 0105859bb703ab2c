"""The tables of rivals.md: the race with tuned rivals, from the same figures as its page."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from blocks import TABLES, basis, markdown, number, run_of

from tikhonet.paper.rivals_results import Race
from tikhonet.paper.rivals_search import CONTENDERS


def race_table(folder: str) -> str:
    """Every contender by its test error, then the goals with their verdicts."""
    race: Race
    experiment, race = run_of(folder)
    data = race.first.data
    goals = [f"to {goal:g}%" for goal in race.goals]
    head = ["", "test error %", "seeds", "CPU s", *goals, "held out %", "tried", "setting"]
    rows = []
    for row in race.rows.values():
        error = f"{row.score:.2f}" + (f" ± {row.spread:.2f}" if len(row.scores) > 1 else "")
        name = f"**{row.title}**" if row.ours else row.title
        times = [number(spent) if (spent := row.seconds_to(goal)) < float("inf") else "" for goal in race.goals]
        tuned = [f"{race.held_out(row):.2f}", race.tried(row)]
        classifier = "own V" if row.records[0].head == "own" else "SVM"
        setting = f"{classifier}; {experiment.columns(race)[-1].value(row)}"
        rows.append([name, error, str(len(row.records)), number(row.total), *times, *tuned, setting])
    claims = [
        f"- {claim.words} {claim.findings[0].verdict.capitalize()}: {claim.findings[0].text}"
        for claim in experiment.findings(race)
    ]
    known = {row.title: [asdict(record) for record in row.records] for row in race.rows.values()}
    rows_of = f"{data['final_rows']:,} training and {data['test']:,} test images"
    again = "".join(f" and again on {rows:,}" for rows in {t.samples for t in race.tuning if t.stage == "again"})
    note = f"{rows_of}; tuned on {data['tuning_rows']:,} rows{again}, {data['held_out']:,} others held out."
    raced = {row.records[0].solver for row in race.rows.values()}
    if missing := [contender.title for contender in CONTENDERS if contender.name not in raced]:
        note += f" Not run: {', '.join(missing)}."
    return markdown(head, rows) + basis(folder, known, note) + "\n\n" + "\n".join(claims)


for run in ("rivals-digits", "rivals-mnist-10000", "rivals-fashion-mnist-10000", "rivals-mnist"):
    TABLES[run] = partial(race_table, run)
