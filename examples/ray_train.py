"""Train a classifier on several workers with Ray Train, which starts the torch process group that `Ranks` uses.

Needs `pip install "ray[train]"`. Ray Data, Dask and Spark's TorchDistributor work in the same way: whoever starts a
process group and gives each worker its rows.
"""

from __future__ import annotations

from pathlib import Path

from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits

from tikhonet import BCDClassifier, Ranks


def work(settings: dict[str, str]) -> None:
    X, y = load_digits(return_X_y=True)
    with Ranks() as ranks:
        mine = ranks.shard(len(X))
        model = BCDClassifier(hidden_layer_sizes=(64,), max_iter=10, random_state=0).fit(X[mine], y[mine])
    if ranks.rank == 0:
        model.save(settings["path"])


if __name__ == "__main__":
    path = str(Path("ray.model").resolve())
    TorchTrainer(work, train_loop_config={"path": path}, scaling_config=ScalingConfig(num_workers=2)).fit()
    print("accuracy", BCDClassifier.load(path).score(*load_digits(return_X_y=True)))
