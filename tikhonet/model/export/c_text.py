"""The pieces of generated C: names and texts, the scaling of inputs, and the loops, one for each form of a matrix.

Inputs are scaled in float32,  u = clip((x - shift) * inverse),  with bounds in units of the spread. Where a shift does
not fit float32 well enough, such as a year's with a spread of months, the rest of it is subtracted after: x - shift is
then exact. Only those loops that a model uses are written out.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from string import Template
from textwrap import wrap

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.encoding import Encoding
from tikhonet.model.export.packing import Array, Packed, narrow
from tikhonet.model.model import single
from tikhonet.model.scaling import Floats, Scaling

Single = NDArray[np.float32]

LONGEST = 40
EQUAL = 1e-6
"""Bounds that differ less than this are one; a shift may be off by this share of the spread."""
TYPES = {
    np.dtype(np.uint8): "uint8_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.uint32): "uint32_t",
    np.dtype(np.int8): "int8_t",
    np.dtype(np.float32): "float",
}

PARTS = re.split(r"^//// (\w+)\n", Path(__file__).with_name("loops.c").read_text(), flags=re.M)
LOOPS = {name: f"{text.rstrip()}\n" for name, text in zip(PARTS[1::2], PARTS[2::2], strict=True)}
"""The functions of `loops.c` by name."""
EACH = {
    "zero": ("", "z[i] = 0.0f;"),
    "copy": ("const float *u, ", "z[i] = u[i];"),
    "add": ("const float *u, ", "z[i] += u[i];"),
    "relu": ("", "z[i] = z[i] > 0.0f ? z[i] : 0.0f;"),
    "exponential": ("", "z[i] = expf(z[i] > 80.0f ? 80.0f : z[i]);"),
    "sigmoid": ("", "z[i] = 1.0f / (1.0f + expf(z[i] < -80.0f ? 80.0f : -z[i]));"),
}
"""The loops over a vector z: what else they take, and what they do to each number, which stays finite."""
LOOPS |= {
    name: Template(LOOPS["each"]).substitute(function=name, operand=operand, statement=statement)
    for name, (operand, statement) in EACH.items()
} | {
    name: Template(LOOPS["at_positions"]).substitute(function=name, assigned=assigned)
    for name, assigned in (("spread", "="), ("add_spread", "+="))
}


def check_name(name: str) -> None:
    """Raise unless the name can begin those of C functions and macros."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and len(name) <= LONGEST:
        return
    raise ValueError(
        f"name must be a letter and up to {LONGEST - 1} letters, digits and _, as it begins names in C, got {name!r}; "
        f"{c_name(name)!r} would do"
    )


def c_name(text: str) -> str:
    """The nearest allowed name."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:LONGEST]
    if not name or not name[0].isalpha():
        name = f"model_{name}".rstrip("_")[:LONGEST]
    return name


def c_string(text: str) -> str:
    """A string literal: bytes of UTF-8 beyond plain ASCII, and what C reads in its own way, as octal escapes."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def literal(value: float) -> str:
    """A number in C; nine digits give the same float32 back, and the largest float32 stands for infinity."""
    if math.isnan(value):
        return "NAN"
    largest = float(np.finfo(np.float32).max)
    return f"{min(max(value, -largest), largest):.8e}f"


def scaled_input(scaling: Scaling, prefix: str, pixels: int = 1) -> tuple[dict[str, Single], dict[str, str]]:
    """The arrays that scaling needs in C, and the expressions that read them: the difference, and both bounds.

    A constant feature has an inverse of 0, so it needs no bounds of its own. A bound that all features share is one
    number in place of an array; images, whose channels have so many pixels, have one for each channel.
    """
    moving = scaling.low < scaling.high
    inverse = np.where(moving, 1 / scaling.scale, 0.0)
    if np.where(moving, 0.0, (scaling.low - scaling.shift) / scaling.scale).any():
        raise ValueError("low and high must equal shift where they are the same: a constant feature is zero")
    shift = single("shift", scaling.shift)
    rest = single("shift", scaling.shift - shift.astype(np.float64))
    arrays, words = {"shift": shift}, {"difference": f"x - {prefix}_shift[i]"}
    if (np.abs(rest) * inverse > EQUAL).any():
        arrays["rest"], words["difference"] = rest, f"({words['difference']}) - {prefix}_rest[i]"
    arrays["inverse"], words["inverse"] = single("1 / scale", inverse), f"{prefix}_inverse[i]"
    for name, limit in (("low", scaling.low), ("high", scaling.high)):
        values = bound((limit - scaling.shift) / scaling.scale, moving)
        if len(values) == len(shift):
            arrays[name], words[name] = values, f"{prefix}_{name}[i]"
        else:
            words[name] = literal(float(values[0]))
    for name, values in arrays.items() if pixels > 1 else ():
        by_channel = values.reshape(-1, pixels)
        if (by_channel == by_channel[:, :1]).all():
            arrays[name] = by_channel[:, 0]
            words = {key: word.replace(f"{name}[i]", f"{name}[i / {pixels}u]") for key, word in words.items()}
    return arrays, words


