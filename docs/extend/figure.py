from dataclasses import dataclass

from tikhonet.paper.sheets import COLOURS, Figure, tip


@dataclass(frozen=True, kw_only=True)
class Steps(Figure):
    """Heights as steps, on matplotlib's axes; an experiment's `figures` may return it."""

    heights: tuple[float, ...]

    def draw(self, ax):
        for k, height in enumerate(self.heights):
            (bar,) = ax.bar(k, height, color=COLOURS["stochastic"])
            tip(bar, f"step {k}: {height}")  # the page shows it where one points


steps = Steps(name="steps", title="Steps", heights=(10, 40, 25))
assert steps.svg().startswith("<svg")  # for the page
assert steps.save("pdf").startswith(b"%PDF")
