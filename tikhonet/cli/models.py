"""A saved model of whichever kind the file says it is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tikhonet.cli.errors import Failure
from tikhonet.cli.inputs import Source, aligned, as_numbers, labels
from tikhonet.data import Table
from tikhonet.data.folder import Shape, shape_of
from tikhonet.model import storage

TASKS = {"BCDClassifier": "classification", "BCDRegressor": "regression", "BCDFeatures": None, "BCDHasher": "hash"}


@dataclass(frozen=True)
class SavedModel:
    path: Path
    header: dict[str, Any]
    estimator: Any
    names: list[str]
    """Those of the columns that it was trained on, if they had any."""

    @property
    def kind(self) -> str:
        return type(self.estimator).__name__

    @property
    def task(self) -> str | None:
        return TASKS[self.kind]

    @property
    def width(self) -> int:
        return int(self.estimator.n_features_in_)

    @property
    def outputs(self) -> int:
        """Labels a row that predictions can be compared with: a class, or as many numbers as it learned."""
        return 1 if self.task == "classification" else len(self.estimator.model_.head.coef)

    @property
    def image_shape(self) -> Shape | None:
        """That of the images that it takes, if it can take any."""
        return shape_of(self.names, self.width)

    @property
    def text_classes(self) -> bool:
        return self.task == "classification" and all(isinstance(label, str) for label in self.estimator.classes_)

    def labels(self, table: Table, source: Source) -> Any:
        """Those of a table that was read with `text_labels=self.text_classes`, as text where the classes are text."""
        y = labels(table, source, self.outputs)
        return y.astype(str) if self.text_classes else as_numbers(y, source)

    def columns(self, table: Table, source: Source) -> Any:
        return aligned(table, self.names, self.width, source)

    def need_task(self, command: str) -> str:
        if self.task is None:
            raise Failure(f"{self.path} holds features without a head, so it cannot {command}; use predict --features")
        if self.task == "hash":
            raise Failure(f"{self.path} makes binary codes, so it cannot {command}; use tikhonet hash, then search")
        return self.task


def open_model(path: Path) -> SavedModel:
    from tikhonet import estimators

    if not path.exists():
        raise Failure(f"{path} does not exist; name a file that `tikhonet fit` wrote")
    header, _ = storage.load(path)
    kind = str(header.get("estimator"))
    if kind not in TASKS:
        raise Failure(f"{path} holds a {kind[:80]!r}, not one of {', '.join(TASKS)}; use a file of `tikhonet fit`")
    estimator: Any = getattr(estimators, kind).load(path)
    # The columns are put in order here; scikit-learn would warn of every array without names.
    names = [str(name) for name in vars(estimator).pop("feature_names_in_", ())]
    return SavedModel(path, header, estimator, names)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
