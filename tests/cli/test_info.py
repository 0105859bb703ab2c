from pathlib import Path

from torch import nn

from tikhonet import from_torch


def test_the_installation_is_described(run):
    document = run("info", "--json").document
    assert set(document) == {"versions", "threads", "cores", "devices", "data_home"}
    assert "cpu" in document["devices"]
    assert "torch" in run("info").out


def test_a_model_is_described_and_drawn(run, model):
    document = run("info", model, "--json").document
    assert document["widths"] == [64, 30]
    assert document["bytes"] == Path(model).stat().st_size
    assert 0 < document["sparsity"] < 1
    assert document["nonzero"]["1,0"] == 1 - document["sparsity"]
    drawn = run("info", model).out
    assert "x -> W[1,0] 30 x 64" in drawn
    assert "constraint = l1" in drawn


def test_skips_are_drawn(run):
    run(*["fit", "--data", "digits", "--hidden", "64,64", "--skip", "--max-iter", "1", "-o", "m"])
    assert "x -> identity (64)" in run("info", "m").out


def test_the_file_of_a_module_is_named_as_one(run):
    from_torch(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), 4).save("m")
    line = run("info", "m", code=1).err
    assert "m holds a module of torch, without scaling and labels; go on in Python: tikhonet.load('m')" in line
