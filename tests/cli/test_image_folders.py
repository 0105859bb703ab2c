"""Folders of image files on the command line: from images to codes to the names of neighbours."""

import csv
import shutil

import numpy as np
import pytest
from PIL import Image, ImageOps

from tikhonet.cli.inputs import Source, open_model
from tikhonet.cli.search import read_codes
from tikhonet.data import load

FIT = ["fit", "--hidden", "20", "--max-iter", "3", "--data", "train", "-o", "m"]


@pytest.fixture
def folders(tmp_path):
    """Some digits as `train/7/12.png` and, four times as large, as `new/3.png`."""
    digits = load("digits")
    for number, (image, label) in enumerate(zip(digits.values[:160], digits.y, strict=False)):
        place = tmp_path / "train" / str(label) if number < 150 else tmp_path / "new"
        place.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray((image * 15).astype(np.uint8))
        (picture if number < 150 else picture.resize((32, 32))).save(place / f"{number}.png")


def test_from_images_to_the_names_of_neighbours(run, folders, tmp_path):
    run(*FIT, "--task", "hash", "--bits", 16)
    run("hash", "m", "--data", "train", "-o", "base.npz")
    run("hash", "m", "--data", "new", "-o", "new.npz")
    run("search", "base.npz", "new.npz", "--k", 2, "-o", "near.csv")
    held, asked = read_codes(tmp_path / "base.npz"), read_codes(tmp_path / "new.npz")
    assert len(held.names) == 150
    with (tmp_path / "near.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 20
    for line in lines:
        assert line["query name"] == asked.names[int(line["query"])]
        assert line["name"] == held.names[int(line["id"])]
    first = run("hash", "m", "--data", "new").out.splitlines()[0]
    assert first == f"{bytes(asked.codes[0]).hex()} {asked.names[0]}"
    found = run("search", "base.npz", "new.npz", "--radius", 0, "--json").document
    assert found["names"] == [[str(held.names[number]) for number in numbers] for numbers in found["ids"]]


def test_a_classifier_takes_the_same_folders(run, folders):
    run(*FIT)
    assert run("evaluate", "m", "--data", "train", "--json").document["error_percent"] < 50
    lines = run("predict", "m", "--data", "new").out.splitlines()
    assert lines[0] == "prediction,image"
    assert lines[1].endswith(",150.png")
    run("predict", "m", "--data", "new", "-o", "p.npy")


def test_an_image_size_makes_images_alike(run, folders, mistake):
    assert run(*FIT, "--image-size", 10, "--json").document["features"] == 100
    assert "--image-size" in mistake("fit", "--data", "digits", "--image-size", 10, "-o", "m")
    assert "images have the names of their folders" in mistake(*FIT, "--label", "x")


def test_images_without_labels_train_nothing(folders, mistake):
    assert "must hold its images in subfolders" in mistake("fit", "--data", "new", "-o", "m", code=1)


def test_names_that_do_not_fit_their_codes_are_refused(tmp_path, mistake):
    np.savez(tmp_path / "c.npz", codes=np.zeros((3, 2), np.uint8), names=np.array(["a", "b"]))
    assert "names must be one text for each of the 3 codes" in mistake("search", "c.npz", "c.npz", code=1)


def test_a_model_of_oblong_images_takes_only_their_shape(run, tmp_path):
    """However the pixels of 12 x 8 are counted, 8 x 12 has as many."""
    rng = np.random.default_rng(0)
    for number in range(40):
        place = tmp_path / "train" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (12, 8), dtype=np.uint8)).save(place / f"{number}.png")
    lying = Image.fromarray(rng.integers(0, 256, (8, 12), dtype=np.uint8))
    (tmp_path / "new").mkdir()
    lying.save(tmp_path / "new" / "lying.png")
    run(*FIT, "--task", "hash", "--bits", 16)
    saved = open_model(tmp_path / "m")
    table = saved.rows(Source(str(tmp_path / "new")), "test")
    cut = np.asarray(ImageOps.fit(lying, (8, 12)), np.float32).ravel() / 255
    np.testing.assert_allclose(table.X, [cut], atol=1e-6)
    word = bytes(saved.estimator.transform(table.X)[0]).hex()
    assert run("hash", "m", "--data", "new").out.split() == [word, "lying.png"]


def test_names_of_files_are_printed_as_they_are(run, folders, tmp_path):
    (tmp_path / "new" / "150.png").rename(tmp_path / "new" / "0:cat:\t.png")
    run(*FIT, "--task", "hash", "--bits", 16)
    assert run("hash", "m", "--data", "new").out.splitlines()[0].endswith(" 0:cat:\t.png")
    run("hash", "m", "--data", "new", "-o", "new.npz")
    found = run("search", "new.npz", "new.npz", "--k", 1, "--json").document
    assert found["query_names"][0] == found["names"][0][0] == "0:cat:\t.png"


def test_one_class_is_named_without_an_option(folders, tmp_path, mistake):
    for label in range(1, 10):
        shutil.rmtree(tmp_path / "train" / str(label))
    assert "the labels must hold at least 2 classes, got 1 class: 0" in mistake(*FIT, "--task", "hash", code=1)


def test_a_network_of_convolutions_by_its_name(run, folders, mistake):
    run(*FIT, "--network", "lenet", "--image-size", 12)
    assert run("evaluate", "m", "--data", "train", "--json").document["error_percent"] < 50
    assert "u1  6x12x12 = relu" in run("info", "m").out
    assert len(run("predict", "m", "--data", "new").out.splitlines()) == 11
    run("export", "m", "--format", "c", "-o", "m.c")
    assert "small-conv" in mistake(*FIT, "--network", "small-con")
    assert "wants larger images" in mistake(*FIT, "--network", "lenet")
