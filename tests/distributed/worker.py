"""What one rank of the tests does: `python -m tests.distributed.worker JOBS FOLDER`; it leaves RANK.json there."""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import torch

from tikhonet import (
    BlockDescent,
    Fenchel,
    Network,
    NetworkDescent,
    Power,
    Problem,
    Proximal,
    Ranks,
    SameBits,
    Softmax,
    Stochastic,
)

ROWS = 2101
"""Rows that are cut into 8 blocks, of which the last has an odd number."""
NETWORK = Network.chain([37, 21, 13], bias=True)
CASES = {
    "alg1": (BlockDescent(Power(2), max_iter=2), Problem(Network.chain([37, 21, 13]), gamma=0.1)),
    "proximal": (
        BlockDescent(Proximal(0.1), max_iter=2, extrapolate=True, initial_features="forward"),
        Problem(NETWORK, loss=Softmax(), lift=Fenchel(), gamma=1.0, ridge_V=1.0),
    ),
    "certified": (NetworkDescent(max_iter=2), Problem(NETWORK, lift=Fenchel(), ridge_V=1.0, ridge_W=1.0)),
}


def data():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(ROWS, 37, generator=generator)
    return X, (X[:, :3] * X[:, 3:6]).argmax(1)


def digest(*values):
    parts = [part.numpy().tobytes() if isinstance(part, torch.Tensor) else repr(part).encode() for part in values]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def full_batch(ranks):
    """Hashes of what the full-batch solvers find, and the sums and bytes that they need."""
    (X, y), found = data(), {}
    rows = ranks.shard(ROWS)
    for name, (solver, problem) in CASES.items():
        before = ranks.calls, ranks.bytes
        result = solver.run(problem, X[rows], problem.loss.encode(y, 3).float()[rows], reduce=ranks)
        terms = [step.terms for step in result.history.steps]
        found[name] = {
            "hash": digest(result.blocks.V, *result.blocks.W.values(), terms),
            "calls": ranks.calls - before[0],
            "bytes": ranks.bytes - before[1],
        }
    return found


def sums(ranks):
    """The sums of tensors of several sizes, types and shapes: how far from those of one process, and their bytes."""
    found = []
    for shape, dtype in (((), torch.int64), ((3,), torch.float64), ((70, 90), torch.float32), ((7001,), torch.float64)):
        draws = [torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(k)) for k in range(ranks.size)]
        mine, before = draws[ranks.rank].to(dtype), ranks.bytes
        kept = mine.clone()
        total = ranks(mine)
        right = torch.equal(total, sum(draws).to(dtype)) and torch.equal(mine, kept)
        found.append([right, (ranks.bytes - before) / mine.element_size() / max(1, mine.numel())])
    return found


def trainer(ranks):
    """The hash of a training in which ranks have different numbers of rows."""
    X, y = data()
    problem = Problem(NETWORK, lift=Fenchel())
    rows = slice(0, 900) if ranks.rank else slice(900, None)
    T = problem.loss.encode(y, 3).float()
    before = ranks.calls, ranks.bytes
    training = Stochastic(epochs=3, batch_size=100).run(problem, X[rows], T[rows], reduce=ranks)
    state = training.state
    return {
        "hash": digest(training.blocks.V, *training.blocks.W.values(), state.generator, state.step),
        "steps": state.step,
        "calls": (ranks.calls - before[0]) / state.step,
    }


