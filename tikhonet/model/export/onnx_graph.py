"""ONNX: the same graph for any runtime, for any number of rows at once.

Input `x` (float32, rows x fields): numbers, NaN where one is missing, codes of categories; where there is more than
plain numbers the metadata `columns` says which, as JSON. Outputs of a classifier: `label`, `probabilities`, `scores`;
of a regressor `prediction`; of a transformer `features`. Encoding and scaling are done in float64, as a shift may need
it; the rest is float32. Matrices that are smaller so are stored as places and values, which runtimes unfold when they
load the model.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tikhonet.model.encoding import Encoding
from tikhonet.model.export.format import Export, Format, dense_ram
from tikhonet.model.model import Model, array, single
from tikhonet.model.scaling import Floats
from tikhonet.model.storage import write_atomically
from tikhonet.network.edges import Edge
from tikhonet.network.extras import require
from tikhonet.network.operations import Constant, Product, Window

OPSET = 17
"""The operators of 2022: all that are used here are in it, and runtimes of several years read it."""
IR_VERSION = 8


def to_onnx(model: Model, path: str | os.PathLike[str] | None = None) -> Any:
    """An `onnx.ModelProto` that passed ONNX's own checker; also written to `path` if that is given."""
    made = Graph(model.checked()).proto()
    if path is not None:
        write_atomically(Path(path), (made.SerializeToString(),))
    return made


class Onnx(Format):
    """ONNX, for any runtime that reads it."""

    name = "onnx"
    ending = ".onnx"
    package = "onnx"

    def make(self, model: Model, name: str = "model", weights: str = "float32") -> Export:
        made = to_onnx(model)
        return Export(made.SerializeToString(), made.ByteSize(), dense_ram(model))


