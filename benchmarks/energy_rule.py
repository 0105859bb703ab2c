"""The paper's ideal decision rule (Sec. 3.2) beside the forward one on scikit-learn's digits: accuracy and cost.

Usage: python benchmarks/energy_rule.py [--seeds 3]
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from typing import Any

import numpy as np
import torch
from machine import arguments, describe, record
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from tikhonet.estimators import BCDClassifier

MODELS: dict[str, dict[str, Any]] = {
    "stochastic, Fenchel lift, 200 + 200": {},
    "stochastic, Fenchel lift, 200": {"hidden_layer_sizes": (200,)},
    "stochastic, Tikhonov lift, 200 + 200": {"lift": "tikhonov"},
    "proximal, Fenchel lift, 64": {"solver": "proximal", "hidden_layer_sizes": (64,), "max_iter": 60},
    "Alg. 1, Tikhonov lift, 64": {"solver": "alg1", "hidden_layer_sizes": (64,), "max_iter": 60},
}
RULES = {
    "head": ("logistic", "forward"),
    "V": ("trained", "forward"),
    "energy": ("trained", "energy"),
}


def main(options: Namespace) -> None:
    seeds = options.seeds
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", ConvergenceWarning)  # full-batch runs of 60 iterations are not at their end
    X, y = load_digits(return_X_y=True)
    table = Table("network", *(f"{rule}: error %" for rule in RULES), "ms a row, forward", "ms a row, energy")
    found: dict[str, Any] = {}
    for name, settings in MODELS.items():
        errors, costs = np.zeros((seeds, len(RULES))), np.zeros((seeds, len(RULES)))
        for seed in range(seeds):
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=500, stratify=y, random_state=seed)
            for column, (head, decision) in enumerate(RULES.values()):
                model = BCDClassifier(head=head, random_state=seed, **settings).fit(X_train, y_train)
                model.set_params(decision=decision)
                clock = time.process_time()
                errors[seed, column] = 100 * (1 - model.score(X_test, y_test))
                costs[seed, column] = 1000 * (time.process_time() - clock) / len(y_test)
        found[name] = {rule: errors[:, column].tolist() for column, rule in enumerate(RULES)}
        found[name] |= {"ms forward": costs[:, 0].tolist(), "ms energy": costs[:, -1].tolist()}
        mean, cost = errors.mean(0), costs.mean(0)
        table.add_row(name, *(f"{error:.1f}" for error in mean), f"{cost[0]:.3f}", f"{cost[-1]:.3f}")
    Console(width=130).print(table)
    print(f"{seeds} splits of 1297 training and 500 test rows; CPU time; {describe()}")
    record(options, found)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    main(parser.parse_args())
