"""The projection of the paper's BCD-S: rows of a matrix onto the l1 ball, against a sort and against one pass.

One pass is a soft threshold with a known tau, the least that any projection has to do. Two kinds of rows: random ones,
and rows of the ball after a small step, as in training. CPU milliseconds of one thread, medians, all in turn.

Usage: python benchmarks/row_projection.py [--size 784] [--repeats 50]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from machine import arguments, record
from torch import Tensor

from tikhonet import RowL1Ball


def by_sorting(M: Tensor, radius: float) -> Tensor:
    size = M.abs()
    largest = size.sort(1, descending=True).values
    beyond = largest.cumsum(1) - radius
    count = (largest * torch.arange(1, M.shape[1] + 1) > beyond).sum(1, keepdim=True)
    return M.sign() * (size - beyond.gather(1, count - 1) / count).relu_()


def milliseconds(ways: dict[str, Callable[[], Tensor]], repeats: int) -> dict[str, float]:
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            clock = time.process_time()
            way()
            spent[name].append(1e3 * (time.process_time() - clock))
    return {name: median(times) for name, times in spent.items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--size", type=int, default=784)
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ball, noise = RowL1Ball(1.0), torch.randn(options.size, options.size)
    near = ball.project(0.05 * noise) + 1e-3 * torch.randn_like(noise)
    found = {}
    for title, M in (("random rows", noise), ("rows after a small step", near)):
        P, tau = ball.project(M), torch.full((len(M), 1), 0.01)
        off = float((P - by_sorting(M.double(), 1.0)).abs().max())
        ways = {
            "projection": lambda M=M: ball.project(M),
            "by sorting": lambda M=M: by_sorting(M, 1.0),
            "one pass": lambda M=M, tau=tau: M.abs().sub_(tau).relu_().mul_(M.sign()),
        }
        times = milliseconds(ways, options.repeats)
        text = ", ".join(f"{name} {spent:.2f}" for name, spent in times.items())
        ratio, stay = times["projection"] / times["one pass"], 100 * float((P != 0).double().mean())
        print(f"{title} ({stay:.1f}% stay): {text} ms; {ratio:.0f} passes, off by {off:.1e}")
        found[title] = times
    record(options, found)


if __name__ == "__main__":
    main()