class Graph:
    """Nodes and constants, collected in order."""

    def __init__(self, model: Model) -> None:
        self.onnx = require("onnx")
        self.model = model
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def proto(self) -> Any:
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        outputs = self.head(self.network(self.scale()))
        made = helper.make_graph(
            self.nodes,
            "tikhonet",
            [helper.make_tensor_value_info("x", kinds.FLOAT, ["rows", self.model.fields])],
            [helper.make_tensor_value_info(*output) for output in outputs],
            self.constants,
        )
        proto = helper.make_model(made, producer_name="tikhonet", opset_imports=[helper.make_opsetid("", OPSET)])
        proto.ir_version = IR_VERSION
        if self.model.columns is not None:
            helper.set_model_props(proto, {"columns": json.dumps(self.model.columns.as_list())})
        self.onnx.checker.check_model(proto, full_check=True)
        return proto

    def scale(self) -> str:
        """u_0 = (clip(x, low, high) - shift) / scale, in float64."""
        double, float_ = self.onnx.TensorProto.DOUBLE, self.onnx.TensorProto.FLOAT
        u = self.node("Cast", ["x"], to=double)
        if self.model.encoding is not None:
            u = self.encode(u, self.model.encoding)
        for operator, name in (("Max", "low"), ("Min", "high"), ("Sub", "shift"), ("Div", "scale")):
            u = self.node(operator, [u, self.constant(name, getattr(self.model.scaling, name).astype(np.float64))])
        return self.node("Cast", [u], "u0", to=float_)

    def encode(self, x: str, encoding: Encoding) -> str:
        """The numbers that the scaling takes; a missing one without a fill is the mean."""
        double = self.onnx.TensorProto.DOUBLE
        absent = self.node("IsNaN", [x])
        filled = self.node("Where", [absent, self.constant("fill", encoding.fill), x])
        parts = [self.gathered(filled, "numbers", encoding)]
        if len(encoding.missing):
            parts.append(self.node("Cast", [self.gathered(absent, "missing", encoding)], to=double))
        if len(encoding.pieces):
            above = self.node(
                "Sub", [self.gathered(filled, "pieces", encoding), self.constant("piece_low", encoding.low)]
            )
            share = self.node("Div", [above, self.constant("piece_width", encoding.width)])
            ends = (self.constant(f"piece_{end}", np.array(end, np.float64)) for end in (0, 1))
            parts.append(self.node("Clip", [share, *ends]))
        if len(encoding.coded):
            same = self.node("Equal", [self.gathered(filled, "coded", encoding), self.constant("code", encoding.code)])
            parts.append(self.node("Cast", [same], to=double))
        made = self.node("Concat", parts, axis=1)
        mean = self.constant("mean", self.model.scaling.shift.astype(np.float64))
        return self.node("Where", [self.node("IsNaN", [made]), mean, made])

    def gathered(self, x: str, name: str, encoding: Encoding) -> str:
        return self.node("Gather", [x, self.constant(name, getattr(encoding, name))], axis=1)

    def network(self, u: str) -> str:
        """Eq. 1; the last layer's name."""
        for n in self.model.network.hidden:
            terms = [self.term(n, m) for m in self.model.network.sources(n)]
            z = terms[0]
            for term in terms[1:]:
                z = self.node("Add", [z, term])
            u = self.activation(z, f"u{n}")
        return u

    def term(self, n: int, m: int) -> str:
        edge, W = self.model.network.edges[n, m], self.model.W.get((n, m))
        window = edge.window(W)
        if window is not None:
            return self.window(f"W{n}_{m}", f"u{m}", edge, window)
        match edge.export(W):
            case Constant(values):
                return self.constant(f"bias{n}", single(f"bias{n}", array(values)))
            case Product(matrix):
                return self.node("MatMul", [f"u{m}", self.matrix(f"W{n}_{m}", array(matrix))])
        return f"u{m}"

    def window(self, name: str, source: str, edge: Edge, window: Window) -> str:
        """A window over images, which stand in one line before and after."""
        images = self.node("Reshape", [source, self.constant(f"{name}_source", np.array([-1, *edge.source]))])
        filters = [] if window.filters is None else [self.constant(name, single(name, array(window.filters)))]
        found = self.node(window.operator, [images, *filters], **window.attributes)
        return self.node("Reshape", [found, self.constant(f"{name}_target", np.array([-1, edge.outputs]))])

    def activation(self, z: str, output: str) -> str:
        lower, upper = self.model.network.activation.lower, self.model.network.activation.upper
        if (lower, upper) == (0.0, math.inf):
            return self.node("Relu", [z], output)
        bounds = (
            self.constant(f"{output}_{end}", np.array(value, np.float32))
            for end, value in (("lower", lower), ("upper", upper))
        )
        return self.node("Clip", [z, *bounds], output)

    def head(self, u: str) -> list[tuple[str, int, list[Any]]]:
        """The outputs: name, type, shape."""
        model, kinds = self.model, self.onnx.TensorProto
        if model.head is None:
            self.node("Identity", [u], "features")
            return [("features", kinds.FLOAT, ["rows", model.outputs])]
        name = "scores" if model.classes else "prediction"
        product = self.node("MatMul", [u, self.matrix("coef", model.head.coef)])
        intercept = self.constant("intercept", single("intercept", model.head.intercept))
        if model.link.linear:
            self.node("Add", [product, intercept], name)
        else:
            model.link.onnx(self, self.node("Add", [product, intercept]), name)
        if not model.classes:
            return [(name, kinds.FLOAT, ["rows", model.outputs])]
        labels = label_array(model)
        sharpness = self.constant("sharpness", np.array(model.sharpness, np.float32))
        self.node("Softmax", [self.node("Mul", [name, sharpness])], "probabilities", axis=1)
        best = self.node("ArgMax", [name], axis=1, keepdims=0)
        self.node("Gather", [self.constant("classes", labels), best], "label", axis=0)
        label_kind = self.onnx.helper.np_dtype_to_tensor_dtype(labels.dtype)
        return [
            ("label", label_kind, ["rows"]),
            ("probabilities", kinds.FLOAT, ["rows", model.outputs]),
            ("scores", kinds.FLOAT, ["rows", model.outputs]),
        ]

    def node(self, operator: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, name: str, values: NDArray[Any]) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def matrix(self, name: str, matrix: Floats) -> str:
        """The transpose, as it stands to the right of the rows."""
        values = np.ascontiguousarray(single(name, matrix).T)
        places = np.flatnonzero(values)
        if 8 * len(places) >= values.nbytes or values.size >= 2**31:  # a place takes 4 bytes, a value 4
            return self.constant(name, values)
        size = self.constant(f"{name}_size", np.array([values.size]))
        entries = self.constant(f"{name}_values", values.ravel()[places])
        where = self.node(
            "Cast", [self.constant(f"{name}_places", places.astype(np.int32))], to=self.onnx.TensorProto.INT64
        )
        filled = self.node("ScatterElements", [self.node("ConstantOfShape", [size]), where, entries], axis=0)
        return self.node("Reshape", [filled, self.constant(f"{name}_shape", np.array(values.shape))], name)


def label_array(model: Model) -> NDArray[Any]:
    """The classes in a type that ONNX has."""
    labels = np.array(model.classes)
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64)
    if labels.dtype.kind == "U":
        return labels.astype(object)
    return labels
