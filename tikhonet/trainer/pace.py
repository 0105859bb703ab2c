"""How long the stochastic trainer's steps are, what guards them, and how often its statistics are renewed.

A step's length is the relative change that it makes in its layer's pre-activations. It begins as long as the shortest
runs want it, falls harmonically, sooner where batches are small and noisy (weights in a set, which bounds what noise
can do, keep it, and those with a budget for longer), and linearly to the end of the run.
Nothing may make the run diverge: a step after which the loss on the same rows is higher is undone and later ones are
shorter, and when the running loss has risen far above its best the last good state comes back.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tikhonet.trainer.recipe import LONG, Preset
from tikhonet.trainer.saving import changed
from tikhonet.trainer.statistics import LayerState
from tikhonet.trainer.sweep import TINY

OF_IMAGES = {"probe_rows": 16, "gram_every": 24, "good_every": 30, "refit_rows": 100}
"""Constants of `Pace` in networks of images, whose rows have hundreds of positions each: they say and cost as much. A
dense layer on an image has a Gram matrix of thousands of columns, which a good state remembers too."""


@dataclass(frozen=True)
class Pace:
    """The pace of one run; it answers by the number t of a step and by running figures, and remembers nothing.

    The first six fields describe the run. The others are constants that suit all runs; settings are for batches of
    1000 rows and are converted to batches of `size` thousand rows, so that they mean the same per sample.
    """

    preset: Preset
    total: int
    """Steps of the run."""
    size: float
    """Rows of a batch (over all ranks) in thousands."""
    depth: int
    """Hidden layers of the network."""
    averaging: float

    annealing: float = 0.98
    """How much of the step length is gone at the end; a rest of 2% keeps the last steps from being lost."""
    largest: float = 1.6
    """The relative change of a layer by the first step, at most: few runs, however short, gained by longer ones."""

    largest_gain: float = 1.5
    """A first step that is given grows with the root of the batch, as its noise falls, but no more than this."""
    shallow: int = 3
    """Layers from which on a first step that is given is shorter."""
    long: float = LONG
    """Steps of 1000 rows from which on a first step that is given is shorter."""

    probe_rows: int = 64
    """Rows on which a step's change is measured: enough for a mean square, and next to nothing to compute."""
    probe_speed: float = 0.05
    """How fast mean squares of signal and change follow: over 20 steps, so that one odd batch sets no length."""
    least_change: float = 1e-5
    """The mean square of the relative change, over its largest, from which on steps shrink with the gradient: runs that
    fit well stay above it, and steps that did not shrink would blow the weights up once nothing is left to learn."""

    check_every: int = 5
    """Steps between two checks of a step's loss, each of which costs a forward pass on some rows."""
    check_rows: int = 32
    """Rows of a check, at least: fewer would judge by chance."""
    check_share: int = 10
    """A check takes one row in so many, where these are more."""
    tolerated_rise: float = 1.1
    """The loss after a step over the one before from which on it is undone: noise alone makes 10%."""
    cut: float = 0.7
    """The factor on the trust in steps after one was undone."""
    recovery: float = 1.03
    """The factor after a good check: twelve of them make up for one cut, so trust comes back slower than it goes."""

    loss_speed: float = 0.1
    """How fast the running loss follows: over ten batches, whose losses differ by chance."""
    retreat_rise: float = 2.0
    """The running loss over its best from which on the last good state comes back: checks have missed a slow rise."""
    retreat_slack: float = 0.05
    """A rise by this share of the first loss is none: a loss near zero may double at any time."""
    retreat_cut: float = 0.5
    """The factor on the trust then: what has failed over many steps needs much shorter ones."""
    least_trust: float = 1e-6
    """The trust below which a loss that is no number ends the run: shorter steps have not helped twenty times."""
    good_every: int = 10
    """Steps between two looks at whether a state is good, since remembering one copies all matrices."""
    good_rise: float = 1.05
    """The running loss over its best up to which a state counts as good: waiting for a new best would lose more."""

    warm_steps: int = 5
    """Steps at the start that all renew their statistics, which change fast there."""
    classifier_every: int = 3
    """Steps of 1000 rows between two V-steps: the regression's sums remember many batches, so it moves slowly."""
    gram_every: int = 6
    """Steps of 1000 rows between two updates of a Gram matrix: the inputs of a layer change more slowly yet."""
    refit_rows: int | None = None
    """Rows, for each feature, that the last V-step needs where features are dear; all rows without it."""
    average_warmup: int = 9
    """The average of V and W is over t / (t + 9) steps' memory at first: it would keep the start for long."""

    @property
    def beta(self) -> float:
        """The memory of the running sums, by step."""
        return float(self.preset.memory**self.size)

    @property
    def momentum(self) -> float:
        """The memory of the steps' direction, by step; beside a first step that is given, by 1000 rows like it."""
        return float(self.preset.momentum ** (1.0 if self.preset.change is None else self.size))

    def rate(self, t: int, trust: float) -> float:
        """The relative change that step t makes in a layer's pre-activations."""
        annealed = trust * (1 - self.annealing * (t / self.total))
        if self.preset.change is not None:
            return annealed * self.preset.change * self.converted
        first = min(self.largest, self.preset.first / self.depth)
        return float(annealed * first / (1 + t / (self.preset.horizon * self.size**self.preset.horizon_power)))

    @property
    def converted(self) -> float:
        """What a first step that is given for 1000 rows, three layers and a run that is not long is multiplied by."""
        depth = min(1.0, (self.shallow / self.depth) ** self.preset.depth_power)
        length = min(1.0, (self.long / (self.total * self.size)) ** 0.5)
        return float(min(self.largest_gain, self.size**0.5) * depth * length)

    def counted(self, change: float, latest: float, share: float) -> float:
        """The mean square change that counts: a sudden large one at once, a sudden small one as the mean follows."""
        return max(change, latest * share)

    def length(self, rate: float, signal: float, change: float, peak: float) -> float:
        """The factor on a direction for this relative change, from mean squares of signal and unscaled change.

        It is bounded by the `peak`, the largest of all `change / signal`: a vanishing gradient makes a vanishing step.
        """
        return float(rate * (signal / (max(change, self.least_change * peak * signal) + TINY)) ** 0.5)

    def advance(self, layer: LayerState, R: Tensor, latest: float, now: float, rate: float) -> tuple[float, LayerState]:
        """The length of a layer's step along its momentum for this relative change, and its state with both moved on.

        R is the new direction; `latest` is the mean square of what it would change in the layer's pre-activations, and
        `now` that of these themselves.
        """
        momentum = layer.momentum.mul_(self.momentum).add_(R, alpha=1 - self.momentum)
        means = (layer.signal, now), (layer.change, latest), (layer.share, 1.0)
        signal, mean, share = (follow(mean, value, self.probe_speed) for mean, value in means)
        counted = self.counted(mean, latest, share)
        peak = max(layer.peak, counted / signal if signal > TINY else 0.0)
        length = self.length(rate, signal, counted, peak)
        return length, changed(layer, momentum=momentum, signal=signal, change=mean, share=share, peak=peak)

    def renews(self, t: int, every: int) -> bool:
        """Whether step t renews a statistic that is due every so many steps of 1000 rows."""
        return t < self.warm_steps or t % max(1, round(every / max(1.0, self.size))) == 0

    def checks(self, t: int) -> bool:
        """Whether the loss after step t is looked at."""
        return t % self.check_every == 0

    def falls(self, before: float, after: float) -> bool:
        """Whether a loss has not risen by more than chance."""
        return after <= self.tolerated_rise * before + TINY

    def refit_every(self, batches: int, features: int) -> int:
        """The last V-step looks at one batch in so many of an epoch, evenly apart: loaders may give rows in order."""
        if self.refit_rows is None:
            return 1
        return max(1, int(batches * 1000 * self.size / (self.refit_rows * features)))

    def kept(self, t: int) -> float:
        """How much the average of V and W keeps of itself: over fewer steps at first, and over none at the end."""
        memory = min(float(self.averaging**self.size), t / (t + self.average_warmup))
        return memory * max(0.0, 1 - t / self.total)

    def retreats(self, loss: float, best: float, first: float) -> bool:
        """Whether the running loss has risen far above its best, or is no number."""
        return not loss <= self.retreat_rise * best + self.retreat_slack * first

    def is_good(self, t: int, loss: float, best: float) -> bool:
        """Whether the state after step t is worth remembering."""
        return t % self.good_every == 0 and loss <= self.good_rise * best


def follow(mean: float, value: float, speed: float) -> float:
    """A running mean moved on to this value."""
    return mean + speed * (value - mean)
