"""Sec. 3.3.1 on a small device: a trained network as one pair of C99 files, with no dependency and no heap."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import ClassVar

import numpy as np
import torch

from tikhonet import __version__
from tikhonet.model.export import c_text
from tikhonet.model.export.c_text import c_string, check_name, literal, scaled_input
from tikhonet.model.export.format import Export, Format
from tikhonet.model.export.packing import Array, Packed, pack
from tikhonet.model.export.program import OUTPUT, Add, Clip, Load, Multiply, Put, Slide, Step, Vector, compile_model
from tikhonet.model.model import Label, Model, array, single
from tikhonet.model.storage import write_atomically
from tikhonet.network.shapes import shown_shape
from tikhonet.trainer.sparsity.zeros import compact

LINE = 118
SELF_TEST = """#ifdef {upper}_SELF_TEST
/* 1 if the scores of two rows are those that the model had when this was written, else 0; needs no other file. */
int {name}_self_test(void);
#endif

"""

HEADER, SOURCE = (Template(Path(__file__).with_name(name).read_text()) for name in ("predict.h", "predict.c"))


@dataclass(frozen=True)
class CModel:
    """The texts of NAME.h and NAME.c, and the memory that they take."""

    name: str
    header: str
    source: str
    flash: int
    """Bytes of constant arrays."""
    ram: int
    """Bytes of scratch."""

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Write both files into a folder that exists; their paths."""
        header, source = (Path(folder, f"{self.name}.{end}") for end in ("h", "c"))
        write_atomically(header, (self.header.encode(),))
        write_atomically(source, (self.source.encode(),))
        return header, source


def to_c(model: Model, name: str = "model", *, int8: bool = False) -> CModel:
    """C99 whose scores are those of the model in float32, or with weights of 8 bits.

    Only weights are quantised: inputs, layers, biases and scores are float32.
    """
    check_name(name)
    forms = [Writer(one, name, int8).write() for one in with_and_without_dead_units(model.checked())]
    return min(forms, key=lambda made: made.flash + made.ram)


def with_and_without_dead_units(model: Model) -> list[Model]:
    """The model, and one without the units that are zero for every input, if there are any.

    The latter may be larger, since a skip between layers that have lost different units has to pick the others.
    """
    if model.head is None:
        return [model]
    network, W, coef = compact(model.network, model.W, torch.from_numpy(model.head.coef))
    if network == model.network:
        return [model]
    return [model, replace(model, network=network, W=W, head=replace(model.head, coef=coef.numpy()))]


class C(Format):
    """C99 without dependency or heap: NAME.c, and NAME.h beside it."""

    name = "c"
    ending = ".c"
    weights = ("int8", "float32")
    beside: ClassVar[Mapping[str, str]] = {"header": ".h"}

    def check_path(self, path: Path) -> None:
        super().check_path(path)
        check_name(path.stem)

    def make(self, model: Model, name: str = "model", weights: str = "float32") -> Export:
        made = to_c(model, name, int8=weights == "int8")
        files = made.source.encode(), made.flash, made.ram, True, {"header": made.header.encode()}
        return Export(*files, notes={"function": f"{name}_predict(x, scores)"})


