"""Model files of estimators, and their torch modules."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC

from tests.estimators.samples import QUICK, blobs, line
from tikhonet import Network, SquaredHinge, Tikhonov
from tikhonet.estimators import BCDClassifier, BCDFeatures, BCDRegressor
from tikhonet.model.storage import ModelFormatError
from tikhonet.problem.losses import Huber

X, Y = blobs()
MODELS = {
    "two classes": lambda: BCDClassifier(**QUICK).fit(X, Y > 0),
    "words": lambda: BCDClassifier(head="svm", **QUICK).fit(X, np.array(["a", "bb", "ccc"])[Y]),
    "objects": lambda: BCDClassifier(**QUICK).fit(X, np.array(["a", "bb", "ccc"], object)[Y]),
    "own network": lambda: BCDClassifier(network=Network.chain([4, 5]), head=LinearSVC(), random_state=0).fit(X, Y),
    "numbers": lambda: BCDRegressor(**QUICK).fit(*line(features=4)),
    "several numbers": lambda: BCDRegressor(skip=True, **QUICK).fit(*line(features=4, outputs=2)),
    "features": lambda: BCDFeatures(**QUICK).fit(X, Y),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def outputs(model):
    methods = ("predict", "predict_proba", "decision_function", "transform")
    return {name: getattr(model, name)(X) for name in methods if hasattr(model, name)}


def test_a_loaded_model_gives_the_same_to_the_bit(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    for name, value in outputs(model).items():
        np.testing.assert_array_equal(outputs(loaded)[name], value)
        assert outputs(loaded)[name].dtype == value.dtype
    assert loaded.status_ is model.status_
    sizes = model.hidden_layer_sizes
    assert loaded.hidden_layer_sizes == (sizes if isinstance(sizes, str) else list(np.atleast_1d(sizes)))


def test_what_a_file_does_not_keep_says_so(tmp_path):
    model = BCDClassifier(**QUICK).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = BCDClassifier.load(tmp_path / "model")
    for read in (lambda: loaded.history_, lambda: loaded.certificate_, loaded.plot):
        with pytest.raises(AttributeError, match="_ is not kept in a model file; fit again to have it"):
            read()
    assert model.history_
    with pytest.raises(NotFittedError):
        _ = BCDClassifier().history_


@pytest.mark.parametrize("names", [[0, 1, 2], [0.0, 1.0, 2.0], ["a", "bb", "ccc"]])
def test_weights_of_classes_are_kept(names, tmp_path):
    weights = dict(zip(np.array(names), [1, 2.5, 3], strict=True))
    BCDClassifier(class_weight=weights, **QUICK).fit(X, np.array(names)[Y]).save(tmp_path / "model")
    loaded = BCDClassifier.load(tmp_path / "model")
    assert loaded.class_weight == weights
    loaded.fit(X, np.array(names)[Y])


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"loss": SquaredHinge()}, 'loss must be .* use set_params.loss="squared_hinge"'),
        ({"loss": Huber(0.5)}, 'loss must be .* use set_params.decision="forward"'),
        ({"lift": Tikhonov()}, 'lift must be .* use set_params.lift="tikhonov"'),
    ],
)
def test_energies_of_objects_are_not_saved(settings, remedy, tmp_path):
    model = BCDClassifier(decision="energy", **settings, **QUICK).fit(X, Y)
    with pytest.raises(ModelFormatError, match=remedy):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_energies_are_kept_with_a_name_in_place_of_the_object(tmp_path):
    model = BCDClassifier(decision="energy", loss=SquaredHinge(), gamma=np.array([0.5]), **QUICK).fit(X, Y)
    model.set_params(loss="squared_hinge").save(tmp_path / "model")
    np.testing.assert_array_equal(BCDClassifier.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_names_of_features_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    BCDClassifier(**QUICK).fit(frame, Y).save(tmp_path / "model")
    assert list(BCDClassifier.load(tmp_path / "model").feature_names_in_) == list("abcd")


def test_flipped_bits_of_header_and_data_are_noticed(tmp_path):
    path = tmp_path / "model"
    BCDClassifier((2,), random_state=0).fit(X[:, :2], Y).save(path)
    raw = path.read_bytes()
    header = 8 + int.from_bytes(raw[:8], "little")
    bits = np.r_[np.arange(8 * header), np.random.default_rng(0).integers(8 * header, 8 * len(raw), 100)]
    for bit in [*bits[: 8 * header : 31], *bits[8 * header :]]:
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        with pytest.raises(ModelFormatError):
            BCDClassifier.load(path)


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "model"
    BCDRegressor(**QUICK).fit(*line()).save(path)
    with pytest.raises(ModelFormatError, match=r"a BCDClassifier, got 'BCDRegressor'; use BCDRegressor\.load"):
        BCDClassifier.load(path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ModelFormatError):
        BCDRegressor.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"solver": "evil"}},
        {"parameters": {"no_such": 1}},
        {"network": {"widths": [9, 16], "edges": [[1, 0, "learned"]]}},
        {"fitted": {}},
        {"fitted": {"classes": [0, 1], "dtype": "<i8", "sharpness": {"forward": 1.0, "energy": 1.0}}},
        {"fitted": {"classes": [0, 1, 2], "dtype": "V8", "sharpness": {"forward": 1.0, "energy": 1.0}}},
        {"status": "FINE"},
        {"sparsity": {"kind": "none"}},
        {"sparsity": 3},
        {"n_iter": "many"},
    ],
)
def test_sealed_files_with_wrong_content_are_refused(change, tmp_path):
    from tikhonet.model import storage

    BCDClassifier(**QUICK).fit(X, Y).save(tmp_path / "model")
    header, tensors = storage.load(tmp_path / "model")
    storage.save(tmp_path / "model", header | change, tensors)
    with pytest.raises(ModelFormatError):
        BCDClassifier.load(tmp_path / "model")


def test_the_torch_module_gives_the_same(model):
    wild = X.copy()
    wild[0] = 1e6
    module = model.to_torch()
    out = module(torch.tensor(wild)).detach().numpy()
    if isinstance(model, BCDFeatures):
        expected = model.transform(wild)
    elif isinstance(model, BCDRegressor):
        expected = model.predict(wild).reshape(len(wild), -1)
    else:
        expected = model.decision_function(wild)
        out = out[:, 1] - out[:, 0] if expected.ndim == 1 else out
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)
