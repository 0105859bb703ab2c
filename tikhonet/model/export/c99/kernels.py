"""The loops of the generated C, one for each form of a matrix. Only those that a model uses are written out."""

from __future__ import annotations

from string import Template

import numpy as np

from tikhonet.model.export.c99.packing import Array, Packed

TYPES = {
    np.dtype(np.uint8): "uint8_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.uint32): "uint32_t",
    np.dtype(np.int8): "int8_t",
    np.dtype(np.float32): "float",
}

LOAD = Template("""\
/* An input in units of its own spread, cut off at both ends. */
static float scaled(float x, uint32_t i)
{
    const float u = ($difference) * ${name}_inverse[i];
    const float v = u < $low ? $low : u;
    return v > $high ? $high : v;
}

static void load(const float *x, float *z)
{
    uint32_t i;
    for (i = 0; i < ${inputs}u; i++) {
        z[i] = scaled(x[i], i);
    }
}
""")

VECTORS = {
    "zero": """\
static void zero(uint32_t length, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] = 0.0f;
    }
}
""",
    "copy": """\
static void copy(uint32_t length, const float *u, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] = u[i];
    }
}
""",
    "add": """\
static void add(uint32_t length, const float *u, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] += u[i];
    }
}
""",
    "relu": """\
static void relu(uint32_t length, float *z)
{
    uint32_t i;
    for (i = 0; i < length; i++) {
        z[i] = z[i] > 0.0f ? z[i] : 0.0f;
    }
}
""",
    "highest": """\
static int highest(uint32_t length, const float *z)
{
    uint32_t i, best = 0;
    for (i = 1; i < length; i++) {
        if (z[i] > z[best]) {
            best = i;
        }
    }
    return (int)best;
}
""",
}

DENSE = Template("""\
/* z += W u, by columns; $skipped of zero is passed over. */
static void $function(uint32_t rows, uint32_t columns, ${parameters}const float *u, float *z)
{
    uint32_t i, j;
    for (j = 0; j < columns; j++) {
        if ($active) {
            const float factor = $factor;
            for (i = 0; i < rows; i++) {
                z[i] += $value * factor;
            }
        }
        value += rows;
    }
}
""")

SPARSE = Template("""\
/* z += W u, by columns: count[j] entries, each so many rows below the one before; $skipped of zero is passed over. */
static void $function(uint32_t columns, ${parameters}const float *u, float *z)
{
    uint32_t i, j;
    for (j = 0; j < columns; j++) {
        const uint32_t entries = count[j];
        if ($active) {
            const float factor = $factor;
            float *at = z;
            for (i = 0; i < entries; i++) {
                at += step[i];
                *at += $value * factor;
            }
        }
        step += entries;
        value += entries;
    }
}
""")


def c_type(array: Array) -> str:
    return TYPES[array.dtype]


def product_name(matrix: Packed, of_input: bool) -> str:
    """Such as `add_sparse_8_8_int8`: the bits of counts and steps, and the type of the values."""
    kind = ("float" if matrix.scale is None else "int8") + ("_of_input" if of_input else "")
    if matrix.count is None or matrix.step is None:
        return f"add_dense_{kind}"
    return f"add_sparse_{8 * matrix.count.itemsize}_{8 * matrix.step.itemsize}_{kind}"


def product(matrix: Packed, of_input: bool) -> str:
    """The function of that name; the one of the input layer also takes x, and multiplies u(x) - u(0)."""
    parameters = "".join(f"const {c_type(array)} *{name}, " for name, array in matrix.arrays.items())
    quantised = matrix.scale is not None
    if quantised:
        parameters += "float unit, "
    if of_input:
        parameters += "const float *x, "
    factor = "(u[j] - scaled(0.0f, j))" if of_input else "u[j]"
    template = DENSE if matrix.count is None else SPARSE
    return template.substitute(
        function=product_name(matrix, of_input),
        parameters=parameters,
        skipped="an input" if of_input else "a u",
        active="x[j] != 0.0f" if of_input else "u[j] != 0.0f",
        factor=f"{factor} * (unit * (float)scale[j])" if quantised else factor,
        value="(float)value[i]" if quantised else "value[i]",
    )