class Writer:
    """Collects arrays and functions while it goes through the steps."""

    def __init__(self, model: Model, name: str, int8: bool) -> None:
        self.model, self.name, self.int8 = model, name, int8
        self.arrays: dict[str, Array] = {}
        self.functions: dict[str, str] = {}
        self.program = compile_model(model)
        self.scratch, before = self.program.length, []
        if model.encoding is not None:  # the encoded row is what all that follows calls x
            before = [f"    float *x = scratch + {self.scratch};\n", "    encode(row, x);\n"]
            self.scratch += model.inputs
            arrays, self.functions = c_text.encoded_row(model.encoding, name)
            self.arrays |= arrays
        self.body = [*before, *(f"    {self.statement(step)}\n" for step in self.program.steps)]

    def write(self) -> CModel:
        flash = sum(array.nbytes for array in self.arrays.values())
        ram, encoded = 4 * self.scratch, self.model.encoding is not None
        returned, body = "void", self.body
        if not self.model.link.linear:
            body = [*body, f"    {self.vector(self.model.link.loop)}({self.model.outputs}u, scores);\n"]
        if self.model.classes:
            returned, body = "int", [*body, f"    return {self.vector('highest')}({self.model.outputs}u, scores);\n"]
        common = {"name": self.name, "upper": self.name.upper(), "title": self.title(), "returned": returned}
        source = SOURCE.substitute(
            common,
            arrays="\n".join(declaration(f"{self.name}_{name}", array) for name, array in self.arrays.items()),
            functions="\n".join(self.functions.values()),
            body="".join(body),
            give="return " if self.model.classes else "",
            row="row" if encoded else "x",
            includes="#include <math.h>\n" if encoded or not self.model.link.linear else "",
            test="" if self.int8 else self.self_test(),
        )
        header = HEADER.substitute(
            common,
            inputs=self.model.fields,
            outputs=self.model.outputs,
            flash=flash,
            ram=ram,
            scratch=self.scratch,
            columns=self.columns(),
            finite="Inputs are finite, or NaN where one is missing." if encoded else "Inputs must be finite.",
            declared="" if self.int8 else SELF_TEST.format(name=self.name, upper=self.name.upper()),
            labels=self.labels(),
            usage=f"{'int best = ' if self.model.classes else ''}{self.name}_predict(x, scores);",
            meaning=self.meaning(),
        )
        return CModel(self.name, header, source, flash, ram)

    def statement(self, step: Step) -> str:
        """One line of the function's body."""
        to = place(step.to)
        match step:
            case Load():
                return self.load(to)
            case Put(source=None):
                return f"{self.vector('zero')}({step.length}u, {to});"
            case Put(source=Vector() as source) | Add(source=Vector() as source) if source.each > 1:
                function = self.vector("spread" if isinstance(step, Put) else "add_spread")
                return f"{function}({len(source.values)}u, {source.each}u, {self.operand(source)}, {to});"
            case Put(source=source) if source is not None:
                return f"{self.vector('copy')}({step.length}u, {self.operand(source)}, {to});"
            case Add(source=source):
                return f"{self.vector('add')}({step.length}u, {self.operand(source)}, {to});"
            case Multiply():
                packed = pack(step.name, step.matrix, self.int8)
                return self.multiply(step, packed) if packed else ";"
            case Slide():
                return self.slide(step)
            case Clip(lower=0.0, upper=math.inf):
                return f"{self.vector('relu')}({step.length}u, {to});"
            case Clip(lower=lower, upper=upper):
                return f"{self.vector('clip')}({literal(lower)}, {literal(upper)}, {step.length}u, {to});"
        raise AssertionError(step)

    def load(self, to: str) -> str:
        pixels = math.prod(self.model.network.shapes[0][1:])
        arrays, words = scaled_input(self.model.scaling, self.name, pixels)
        self.arrays |= arrays
        self.functions["load"] = Template(c_text.LOOPS["load"]).substitute(
            words, inputs=self.model.inputs, name=self.name
        )
        return f"load(x, {to});"

    def slide(self, step: Slide) -> str:
        size, weights = self.store(f"{step.name}_size", np.array(step.sizes, np.uint32)), step.weights
        self.vector("slide")
        if weights is None:
            channels = step.edge.source[0]
            return f"{self.vector('average')}({channels}u, {size}, {place(step.source)}, {place(step.to)});"
        packed = pack(step.name, array(weights), self.int8)
        return self.multiply(step, packed, size) if packed else ";"

    def multiply(self, step: Multiply | Slide, packed: Packed, window: str = "") -> str:
        """The call of a product; a window over images is given by the name of its sizes."""
        function = c_text.product_name(packed, step.of_input, bool(window))
        self.functions[function] = c_text.product(packed, step.of_input, bool(window))
        rows, columns = packed.shape
        words = [f"{rows}u"] if packed.count is None else []
        words += [f"{columns}u", *(self.store(f"{step.name}_{part}", array) for part, array in packed.arrays.items())]
        words += [literal(packed.unit)] if packed.scale is not None else []
        words += ["x"] if step.of_input else [window] if window else []
        return f"{function}({', '.join([*words, place(step.source), place(step.to)])});"

    def operand(self, source: Vector | int) -> str:
        """A constant array, or a place."""
        if isinstance(source, Vector):
            return self.store(source.name, single(source.name, source.values))
        return place(source)

    def vector(self, function: str) -> str:
        self.functions[function] = c_text.LOOPS[function]
        return function

    def store(self, name: str, array: Array) -> str:
        self.arrays[name] = array
        return f"{self.name}_{name}"

    def columns(self) -> str:
        """Lines of the header on what the numbers of a row are."""
        if self.model.columns is None:
            return ""
        lines, place = [" *", " * The numbers of a row:"], 0
        for column in self.model.columns.columns:
            last = place + len(column.fields()) - 1
            where = f"x[{place}]" if last == place else f"x[{place}] to x[{last}]"
            lines += c_text.comment(f"{where} {column.name}: {column.meaning()}")
            place = last + 1
        return "\n".join(lines) + "\n"

    def self_test(self) -> str:
        """A function that compares the scores of two rows with those that are right."""
        model, scaling = self.model, self.model.scaling
        rows = np.zeros((2, model.fields), np.float32)
        numbers = np.arange(model.inputs) if model.encoding is None else model.encoding.numbers
        with np.errstate(over="ignore"):
            rows[:, numbers] = (scaling.shift + [[0.5], [-0.5]] * scaling.scale)[:, : len(numbers)]
        rows = np.nan_to_num(rows)
        if model.encoding is not None:
            rows[1] = np.nan
        wanted = single("scores", model.scores(rows.astype(np.float64)))
        words = {name: ",\n".join(map(cells, values)) for name, values in (("rows", rows), ("wanted", wanted))}
        text = Template(c_text.LOOPS["self_test"]).substitute(words, name=self.name, upper=self.name.upper())
        return f"\n{text}"

    def title(self) -> str:
        kind = f"{self.model.outputs} classes" if self.model.classes else f"{self.model.outputs} outputs"
        weights = "int8" if self.int8 else "float32"
        layers = " -> ".join(map(shown_shape, self.model.network.shapes))
        return f"{self.name}: layers {layers}, {kind}, {weights} weights. Written by tikhonet {__version__}."

    def meaning(self) -> str:
        if self.model.classes:
            return "The score of each class; returns the place of the highest."
        return "The features of x." if self.model.head is None else "The outputs for x."

    def labels(self) -> str:
        if not self.model.classes:
            return ""
        upper = self.name.upper()
        return (
            f"#define {upper}_LABELS {{{', '.join(labels(self.model.classes))}}}\n"
            f"#define {upper}_SHARPNESS {literal(self.model.sharpness)}"
            " /* probabilities are the softmax of this times the scores */\n"
        )


def place(offset: int) -> str:
    if offset == OUTPUT:
        return "scores"
    return f"scratch + {offset}" if offset else "scratch"


def labels(classes: tuple[Label, ...]) -> list[str]:
    """Numbers that every `int` holds as they are, everything else as text."""
    if all(isinstance(value, int) and abs(value) < 2**15 for value in classes):
        return [str(int(value)) for value in classes]
    return [c_string(str(value)) for value in classes]


def declaration(name: str, array: Array) -> str:
    return f"static const {c_text.c_type(array)} {name}[{len(array)}] = {cells(array)};\n"


def cells(array: Array) -> str:
    """The numbers of an array in braces."""
    values = array.tolist()
    words = [literal(value) for value in values] if array.dtype == np.float32 else list(map(str, values))
    width = max(map(len, words)) + 1
    each = max(1, LINE // width)
    lines = [",".join(words[start : start + each]) for start in range(0, len(words), each)]
    return "{\n" + ",\n".join(lines) + "\n}"
