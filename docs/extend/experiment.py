import random

from tikhonet.paper.comparison import Claim, Finding
from tikhonet.paper.experiment import Experiment, Method
from tikhonet.paper.figures import Axis, Dots


class Coins(Experiment):
    """Two coins, thrown a hundred times each; `tikhonet reproduce throws` runs it and makes its page."""

    name, title, lead = "throws", "Are the coins fair?", "One of them was bought from a magician."

    def methods(self, size, data, epochs=None):
        return [Method("fair", "A fair coin"), Method("magic", "The magician's coin", "printed")]

    def trial(self, method, data, seed, watch):
        odds = [1, 9 if method.name == "magic" else 1]
        throws = random.Random(f"{method.name} {seed}").choices([0, 1], odds, k=100)
        return {"seconds": 0.1, "passes": 1, "score": sum(throws) / 100}

    def findings(self, results):
        heads = results.rows["magic"].score
        return [Claim("The magician's coin shows heads.", (Finding(f"{heads:.0%} of the throws.", heads > 0.7),))]

    def figures(self, results):
        rows = [row.values(row.scores) for row in results.rows.values()]
        return [Dots(name="heads", title="Heads", x=Axis("share of heads"), rows=rows)]
