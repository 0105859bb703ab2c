"""Tables of any kind as columns of one type each: DataFrames of pandas and polars, Arrow tables, arrays of objects.

None of these packages is imported. A frame is what has `column_names`, or `columns` and offers Arrow's stream or the
interchange protocol; its columns are read by NumPy's own protocol.
"""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from tikhonet.model.column import Values
from tikhonet.network.errors import ArgumentError

CATEGORICAL = ("category", "categorical", "enum", "dictionary")
"""How the types of columns of categories begin in pandas, polars and Arrow."""
OBJECTS: dict[str, tuple[type, ...]] = {
    "boolean": (bool, np.bool_),
    "number": (Real, Decimal),
    "text": (str,),
    "date": (datetime.date, np.datetime64),
}
"""The types of Python's objects that a column of each type may hold."""
NOTHING = ("NoneType", "NAType", "NaTType")
"""The types of objects that stand for a missing value, beside NaN."""


def is_frame(X: Any) -> bool:
    """Whether X is a table with names."""
    protocol = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")
    return hasattr(X, "column_names") or (protocol and hasattr(X, "columns"))


def is_mixed(X: Any) -> bool:
    """Whether X is an array, or lists, of anything other than numbers."""
    if is_frame(X) or issparse(X):
        return False
    try:
        return np.asarray(X).dtype.kind in "OUSTMm"
    except ValueError:  # lists of different lengths: scikit-learn says so
        return False


def frame_names(X: Any, what: str = "X") -> list[Any]:
    """The names of a frame's columns; two of one name are an error."""
    names = list(X.column_names if hasattr(X, "column_names") else X.columns)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ArgumentError(what, f"{what} must have columns of different names, got {twice[0]!r} twice; rename one")
    return names


def frame_columns(X: Any, names: list[Any], known: list[Any], what: str = "X") -> list[Values]:
    """The columns of a frame in the order of these names; `known` are all that it has."""
    if missing := [name for name in names if name not in known]:
        listed = ", ".join(map(repr, missing[:10])) + (", ..." if len(missing) > 10 else "")
        raise ArgumentError(
            what, f"{what} must have the columns of the last fit, but these are missing: {listed}; add or rename them"
        )
    return [frame_column(X[name], str(name), what) for name in names]


def frame_column(column: Any, name: str, what: str) -> Values:
    kind = str(getattr(column, "dtype", None) or getattr(column, "type", ""))
    categorical = kind.lower().startswith(CATEGORICAL)
    # NumPy reads a missing category of Arrow as the last of the others.
    listed = categorical and hasattr(column, "to_pylist")
    array = np.fromiter(column.to_pylist(), object) if listed else np.asarray(column)
    return typed(array, name, what, categorical)


def array_columns(X: NDArray[Any], names: list[str], categorical: NDArray[np.bool_], what: str = "X") -> list[Values]:
    """The columns of a matrix; some may be said to be categorical."""
    return [typed(X[:, k], name, what, bool(categorical[k])) for k, name in enumerate(names)]


def typed(array: NDArray[Any], name: str, what: str, categorical: bool) -> Values:
    """A column as values of one type."""
    match array.dtype.kind:
        case "f" | "i" | "u":
            found = Values(name, "number", array.astype(np.float64), categorical)
        case "b":
            found = Values(name, "boolean", array.astype(np.float64), categorical)
        case "M":
            found = Values(name, "date", array.astype("datetime64[us]"), categorical)
        case "m":
            found = Values(name, "number", array / np.timedelta64(1, "s"), categorical)
        case "U" | "T":
            found = Values(name, "text", array.astype(object), categorical)
        case "O":
            found = from_objects(array, name, what, categorical)
        case _:
            raise unreadable(what, name, str(array.dtype))
    if found.type == "date" and categorical:
        return Values(name, "text", without(found.array.astype(str).astype(object), found.missing), True)
    return found


def from_objects(array: NDArray[Any], name: str, what: str, categorical: bool) -> Values:
    """A column of Python's objects, which must be of one type but for those that are missing."""
    kinds = {type(value) for value in array.tolist()}
    nothing = {kind for kind in kinds if kind.__name__ in NOTHING}
    floats = any(issubclass(kind, float) for kind in kinds)
    absent = np.zeros(len(array), bool)
    if nothing or floats:
        absent = np.array([type(value) in nothing or (isinstance(value, float) and value != value) for value in array])
    present = array[~absent].tolist()
    kinds = {type(value) for value in present}
    if not present:
        return Values(name, "number", np.full(len(array), np.nan), categorical)
    fits = (type_ for type_, allowed in OBJECTS.items() if all(issubclass(kind, allowed) for kind in kinds))
    type_ = next(fits, None)
    if type_ is None:
        raise unreadable(what, name, " and ".join(sorted(kind.__name__ for kind in kinds)))
    if type_ == "text":
        return Values(name, "text", without(array, absent), categorical)
    if type_ == "date":
        moments = np.full(len(array), "NaT", "datetime64[us]")
        moments[~absent] = [in_utc(value) for value in present]
        return Values(name, "date", moments, categorical)
    numbers = np.full(len(array), np.nan)
    numbers[~absent] = [float(value) for value in present]
    return Values(name, type_, numbers, categorical)


def without(array: NDArray[Any], absent: NDArray[np.bool_]) -> NDArray[Any]:
    """Text with None where it is missing."""
    found = array.copy()
    found[absent] = None
    return found


def in_utc(moment: Any) -> Any:
    """A moment without a time zone, which NumPy does not know."""
    if getattr(moment, "tzinfo", None) is None:
        return moment
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)


def unreadable(what: str, name: str, got: str) -> ArgumentError:
    return ArgumentError(
        what,
        f"column {name!r} of {what} must hold numbers, truth values, dates or text, one of these throughout, "
        f"got {got}; convert it, to text for instance, or leave it out",
    )


def chosen_columns(chosen: Any, count: int, names: list[Any]) -> NDArray[np.bool_]:
    """The columns that `categorical_features` chooses: by their type alone, by names, by places or by a mask."""
    mask = np.zeros(count, bool)
    if chosen is None or (isinstance(chosen, str) and chosen == "from_dtype"):
        return mask
    given = np.atleast_1d(np.asarray(chosen))
    if given.size == 0:
        return mask
    if given.dtype.kind == "b" and len(given) == count:
        return given
    if given.dtype.kind in "iu" and (-count <= given.min() and given.max() < count):
        mask[given] = True
        return mask
    if given.dtype.kind in "UO" and set(given.tolist()) <= set(names):
        return np.isin(np.arange(count), [names.index(name) for name in given.tolist()])
    raise ArgumentError(
        "categorical_features",
        f'categorical_features must be "from_dtype", None, or names, places or a mask of the {count} columns of X, '
        f"got {chosen!r}",
    )