def encoded_row(encoding: Encoding, prefix: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays that the encoding of a row needs in C, and the functions, the last of which is `encode`."""
    low = encoding.low.astype(np.float32)
    rest = (encoding.low - low.astype(np.float64)).astype(np.float32)
    arrays: dict[str, Array] = {"fill": encoding.fill.astype(np.float32)}
    above = f"filled(row, {prefix}_pieces[i]) - {prefix}_low[i]"
    if (np.abs(rest) > EQUAL * encoding.width).any():
        above, arrays["low_rest"] = f"({above}) - {prefix}_low_rest[i]", rest
    values = {
        "numbers": f"filled(row, {prefix}_numbers[i])",
        "missing": f"row[{prefix}_missing[i]] != row[{prefix}_missing[i]] ? 1.0f : 0.0f",
        "pieces": f"within(({above}) / {prefix}_width[i])",
        "coded": f"row[{prefix}_coded[i]] == (float){prefix}_code[i] ? 1.0f : 0.0f",
    }
    places = {name: found for name in values if len(found := getattr(encoding, name))}
    arrays |= {name: narrow(found.astype(np.uint32)) for name, found in places.items()}
    if "pieces" in places:
        arrays |= {"low": low, "width": single("width", encoding.width)}
    if "coded" in places:
        arrays["code"] = narrow(encoding.code.astype(np.uint32))
    part = Template(LOOPS["part"])
    parts = "".join(part.substitute(length=len(found), value=values[name]) for name, found in places.items())
    words = {"name": prefix, "inputs": encoding.outputs, "parts": parts}
    names = ["filled", *(["within"] if "pieces" in places else []), "encode"]
    return arrays, {name: Template(LOOPS[name]).substitute(words) for name in names}


def comment(text: str) -> list[str]:
    """Lines of a comment in C: printable ASCII, which cannot end it."""
    safe = "".join(letter if 32 <= ord(letter) < 127 and letter != "?" else "_" for letter in text)
    apart = re.sub(r"(?<=[*/])(?=[*/])", " ", safe)
    return [f" * {line}" for line in wrap(apart, 110, subsequent_indent="    ")]


def bound(values: Floats, moving: NDArray[np.bool_]) -> Single:
    """A single number where all agree."""
    used = values[moving] if moving.any() else np.zeros(1)
    if np.ptp(used) <= EQUAL * np.abs(used).max():
        return single("bounds", used[:1])
    return single("bounds", np.where(moving, values, 0.0))


def c_type(array: Array) -> str:
    return TYPES[array.dtype]


def product_name(matrix: Packed, of_input: bool, window: bool) -> str:
    """Such as `add_sparse_8_8_int8`: the bits of counts and steps, and the type of the values."""
    kind = "float" if matrix.scale is None else "int8"
    kind += "_of_input" if of_input else "_window" if window else ""
    if matrix.count is None or matrix.step is None:
        return f"add_dense_{kind}"
    return f"add_sparse_{8 * matrix.count.itemsize}_{8 * matrix.step.itemsize}_{kind}"


def product(matrix: Packed, of_input: bool, window: bool) -> str:
    """The function of that name; the one of the input layer also takes x, and multiplies u(x) - u(0)."""
    parameters = "".join(f"const {c_type(array)} *{name}, " for name, array in matrix.arrays.items())
    quantised = matrix.scale is not None
    if quantised:
        parameters += "float unit, "
    if of_input:
        parameters += "const float *x, "
    factor = "(u[j] - scaled(0.0f, j))" if of_input else "u[j]"
    form, value = "dense" if matrix.count is None else "sparse", "(float)value[i]" if quantised else "value[i]"
    return Template(LOOPS[f"{form}_window" if window else form]).substitute(
        function=product_name(matrix, of_input, window),
        parameters=parameters,
        skipped="an input" if of_input else "a u",
        active="x[j] != 0.0f" if of_input else "u[j] != 0.0f",
        factor=f"{factor} * (unit * (float)scale[j])" if quantised else factor,
        value=value,
        weight=f"{value} * (unit * (float)scale[j])" if quantised else value,
    )
