"""The generated C compiles without a warning, runs without an error of memory, and says what the model says."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.model.export.compiling import STRICT, needs_gcc, run_c
from tests.model.export.models import (
    CLIPPED,
    KINDS,
    NETWORKS,
    PAPER,
    SKIPS,
    expected_scores,
    fitted,
    largest_error,
    oracle,
    random_model,
    rows,
)
from tikhonet import Network
from tikhonet.model.export import c_name, to_c
from tikhonet.model.export.c_text import c_string

pytestmark = needs_gcc


@pytest.mark.parametrize("kind", KINDS)
def test_fitted_models_give_the_same_scores_and_classes(kind, tmp_path):
    model, X = fitted(kind)
    forward = model.exported_model()
    X = X.astype(np.float32)
    scores, best = run_c(model.to_c("net"), forward, X, tmp_path)
    assert largest_error(scores, expected_scores(model, X)) <= 1e-5
    if forward.classes:
        assert np.array_equal(model.classes_[best], model.predict(X))


@pytest.mark.parametrize("nonzero", [0.3, 1.0])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_form_of_network_gives_the_same_scores(name, nonzero, tmp_path):
    forward = random_model(NETWORKS[name], nonzero=nonzero, classes=("a", "b", "c"))
    X = rows(forward)
    scores, best = run_c(to_c(forward, "net"), forward, X, tmp_path)
    assert largest_error(scores, oracle(forward, X)) <= 1e-5
    assert np.array_equal(best, scores.argmax(1))


@pytest.mark.parametrize("kind", ["paper", "clipped", "regressor"])
def test_int8_gives_the_scores_of_the_quantised_weights(kind, tmp_path):
    model, X = fitted(kind)
    forward = model.exported_model()
    X = X.astype(np.float32)
    scores, _ = run_c(model.to_c("net", int8=True), forward, X, tmp_path)
    assert 0 < largest_error(scores, expected_scores(model, X)) <= 0.02


def zeroed(forward, edges=None, head=False):
    W = {
        edge: torch.zeros_like(matrix) if edges is None or edge in edges else matrix
        for edge, matrix in forward.W.items()
    }
    linear = replace(forward.head, coef=np.zeros_like(forward.head.coef)) if head else forward.head
    return replace(forward, W=W, head=linear)


def one_nonzero(forward):
    empty = zeroed(forward, head=True)
    empty.W[1, 0][3, 2] = 1.5
    return empty


EDGES = {
    "an all-zero layer": lambda: zeroed(random_model(PAPER), [(2, 1)]),
    "no weights at all": lambda: zeroed(random_model(PAPER), head=True),
    "one nonzero in all": lambda: one_nonzero(random_model(PAPER)),
    "one nonzero and a head": lambda: replace(one_nonzero(random_model(PAPER)), head=random_model(PAPER).head),
    "empty rows and columns": lambda: random_model(SKIPS, nonzero=0.05),
    "one input, one unit": lambda: random_model(Network.chain([1, 1]), outputs=1),
    "features": lambda: random_model(SKIPS, head=False),
    "values that are clipped": lambda: random_model(CLIPPED),
    "wide gaps": lambda: random_model(Network.chain([3, 1200, 900]), nonzero=0.002),
    "long columns": lambda: random_model(Network.chain([3, 400]), nonzero=0.7),
}


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("name", EDGES)
def test_networks_at_the_edge(name, int8, tmp_path):
    forward = EDGES[name]()
    X = rows(forward)
    scores, _ = run_c(to_c(forward, "net", int8=int8), forward, X, tmp_path)
    assert largest_error(scores, oracle(forward, X)) <= (0.02 if int8 else 1e-5)


def test_a_shift_far_from_zero_loses_nothing(tmp_path):
    forward = random_model(SKIPS)
    scaling = forward.scaling
    moved = {name: getattr(scaling, name) + 2026.1 for name in ("shift", "low", "high")}
    far = replace(forward, scaling=replace(scaling, **moved))
    X = (rows(forward) + 2026).astype(np.float32)
    scores, _ = run_c(to_c(far, "net"), far, X, tmp_path)
    assert largest_error(scores, oracle(far, X)) <= 1e-5


def test_bounds_that_differ_between_features_are_kept(tmp_path):
    forward = random_model(SKIPS)
    low = forward.scaling.low * np.linspace(1, 2, 5) - 9 * (np.arange(5) > 0)
    own = replace(forward, scaling=replace(forward.scaling, low=low))
    X = -np.abs(rows(forward) * 5)
    scores, _ = run_c(to_c(own, "net"), own, X, tmp_path)
    assert largest_error(scores, oracle(own, X)) <= 1e-5


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("name", ["skips", "paper"])
def test_the_bytes_of_flash_are_those_of_the_constant_arrays_in_the_object_file(name, int8, tmp_path):
    made = to_c(random_model(NETWORKS[name], nonzero=0.4), "net", int8=int8)
    _, source = made.save(tmp_path)
    subprocess.run(["gcc", *STRICT, "-O0", "-c", "-o", tmp_path / "net.o", source], check=True)
    listed = subprocess.run(["nm", "-S", tmp_path / "net.o"], capture_output=True, text=True, check=True).stdout
    symbols = [line.split() for line in listed.splitlines() if len(line.split()) == 4]
    assert sum(int(size, 16) for _, size, kind, _ in symbols if kind == "r") == made.flash
    assert sum(int(size, 16) for _, size, kind, _ in symbols if kind in "bBdD") == made.ram
    assert f"#define NET_FLASH_BYTES {made.flash} " in made.header
    assert f"#define NET_RAM_BYTES {made.ram} " in made.header


def test_without_static_scratch_there_is_no_memory_but_the_callers(tmp_path):
    made = to_c(random_model(SKIPS), "net")
    _, source = made.save(tmp_path)
    subprocess.run(["gcc", *STRICT, "-DNET_NO_STATIC_SCRATCH", "-c", "-o", tmp_path / "net.o", source], check=True)
    listed = subprocess.run(["nm", tmp_path / "net.o"], capture_output=True, text=True, check=True).stdout
    assert "net_predict_in" in listed
    assert not {line.split()[-2] for line in listed.splitlines()} & set("bBdDU")  # no variables, nothing from elsewhere


def test_labels_are_literals_that_c_reads_as_the_same_text(tmp_path):
    model, _ = fitted("words")
    made = model.to_c("net")
    made.save(tmp_path)
    main = '#include <stdio.h>\n#include "net.h"\nint main(void) { static const char *const names[] = NET_LABELS; '
    main += "unsigned i; for (i = 0; i < NET_OUTPUTS; i++) { puts(names[i]); } return 0; }\n"
    (tmp_path / "main.c").write_text(main)
    subprocess.run(["gcc", *STRICT, "-o", tmp_path / "main", tmp_path / "main.c"], check=True)
    printed = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout.decode()
    assert printed.splitlines() == model.classes_.tolist()


def test_two_models_fit_into_one_program_and_cpp_reads_the_header(tmp_path):
    for name in ("first", "second"):
        to_c(random_model(SKIPS, classes=(1, 2, 3)), name).save(tmp_path)
    main = '#include "first.h"\n#include "second.h"\nint main(void) { float x[5] = {0}, s[3]; '
    main += "return first_predict(x, s) - second_predict(x, s); }\n"
    (tmp_path / "main.c").write_text(main)
    sources = [tmp_path / f"{name}.c" for name in ("first", "second", "main")]
    subprocess.run(["gcc", *STRICT, "-o", tmp_path / "main", *sources], check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0
    assert '#ifdef __cplusplus\nextern "C" {' in (tmp_path / "first.h").read_text()


def test_layers_that_are_done_with_make_room():
    assert to_c(random_model(PAPER)).ram == 4 * 3 * 9  # four layers in three places
    assert to_c(random_model(Network.chain([6] * 9))).ram == 4 * 2 * 6


def test_equal_models_give_equal_text():
    assert to_c(random_model(SKIPS), "net") == to_c(random_model(SKIPS), "net")


@pytest.mark.parametrize("name", ["", "2net", "my net", "net-1", "_net", "n" * 41, 'x";', "é"])
def test_names_that_c_cannot_have_are_refused(name):
    with pytest.raises(ValueError, match="name must be a letter and up to 39 letters, digits and _"):
        to_c(random_model(SKIPS), name)
    to_c(random_model(SKIPS), c_name(name))


def test_weights_that_float32_cannot_hold_are_refused():
    forward = random_model(SKIPS)
    with pytest.raises(ValueError, match="head must fit into float32"):
        to_c(replace(forward, head=replace(forward.head, coef=forward.head.coef * 1e39)))


@pytest.mark.parametrize(
    ("classes", "listed"),
    [
        ((0, 1, 2), "{0, 1, 2}"),
        ((False, True), "{0, 1}"),
        ((1, 70000, 2), '{"1", "70000", "2"}'),
        ((0.5, 1.5), '{"0.5", "1.5"}'),
    ],
)
def test_labels_are_numbers_where_every_int_holds_them(classes, listed):
    made = to_c(random_model(SKIPS, outputs=len(classes), classes=classes), "net")
    assert f"#define NET_LABELS {listed}\n" in made.header


def test_texts_are_escaped():
    assert c_string('a"b\\c??/\n') == '"a\\042b\\134c\\077\\077/\\012"'
