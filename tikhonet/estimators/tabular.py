"""X of any kind as rows of numbers: read and checked, by columns that are learned from it or were learned before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import validate_data

from tikhonet.estimators.all_ranks import anywhere
from tikhonet.estimators.checks import check_magnitude, check_validation, check_weights, validation_sets
from tikhonet.estimators.column_summaries import learn_columns
from tikhonet.estimators.frames import array_columns, chosen_columns, frame_columns, frame_names, is_frame, is_mixed
from tikhonet.estimators.networks import flat_rows, shape_of, takes_images, with_shape
from tikhonet.estimators.rows import Floats, Rows, canonical, dense
from tikhonet.model.column import Values
from tikhonet.model.columns import Columns
from tikhonet.model.model import Model
from tikhonet.network.errors import ArgumentError

Estimator = TypeVar("Estimator")
Table = Floats | list[Values]
"""A matrix of numbers, or columns."""
NO_LABELS = "no_validation"
"""What scikit-learn takes in place of y where there is none to check."""


class Inputs:
    """The rows that an estimator is given, and the columns by which they are read.

    All checks are done on a copy of the estimator: a fit that fails must leave the estimator as it was.
    """

    def __init__(self, estimator: Any) -> None:
        self.seen, self.shape = copy(estimator), estimator.input_shape
        self.last: Model | None = estimator._last.model if estimator._last else None
        self.columns: Columns | None = self.last.columns if self.last else None
        if self.last and isinstance(self.seen.network, str) and self.shape is None:
            self.seen.input_shape = shape_of(self.last.network)

    def fit(
        self, X: Any, y: Any = NO_LABELS, sample_weight: Any = None, *, anew: bool = True, **options: Any
    ) -> tuple[Floats, Any, Floats]:
        """Rows of numbers, y and the weights; the columns are learned from these rows unless a fit goes on."""
        if anew and not (self.seen.warm_start and self.last and width(X) == self.seen.n_features_in_):
            self.begin_anew()
        X = self.images(X)
        table, y = self._read(X, y, "X", anew or self.last is None, options)
        weight = check_weights(sample_weight, table[0].array if isinstance(table, list) else table)
        if self.last is None:
            self.columns = self._learn(table, weight, stream=not anew)
        return self._numbers(table), y, weight

    def check(self, X: Any, y: Any = NO_LABELS, what: str = "X", **options: Any) -> tuple[Floats, Any]:
        """Rows of numbers with the columns that are known, and y."""
        table, y = self._read(flat_rows(self.seen, X, what), y, what, False, options)
        return self._numbers(table), y

    def validation(self, X_val: Any, y_val: Any, eval_set: Any, **options: Any) -> Iterator[tuple[Floats, Any, str]]:
        """The sets of validation rows: rows of numbers, y, and the name of y."""
        for X, y, X_name, y_name in validation_sets(X_val, y_val, eval_set):
            check_validation(X, y, self.seen.n_features_in_, X_name, y_name)
            yield *self.check(X, y, X_name, **options), y_name

    def images(self, X: Any) -> Any:
        """Images as rows; their shape is known from then on."""
        self.seen = with_shape(self.seen, X)
        return flat_rows(self.seen, X)

    def begin_anew(self) -> None:
        """Forget what an earlier fit has learned."""
        self.last = self.columns = None
        self.seen.input_shape = self.shape
        for name in ("n_features_in_", "feature_names_in_"):
            vars(self.seen).pop(name, None)

    def columns_of(self, X: Any, names: tuple[str, ...] = ()) -> int:
        """The number of columns of the first rows of a stream, which is known from then on with their names."""
        self._read(self.images(X), NO_LABELS, "X", True, {})
        if names:
            self.seen.feature_names_in_ = np.array(names, dtype=object)
        return int(self.seen.n_features_in_)

    def piece(self, X: Any) -> Table:
        """Some rows of a stream as a table."""
        names = vars(self.seen).pop("feature_names_in_", None) if isinstance(X, np.ndarray) else None
        table, _ = self._read(flat_rows(self.seen, X), NO_LABELS, "X", False, {})
        if names is not None:
            self.seen.feature_names_in_ = names
        return table

    def as_columns(self, table: Table) -> list[Values]:
        """A table as columns, also where it is a matrix."""
        if isinstance(table, list):
            return table
        return array_columns(table, self.names, np.zeros(table.shape[1], bool))

    def inputs_of(self, table: Table) -> Floats:
        """The numbers that the scaling takes."""
        return self.encoded(self._numbers(table))

    def rows(self, X: Floats, Y: Floats, weight: Floats) -> Rows:
        """The canonical rows, encoded."""
        rows = canonical(X, Y, weight)
        return replace(rows, X=self.encoded(rows.X))

    def without_pieces(self, rows: Rows) -> Rows:
        """The encoded rows without pieces of numbers, which the columns then have no more."""
        if self.columns is None or not len(self.columns.encoding.pieces) or self.last is not None:
            return rows
        places, columns = self.columns.encoding.without_pieces, self.columns.without_pieces()
        self.columns = None if columns.encoding.bare else columns
        return replace(rows, X=rows.X.take(places, 1))

    def encoded(self, X: Floats) -> Floats:
        """The numbers that the scaling takes; one that is missing where none was in training counts as the mean."""
        encoded = self.columns.encoding(X) if self.columns else X
        if self.last is not None and np.isnan(encoded).any():
            encoded = np.where(np.isnan(encoded), self.last.scaling.shift, encoded)
        return encoded

    def bare(self, columns: Columns, tables: Iterable[Table]) -> Columns | None:
        """The columns that these tables have shown; None where each is one number, as all pixels of images must be."""
        if columns.encoding.bare:
            return None
        if takes_images(self.seen.network):
            raise ArgumentError("X", f"X must hold a number in each pixel where network takes images, {odd(tables)}")
        return columns

    def shaped(self, estimator: Estimator) -> Estimator:
        """The estimator with the shape of its images, where a network by name leaves `input_shape` open."""
        shaped = copy(estimator)
        vars(shaped)["input_shape"] = self.seen.input_shape
        return shaped

    def give(self, estimator: Any) -> None:
        """Set number and names of the columns that were seen."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.seen, name):
                setattr(estimator, name, getattr(self.seen, name))
            elif hasattr(estimator, name):
                delattr(estimator, name)

    @property
    def names(self) -> list[str]:
        """The names of the columns; x0, x1, ... where they have none."""
        return list(getattr(self.seen, "feature_names_in_", [f"x{k}" for k in range(self.seen.n_features_in_)]))

    def _read(self, X: Any, y: Any, what: str, reset: bool, options: dict[str, Any]) -> tuple[Table, Any]:
        """X as a matrix where all of it is numbers and stays so, else as columns; and y."""
        if is_frame(X):
            table = self._read_frame(X, what, reset)
            _, y = self._validated(np.zeros((len(table[0].array), 1)), y, copy(self.seen), True, options)
        else:
            mixed = is_mixed(X)
            kind: dict[str, Any] = {"dtype": None} if mixed else {"dtype": np.float64, "accept_sparse": "csr"}
            finite = False if mixed else "allow-nan"
            X, y = self._validated(X, y, self.seen, reset, kind | {"ensure_all_finite": finite} | options)
            chosen = self._chosen()
            if not (mixed or chosen.any() or (self.columns and not self.columns.plain)):
                check_magnitude(what, X)
                return X, y
            table = array_columns(X, self.names, chosen, what)
        for values in table:
            check_magnitude(f"column {values.name!r} of {what}", values.array)
        return table, y

    def _validated(self, X: Any, y: Any, seen: Any, reset: bool, options: dict[str, Any]) -> tuple[Any, Any]:
        found = validate_data(seen, X, y, reset=reset, **options)
        X, y = found if isinstance(found, tuple) else (found, y)
        if not isinstance(y, str) and y is not None:
            check_magnitude("y", y)
        return dense(X), y

    def _read_frame(self, X: Any, what: str, reset: bool) -> list[Values]:
        known = frame_names(X, what)
        if not known or not len(X):
            raise ArgumentError(what, f"{what} must have rows and columns, got shape {X.shape}; 0 of one is too few")
        named = all(isinstance(name, str) for name in known)
        if reset:
            self.seen.n_features_in_ = len(known)
            vars(self.seen).pop("feature_names_in_", None)
            if named:
                self.seen.feature_names_in_ = np.array(known, dtype=object)
        names = list(getattr(self.seen, "feature_names_in_", ())) if named else []
        if not names and len(known) != self.seen.n_features_in_:
            wanted, name = self.seen.n_features_in_, type(self.seen).__name__
            message = f"{what} has {len(known)} features, but {name} is expecting {wanted} features as input"
            raise ArgumentError(what, message)
        table = frame_columns(X, names or known, known, what)
        marks = zip(table, self._chosen(), strict=True)
        return [replace(values, categorical=True) if chosen else values for values, chosen in marks]

    def _chosen(self) -> Any:
        """The columns that are said to be categorical where columns are learned."""
        chosen = self.seen.categorical_features if self.last is None and self.columns is None else None
        return chosen_columns(chosen, self.seen.n_features_in_, self.names)

    def _learn(self, table: Table, weight: Floats, stream: bool) -> Columns | None:
        """The columns; None where each is a number and nothing else is to be known of it."""
        bins = 0 if stream else self.seen._bins(self.seen.n_features_in_)
        if isinstance(table, np.ndarray) and not bins and not anywhere(bool(np.isnan(table).any())):
            return None
        return self.bare(learn_columns(self.as_columns(table), weight, bins), [table])

    def _numbers(self, table: Table) -> Floats:
        if isinstance(table, np.ndarray):
            return table
        return (self.columns or Columns.of_numbers(self.names)).rows(table)


def odd(tables: Iterable[Table]) -> str:
    """The end of the sentence that refuses columns of these tables for images."""
    start = 0
    for table in tables:
        absent = np.isnan(table) if isinstance(table, np.ndarray) else np.stack([v.missing for v in table], 1)
        if absent.any():
            row, column = np.argwhere(absent)[0]
            return f"got none in row {start + row}, column {column}; replace what is missing, by np.nan_to_num say"
        start += len(absent)
    return "got categories or pieces; leave n_bins and categorical_features as they are"


def width(X: Any) -> int | None:
    """How many numbers a row of X, or an image, has; None where X holds neither."""
    shape = X.shape if hasattr(X, "shape") else np.shape(X)
    return math.prod(shape[1:]) if len(shape) in (2, 3, 4) else None
