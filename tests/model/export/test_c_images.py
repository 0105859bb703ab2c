"""Networks of images in C99: windows over images, with the scores of torch and little more than the weights' bytes."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.model.export.compiling import STRICT, needs_gcc, run_c
from tests.model.export.models import largest_error, random_model, rows
from tikhonet import AvgPool2d, Conv2d, GlobalAverage, Network
from tikhonet.model.export import to_c, to_csr
from tikhonet.model.export.packing import quantise
from tikhonet.model.heads import Head
from tikhonet.model.predictor import Predictor
from tikhonet.model.scaling import Scaling

pytestmark = needs_gcc

SKIPS = Network(
    [(3, 8, 8), (3, 8, 8), (3, 8, 8), (3, 8, 8), 6],
    {
        (1, 0): Conv2d(3, 3, padding=1),
        (2, 1): Conv2d(3, (5, 1), padding=(2, 0)),
        (2, 0): "identity",
        (3, 2): Conv2d(3, 1),
        (3, 1): "identity",
        (4, 3): "dense",
    },
    bias=[1, 3],
)
NETWORKS = {
    "groups": Network.sequential(
        (2, 6, 6), Conv2d(4, 3, padding=1, groups=2), AvgPool2d(2), Conv2d(3, 2), GlobalAverage()
    ),
    "strides": Network.sequential((2, 9, 7), Conv2d(4, 3, 2, 1, 2), AvgPool2d((2, 1), padding=(1, 0)), 5),
    "covering": Network.sequential((2, 5, 5), Conv2d(4, 3, padding=3, dilation=3), Conv2d(6, 5), Conv2d(3, 1)),
    "skips": SKIPS,
}


@pytest.mark.parametrize(("nonzero", "int8"), [(1.0, False), (0.2, False), (1.0, True), (0.2, True)])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_window_gives_the_scores_of_torch(name, nonzero, int8, tmp_path):
    """With int8 they are those of the model whose weights were rounded, by at most half a step each."""
    model = random_model(NETWORKS[name], nonzero=nonzero, classes=("a", "b", "c"))
    X, expected = rows(model), model
    if int8:
        W = {pair: torch.from_numpy(rounded(M.numpy())) if pair[1] >= 0 else M for pair, M in model.W.items()}
        expected = replace(model, W=W, head=Head(rounded(model.head.coef), model.head.intercept))
    scores, best = run_c(to_c(model, "net", int8=int8), model, X, tmp_path)
    assert largest_error(scores, expected.scores(X.astype(np.float64))) <= 1e-5
    assert np.array_equal(best, scores.argmax(1))


def rounded(matrix):
    value, scale, unit = quantise(matrix.astype(np.float32))
    found = unit * scale.astype(np.float64) * value
    assert (np.abs(found - matrix) <= 0.501 * unit * scale).all()
    return found.astype(np.float32)


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_that_know_products_alone_have_the_scores_too(name):
    model = random_model(NETWORKS[name])
    X = rows(model)
    for scores in (to_csr(model).scores(X), Predictor(model, "native")(X)):
        assert largest_error(scores, model.scores(X.astype(np.float64))) <= 1e-5


def test_channels_that_are_dead_take_neither_flash_nor_ram(tmp_path):
    model = random_model(SKIPS, classes=("a", "b", "c"))
    for pair in ((1, 0), (1, -1), (2, 1)):
        model.W[pair][:1] = 0
    small = random_model(NETWORKS["groups"])
    before = to_c(small)
    for pair in ((1, 0), (1, -1)):
        small.W[pair][[0, 2]] = 0
    after = to_c(small)
    assert after.flash < before.flash
    assert after.ram < before.ram
    for one in (model, small):
        scores, _ = run_c(to_c(one, "net"), one, rows(one), tmp_path)
        assert largest_error(scores, one.scores(rows(one).astype(np.float64))) <= 1e-5
    assert to_c(model).ram <= to_c(random_model(SKIPS)).ram


def test_flash_holds_each_filter_bias_and_scale_once_and_ram_two_layers(tmp_path):
    network = Network.sequential((3, 20, 20), Conv2d(8, 3, padding=1), Conv2d(4, 3, stride=2), Conv2d(2, 3))
    by_channel = [np.repeat(values, 400) for values in ([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])]
    shift, scale = by_channel
    model = replace(random_model(network), scaling=Scaling(shift, scale, shift - 5 * scale, shift + 5 * scale))
    made = to_c(model, "net")
    weights = sum(matrix.numel() for matrix in model.W.values()) + model.head.coef.size + 3
    assert made.flash == 4 * (weights + 3 * 14 + 6)  # the sizes of three windows; shift and scale of three channels
    assert made.ram == 4 * (8 * 400 + 1200)
    _, source = made.save(tmp_path)
    subprocess.run(["gcc", *STRICT, "-DNET_SELF_TEST", "-c", "-o", tmp_path / "net.o", source], check=True)
    (tmp_path / "main.c").write_text("int net_self_test(void);\nint main(void) { return !net_self_test(); }\n")
    subprocess.run(["gcc", "-o", tmp_path / "test", tmp_path / "main.c", tmp_path / "net.o"], check=True)
    assert subprocess.run([tmp_path / "test"], check=False).returncode == 0
    listed = subprocess.run(["nm", tmp_path / "net.o"], capture_output=True, text=True, check=True).stdout
    assert " U " not in listed  # no heap, nothing from elsewhere
    X = rows(model)
    scores, _ = run_c(made, model, X, tmp_path)
    assert largest_error(scores, model.scores(X.astype(np.float64))) <= 1e-5