def errors(ranks):
    """Test errors of trainings with eight seeds, in batches of 200 rows over all ranks."""
    X, y = data()
    problem, rows = Problem(NETWORK, lift=Fenchel()), ranks.shard(1500)
    T, found = problem.loss.encode(y, 3).float(), []
    for seed in range(8):
        solver = Stochastic(epochs=4, batch_size=200 // ranks.size)
        blocks = solver.run(problem, X[rows], T[rows], seed=seed, reduce=ranks).blocks
        scores = NETWORK.features(X[1500:], blocks.W) @ blocks.V.T
        found.append(float((scores.argmax(1) != y[1500:]).float().mean()))
    return found


def estimators(ranks):
    """Estimators with unequal rows, a class and a category that one rank alone has, and missing numbers on one."""
    import numpy as np
    import pandas as pd

    from tikhonet import BCDClassifier, BCDHasher, BCDRegressor

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    X["d"] = np.where(X["a"] > 0.3, "high", "low")
    y = np.where(X["a"] + X["b"] > 0, "yes", "no").astype(object)
    X.loc[300:, "d"], X.loc[310:330, "c"], y[350:] = "odd", np.nan, "late"
    mine = slice(0, 250) if ranks.rank == 0 else slice(250, None)
    options = {"max_iter": 4, "hidden_layer_sizes": 8, "callbacks": lambda epoch: ranks.rank == 1 and epoch.number == 3}
    model = BCDClassifier(class_weight="balanced", **options).fit(X[mine], y[mine])
    numbers = X[["a", "b"]].to_numpy()
    line = BCDRegressor(random_state=0, max_iter=4, n_bins=0).fit(numbers[mine], numbers[mine].sum(1))
    hasher = BCDHasher(random_state=0, max_iter=2, n_bits=8).fit(numbers[mine], y[mine])
    large = BCDClassifier(max_iter=4, hidden_layer_sizes=8, random_state=0, memory_budget="20MB").fit(X[mine], y[mine])
    whole = BCDClassifier(max_iter=4, hidden_layer_sizes=8, random_state=0).fit(X[mine], y[mine])
    try:
        BCDRegressor().fit(numbers[: 30 - 20 * ranks.rank], numbers[: 30 - 20 * ranks.rank, 0])
        refused = ""
    except ValueError as error:
        refused = str(error)
    return {
        "classes": model.classes_.tolist(),
        "columns": [column.meaning() for column in model.model_.columns.columns],
        "iterations": model.n_iter_,
        "hash": digest(*(found.model_.V for found in (model, line, hasher)), model.predict_proba(X).tolist()),
        "score": model.score(X, y),
        "r2": line.score(numbers, numbers.sum(1)),
        "codes": hasher.transform(numbers).tolist()[:5],
        "refused": refused,
        "large": digest(large.model_.V, large.predict_proba(X).tolist()),
        "far": float(np.abs(large.predict_proba(X) - whole.predict_proba(X)).max()),
        "alike": large.model_.columns == whole.model_.columns,
    }


def survivors(ranks):
    """A fit with a checkpoint; where torchrun may start it again, the second rank dies once, after three epochs."""
    import numpy as np

    from tikhonet import BCDClassifier, Checkpoint

    X = np.random.default_rng(0).normal(size=(160, 4))
    y, mine, seen = X[:, 0] * X[:, 1] > 0, ranks.shard(160), []
    life, lives = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["TORCHELASTIC_MAX_RESTARTS"]

    def watch(epoch):
        seen.append(epoch.number)
        if life != lives and ranks.rank and epoch.number == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    kept = Checkpoint(Path(sys.argv[2], "states"), every_epochs=1)
    model = BCDClassifier(8, max_iter=6, n_networks=1, random_state=0, batch_size=40, checkpoint=kept, callbacks=watch)
    found = model.fit(X[mine], y[mine])
    return {"life": life, "resumed": seen[0] > 1, "hash": digest(found.model_.V, found.predict_proba(X).tolist())}


def same_bits(ranks):
    """The hash of a training on logical ranks, with weights and rows held out."""
    (X, y), problem = data(), Problem(NETWORK, lift=Fenchel())
    T, weight = problem.loss.encode(y, 3).float(), torch.linspace(0.5, 1.5, ROWS)
    rows, held = ranks.shard(1800), ranks.shard(ROWS - 1800)
    solver = SameBits(Stochastic(epochs=2, batch_size=400, drop_features=0.1), ranks=8)
    options = {"weight": weight[:1800][rows], "validation": (X[1800:][held], T[1800:][held]), "watch": lambda _: False}
    training = solver.run(problem, X[:1800][rows], T[:1800][rows], reduce=ranks, **options)
    measures = [(epoch.loss, epoch.validation_loss, epoch.validation_error) for epoch in training.epochs]
    return digest(training.blocks.V, *training.blocks.W.values(), measures)


def half_way(ranks, folder=None, stop=True):
    """The hash of Alg. 1 with its states in a folder; it is stopped after the first iteration."""
    from tikhonet import Checkpoint
    from tikhonet.estimators.checkpoints import Stopped
    from tikhonet.estimators.sessions import FolderSession

    (X, y), (solver, problem), rows = data(), CASES["alg1"], ranks.shard(ROWS)
    place = Path(folder or sys.argv[2])
    session = FolderSession(Checkpoint(place, stop=lambda: stop), place, {"fit": "alg1"}, ranks)
    T = problem.loss.encode(y, 3).float()
    try:
        result = solver.run(problem, X[rows], T[rows], reduce=ranks, slot=session.slot())
    except Stopped:
        return "stopped"
    return digest(result.blocks.V, *result.blocks.W.values(), [step.terms for step in result.history.steps])


def killed(ranks):
    """The second rank is gone in the middle of a run."""
    X, y = data()

    def watch(history):
        if ranks.rank:
            os.kill(os.getpid(), signal.SIGKILL)

    solver, problem = CASES["alg1"]
    solver.run(problem, X, problem.loss.encode(y, 3).float(), reduce=ranks, watch=watch)


if __name__ == "__main__":
    jobs, folder = sys.argv[1:]
    with Ranks() as ranks:
        found = {job: globals()[job](ranks) for job in jobs.split(",")}
        Path(folder, f"{ranks.rank}.json").write_text(json.dumps(found))
