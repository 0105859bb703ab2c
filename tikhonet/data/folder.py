"""A folder of image files as a table: one row an image, the name of its subfolder as label."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from tikhonet.data.errors import DataError
from tikhonet.data.home import StrPath
from tikhonet.data.table import Table, default_names

KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
GREY = ("1", "L", "LA", "La", "I", "F")
ORIENTATION, LYING = ExifTags.Base.Orientation, (5, 6, 7, 8)

Shape = tuple[int, ...]
"""Of an image: (height, width), or (3, height, width) in colour."""


def read_folder(folder: StrPath, size: int | None = None, *, width: int | None = None) -> Table:
    """Pixels in [0, 1], the files' names as names of rows, and labels where the images lie in subfolders.

    size   the side of the squares that images are brought to, by cutting off what is too wide or too high and by
           scaling; None leaves them as they are, which must be alike. All are in colour if one of them is.
    width  how many numbers an image must become, in place of `size`: images alike that have so many stay as they are,
           others become the squares that do
    """
    folder = Path(folder).expanduser()
    files = list_images(folder)
    places = [file.relative_to(folder).parts[:-1] for file in files]
    if len(set(map(len, places))) > 1 or len(places[0]) > 1:
        raise DataError(
            f"{folder} must hold its images either all in the folder itself (no labels) or all in its subfolders, "
            f"whose names are the labels; got {files[0].relative_to(folder)} and {files[-1].relative_to(folder)}"
        )
    shape = choose_shape([own_shape(file) for file in files], files, size, width)
    X = np.stack([pixels(file, shape).ravel() for file in files])
    y = labels([place[0] for place in places]) if places[0] else None
    names = tuple(file.relative_to(folder).as_posix() for file in files)
    return Table(X, y, tuple(default_names(X.shape[1])), "folder" if places[0] else None, names)


def list_images(folder: Path) -> list[Path]:
    """All but hidden ones, by name."""
    files = (file for file in folder.rglob("*") if file.suffix.lower() in KINDS and file.is_file())
    found = sorted(file for file in files if not any(part[0] == "." for part in file.relative_to(folder).parts))
    if not found:
        raise DataError(f"{folder} holds no images ({', '.join(KINDS)}); name a folder of images, or a file")
    return found


def choose_shape(shapes: list[Shape], files: list[Path], size: int | None, width: int | None) -> Shape:
    colour = (3,) if any(len(shape) == 3 for shape in shapes) else ()
    if size is not None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        return *colour, size, size
    sizes = {shape[-2:]: file for shape, file in zip(shapes, files, strict=True)}
    own = *colour, *shapes[0][-2:]
    square = square_shape(width) if width else None
    if square and (len(sizes) > 1 or math.prod(own) != width):
        return square
    if len(sizes) > 1:
        (first, one), (second, other) = list(sizes.items())[:2]
        raise DataError(
            f"{one.parent} must hold images of one size, got {one.name} of {first[1]} x {first[0]} and {other.name} of "
            f"{second[1]} x {second[0]}; give a size to bring them to"
        )
    return own


def square_shape(width: int) -> Shape | None:
    """That of square images with so many numbers, grey or in colour; no number is both."""
    side, colour_side = math.isqrt(width), math.isqrt(width // 3)
    if side**2 == width:
        return side, side
    return (3, colour_side, colour_side) if 3 * colour_side**2 == width else None


def own_shape(file: Path) -> Shape:
    """That of an image when it stands upright; its pixels are not read."""
    with opened(file) as image:
        colour = () if image.mode in GREY or image.mode.startswith("I;16") else (3,)
        size = image.height, image.width
        return *colour, *(size[::-1] if image.getexif().get(ORIENTATION) in LYING else size)


def pixels(file: Path, shape: Shape) -> NDArray[np.float32]:
    with opened(file) as image:
        if image.mode.startswith("I;16"):
            grey = np.asarray(image, dtype=np.float32) * (255 / 65535)
            image = Image.fromarray(grey.round().astype(np.uint8))
        if image.mode in ("I", "F"):
            raise DataError(
                f"{file} has {image.mode} pixels, whose range is unknown; save it with 8 bits for each colour"
            )
        upright = ImageOps.exif_transpose(image).convert("RGB" if len(shape) == 3 else "L")
    size = shape[-1], shape[-2]
    values = np.asarray(upright if upright.size == size else ImageOps.fit(upright, size), dtype=np.float32)
    values = values / np.float32(255)
    return np.moveaxis(values, -1, 0) if len(shape) == 3 else values


@contextmanager
def opened(file: Path) -> Iterator[Image.Image]:
    """An image; errors name the file."""
    try:
        with Image.open(file) as image:
            yield image
    except DataError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{file} cannot be read as an image: {error}; remove it or use another copy") from None


def labels(names: list[str]) -> NDArray[Any]:
    """Whole numbers if all names are such as they would be written."""
    whole = all(name.isdecimal() and len(name) < 19 and str(int(name)) == name for name in names)
    return np.array(names, dtype=np.int64 if whole else np.str_)
