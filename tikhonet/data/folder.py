"""A folder of image files as a table: one row an image, the name of its subfolder as label."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.data.dataset import DataError
from tikhonet.data.obtain import StrPath
from tikhonet.data.tables import Table, default_names
from tikhonet.model.reading import allowed, check_growth, complaint
from tikhonet.network.extras import require
from tikhonet.network.shapes import square_images

KINDS = (".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".avif", ".pgm", ".ppm")
GREY = ("1", "L", "LA", "La", "I", "F")
PIXEL = "pixel "
NAME = 80
"""Bytes of memory that the name of a pixel takes, about."""
ORIENTATION, LYING = 0x0112, (5, 6, 7, 8)
"""The EXIF tag that tells how an image is turned, and its values for those that lie on their side."""

Shape = tuple[int, ...]
"""The shape of an image: (height, width), or (3, height, width) in colour."""


def read_folder(folder: StrPath, size: int | None = None, *, shape: Shape | None = None) -> Table:
    """Read a folder of images: pixels in [0, 1], and labels where the images lie in subfolders.

    Parameters
    ----------
    folder : str or path
        With the images in it (no labels), or with a subfolder for each label.
    size : int, optional
        The side of the squares that images are brought to, by cutting off what is too wide or too high and by scaling;
        None leaves them as they are, which must be alike. All are in colour if one of them is.
    shape : tuple of int, optional
        What images are brought to in the same way, in place of `size`: (height, width), or (3, height, width) in
        colour.

    Returns
    -------
    Table
        A row for each image; the files' names are the names of the rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> from tikhonet.data import read_folder
    >>> for label in ("cat", "dog"):
    ...     Path("pets", label).mkdir(parents=True)
    ...     Image.fromarray(np.full((8, 8), 51, np.uint8)).save(f"pets/{label}/1.png")
    >>> table = read_folder("pets")
    >>> table.X.shape, table.y.tolist()
    ((2, 64), ['cat', 'dog'])
    """
    folder = Path(folder).expanduser()
    files = list_images(folder)
    places = [file.relative_to(folder).parts[:-1] for file in files]
    if len(set(map(len, places))) > 1 or len(places[0]) > 1:
        raise DataError(
            f"{folder} must hold its images either all in the folder itself (no labels) or all in its subfolders, "
            f"whose names are the labels; got {files[0].relative_to(folder)} and {files[-1].relative_to(folder)}"
        )
    shape = shape or choose_shape({file.relative_to(folder): own_shape(file) for file in files}, folder, size)
    check_names(shape, folder, sum(file.stat().st_size for file in files))
    X = np.stack([pixels(file, shape).ravel() for file in files])
    y = labels([place[0] for place in places]) if places[0] else None
    names = tuple(file.relative_to(folder).as_posix() for file in files)
    return Table(X, y, pixel_names(shape), "folder" if places[0] else None, names, named=not is_square(shape))


def list_images(folder: Path) -> list[Path]:
    """All but hidden ones, by name, in linked folders too; a warning tells of files that are left out."""
    files: list[Path] = []
    for place, folders, names in os.walk(folder, followlinks=True):
        inside = Path(place).resolve()
        folders[:] = [f for f in folders if f[0] != "." and not inside.is_relative_to(Path(place, f).resolve())]
        files += [Path(place, name) for name in names if name[0] != "."]
    found = sorted(file for file in files if file.suffix.lower() in KINDS)
    if not found:
        raise DataError(f"{folder} holds no images ({', '.join(KINDS)}); name a folder of images, or a file")
    others = sorted(set(files) - set(found))
    if others:
        warnings.warn(
            f"{folder}: {len(others)} of {len(files)} files are left out, whose names do not end as images do "
            f"({', '.join(KINDS)}), such as {others[0].relative_to(folder)}",
            stacklevel=3,
        )
    return found


def check_names(shape: Shape, folder: Path, held: int) -> None:
    """Raise where the names of all pixels would take far more memory than so many bytes of files are worth."""
    if (wanted := NAME * math.prod(shape)) > allowed(held):
        raise DataError(
            f"{folder} must hold images of fewer pixels: the names of {math.prod(shape):,} columns would take "
            f"{wanted:,} bytes of memory; make them smaller, by size= or --image-size"
        )


def pixel_names(shape: Shape) -> tuple[str, ...]:
    """Names as in a table without any for squares, whose number of pixels tells their shape; else by place."""
    if is_square(shape):
        return tuple(default_names(math.prod(shape)))
    return tuple(PIXEL + " ".join(map(str, place)) for place in np.ndindex(shape))


def is_square(shape: Shape) -> bool:
    return shape[-1] == shape[-2]


def choose_shape(shapes: dict[Path, Shape], folder: Path, size: int | None) -> Shape:
    colour = (3,) if any(len(shape) == 3 for shape in shapes.values()) else ()
    if size is not None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        return *colour, size, size
    sizes = {shape[-2:]: file for file, shape in shapes.items()}
    if len(sizes) > 1:
        (first, one), (second, other) = list(sizes.items())[:2]
        raise DataError(
            f"{folder} must hold images of one size, got {one} of {first[1]} x {first[0]} and {other} of "
            f"{second[1]} x {second[0]}; give a size to bring them to (tikhonet fit --image-size)"
        )
    return *colour, *next(iter(sizes))


def shape_of(names: Sequence[str], width: int) -> Shape | None:
    """The shape of the images behind a model's columns: by their names where it is not a square, grey or in colour.

    No number is that of both; None where it is that of neither.
    """
    if names and names[-1].startswith(PIXEL):
        return tuple(int(last) + 1 for last in names[-1].removeprefix(PIXEL).split())
    shape = square_images(width)
    return shape and shape[shape[0] == 1 :]


def own_shape(file: Path) -> Shape:
    """The shape of an image when it stands upright; its pixels are not read."""
    with opened(file) as image:
        colour = () if image.mode in GREY or image.mode.startswith("I;16") else (3,)
        size = image.height, image.width
        return *colour, *(size[::-1] if image.getexif().get(ORIENTATION) in LYING else size)


def pixels(file: Path, shape: Shape) -> NDArray[np.float32]:
    ops = require("PIL.ImageOps")
    with opened(file) as image:
        if image.mode.startswith("I;16"):
            grey = np.asarray(image, dtype=np.float32) * (255 / 65535)
            image = require("PIL.Image").fromarray(grey.round().astype(np.uint8))
        if image.mode in ("I", "F"):
            raise DataError(
                f"{file} has {image.mode} pixels, whose range is unknown; save it with 8 bits for each colour"
            )
        upright = ops.exif_transpose(image).convert("RGB" if len(shape) == 3 else "L")
    size = shape[-1], shape[-2]
    values = np.asarray(upright if upright.size == size else ops.fit(upright, size), dtype=np.float32)
    values = values / np.float32(255)
    return np.moveaxis(values, -1, 0) if len(shape) == 3 else values


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """An image; errors name the file."""
    images = require("PIL.Image")
    try:
        with images.open(file) as image:
            check_growth(3 * image.width * image.height, file.stat().st_size)
            yield image
    except DataError:
        raise
    except Exception as error:  # Pillow's readers have some ten errors for damage
        raise DataError(
            f"{file} cannot be read as an image: {complaint(error)}; remove it or use another copy"
        ) from None


def labels(names: list[str]) -> NDArray[Any]:
    """Whole numbers if all names are such as they would be written."""
    whole = all(name.isdecimal() and len(name) < 19 and str(int(name)) == name for name in names)
    return np.array(names, dtype=np.int64 if whole else np.str_)
