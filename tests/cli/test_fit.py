import warnings

import numpy as np
import pytest

from tests.estimators.samples import QUICK, blobs
from tikhonet.cli.fit import train
from tikhonet.estimators import BCDClassifier, BCDRegressor
from tikhonet.hashing.hasher import BCDHasher
from tikhonet.problem.ranks import Ranks


def test_the_issues_example_writes_a_model_and_says_how_it_ended(run, tmp_path):
    words = "fit --data digits --solver proximal --max-iter 5 --seed 0 --output FILE"
    out = run(*words.split()).out
    assert "used up before a stationary point" in out
    assert "raise --max-iter" in out
    assert "FILE" in out
    assert isinstance(BCDClassifier.load(tmp_path / "FILE"), BCDClassifier)


def test_too_few_steps_are_named_with_a_remedy(run):
    words = ["fit", "--data", "digits", "--hidden", "10", "--max-iter", 2, "-o", "m"]
    remedy = "To do: raise --max-iter: 2 epochs were only"
    assert remedy in run(*words).out
    assert remedy in run(*words, "--json").document["message"]
    enough = [*words, "--batch-size", 25, "--json"]
    assert "To do" not in run(*enough).document["message"]


def test_other_warnings_of_a_fit_are_shown():
    class Talkative(BCDClassifier):
        def fit(self, X, y):
            warnings.warn("something else", UserWarning, stacklevel=1)
            return super().fit(X, y)

    X, y = blobs()
    with pytest.warns(UserWarning, match="something else"):
        assert train(Talkative(max_iter=1, **QUICK), X, y, Ranks())[1].startswith("raise --max-iter")


def test_the_same_seed_gives_the_same_file(run, tmp_path):
    for name in ("a", "b"):
        run("fit", "--data", "digits", "--hidden", "20", "--max-iter", 2, "--seed", 3, "-o", name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_option_reaches_the_estimator(run, tmp_path):
    words = """fit --data digits --hidden 20,20,20 --skip --constraint l2 --radius 2 --head svm --loss huber
        --lift fenchel --gamma 1,2,3 --max-iter 2 --tol 0.01 --batch-size 300 --dropout 0.1,0.3 --no-early-stopping
        --validation-fraction 0.2 --patience 7 --class-weight balanced --seed 4 --threads 1 --dtype float64 -o m"""
    run(*words.split())
    expected = {
        "hidden_layer_sizes": [20, 20, 20],
        "skip": True,
        "constraint": "l2",
        "radius": 2.0,
        "head": "svm",
        "loss": "huber",
        "lift": "fenchel",
        "gamma": [1.0, 2.0, 3.0],
        "max_iter": 2,
        "tol": 0.01,
        "batch_size": 300,
        "dropout": [0.1, 0.3],
        "early_stopping": False,
        "validation_fraction": 0.2,
        "n_iter_no_change": 7,
        "class_weight": "balanced",
        "random_state": 4,
        "n_jobs": 1,
        "dtype": "float64",
    }
    found = BCDClassifier.load(tmp_path / "m").get_params()
    assert {name: found[name] for name in expected} == expected


def test_real_targets_are_regressed(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    np.savez(tmp_path / "rows.npz", X=X, y=X[:, 0] ** 2 + 0.1)
    document = run("fit", "--data", "rows.npz", "--hidden", "30", "--json", "-o", "m").document
    assert document["task"] == "regression"
    assert document["training"]["r2"] > 0.8
    assert isinstance(BCDRegressor.load(tmp_path / "m"), BCDRegressor)


def test_several_numbers_a_row_have_a_held_out_score_too(run, tmp_path):
    X = np.random.default_rng(0).normal(size=(400, 3))
    np.savez(tmp_path / "rows.npz", X=X, y=np.column_stack([X[:, 0], 100 * X[:, 1] + 3]))
    words = ["fit", "--data", "rows.npz", "--task", "regression", "--hidden", "30", "--json", "-o", "m"]
    assert 0.9 < run(*words).document["held_out"]["r2"] <= 1


@pytest.mark.parametrize(("task", "Model"), [("regression", BCDRegressor), ("hash", BCDHasher)])
def test_the_widths_are_those_of_the_estimator_unless_given(run, tmp_path, task, Model):
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(size=(60, 3)), y=np.arange(60) % 2)
    run("fit", "--data", "rows.npz", "--task", task, "--max-iter", 1, "-o", "m")
    assert Model.load(tmp_path / "m").hidden_layer_sizes == Model().hidden_layer_sizes
    assert "The widths of the hidden layers. [default: (auto)]" in " ".join(run("fit", "--help").out.split())


def test_whole_numbers_that_hardly_repeat_need_a_task(run, mistake, tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(size=(60, 2)), y=np.arange(60))
    assert "--task" in mistake("fit", "--data", "rows.npz", "-o", "m")
    words = ["fit", "--data", "rows.npz", "--task", "regression", "--max-iter", 2, "--hidden", "5", "--json", "-o", "m"]
    assert run(*words).document["task"] == "regression"


def test_a_table_of_whole_targets_needs_a_task(mistake, tmp_path):
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    np.savez(tmp_path / "diabetes.npz", X=X, y=y.astype(int))
    said = mistake("fit", "--data", "diabetes.npz", "-o", "m")
    assert "214 different whole numbers in 442 rows; use --task regression" in said


@pytest.mark.parametrize(("kinds", "rows"), [(20, 40), (20, 442)])
def test_whole_numbers_that_repeat_are_classes(run, tmp_path, kinds, rows):
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(size=(rows, 2)), y=np.arange(rows) % kinds)
    words = ["fit", "--data", "rows.npz", "--hidden", "5", "--max-iter", 2, "--head", "ridge", "--json", "-o", "m"]
    assert run(*words).document["task"] == "classification"


def table_of(labels):
    return "\n".join(["a,b,y", *(f"{k},{k % 7},{label}" for k, label in enumerate(labels))])


def test_targets_with_one_word_are_no_classes(run, mistake, tmp_path):
    (tmp_path / "rows.csv").write_text(table_of([0.5, 1.5, "unknown", *np.arange(40) / 4]))
    words = ["fit", "--data", "rows.csv", "--label", "y", "--hidden", "5", "--max-iter", 2, "-o", "m"]
    said = mistake(*words)
    assert "--task" in said
    assert "numbers but for 1 of 43 rows, such as 'unknown' in row 3" in said
    assert "must be numbers, got 'unknown' in row 3" in mistake(*words, "--task", "regression", code=1)


def test_a_regressor_is_not_compared_with_text(run, mistake, tmp_path):
    (tmp_path / "rows.csv").write_text(table_of(np.arange(40) / 4))
    (tmp_path / "text.csv").write_text(table_of(["low", "high"]))
    run("fit", "--data", "rows.csv", "--label", "y", "--hidden", "5", "--max-iter", 2, "-o", "m")
    said = mistake("evaluate", "m", "--data", "text.csv", "--label", "y", code=1)
    assert "must be numbers, got 'low' in row 1" in said


def test_digits_that_begin_with_a_zero_are_names_of_classes(run, tmp_path):
    (tmp_path / "rows.csv").write_text(table_of(["07", "7"] * 20))
    words = ["--label", "y", "--hidden", "5", "--max-iter", 2, "--json", "-o", "m"]
    assert run("fit", "--data", "rows.csv", *words).document["task"] == "classification"
    assert BCDClassifier.load(tmp_path / "m").classes_.tolist() == ["07", "7"]


def test_planted_data_serve_both_tasks(run):
    small = ["--data", "planted", "--hidden", "20", "--max-iter", 2, "--json"]
    assert run("fit", *small, "-o", "c").document["task"] == "classification"
    assert run("fit", *small, "--task", "regression", "-o", "r").document["task"] == "regression"
    assert "r2" in run("evaluate", "r", "--data", "planted", "--json").document


def test_a_regressor_learns_several_numbers_a_row(run, mistake):
    X = np.random.default_rng(0).normal(size=(60, 2))
    np.savez("two.npz", X=X, y=X @ [[1, 2], [3, 4]])
    np.savez("one.npz", X=X, y=X[:, 0])
    fitted = run("fit", "--data", "two.npz", "--hidden", "5", "--max-iter", 2, "--json", "-o", "m")
    assert fitted.document["task"] == "regression"
    assert "r2" in run("evaluate", "m", "--data", "two.npz", "--json").document
    for command in ("evaluate", "certify"):
        assert "one.npz must be 2 a row, got 1" in mistake(command, "m", "--data", "one.npz", code=1)


def test_a_table_with_names_and_text_labels(run, iris):
    document = run("fit", "--data", "iris.csv", "--label", "kind", "--hidden", "20", "--json", "-o", "m").document
    assert document["task"] == "classification"
    assert document["features"] == 4
    assert document["training"]["error_percent"] < 10
    assert run("evaluate", "m", "--data", "iris.csv", "--label", -1, "--json").document["rows"] == 150


@pytest.mark.parametrize("suffix", [".npy", "-idx2-ubyte"])
def test_files_without_names_take_the_label_by_index(run, tmp_path, suffix):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 9, size=(120, 5)).astype(np.uint8)
    rows[:, 4] = rows[:, 0] > 4
    path = tmp_path / f"rows{suffix}"
    if suffix == ".npy":
        np.save(path, rows)
    else:
        path.write_bytes(bytes([0, 0, 8, 2]) + np.array(rows.shape, ">i4").tobytes() + rows.tobytes())
    words = ["--data", path.name, "--label", 4, "--hidden", "10", "--max-iter", 5, "--json", "-o", "m"]
    assert run("fit", *words).document["features"] == 4


def test_every_parameter_that_words_and_numbers_can_say_is_an_option_with_its_description(run):
    """None is written again for the command line, so none can be forgotten or out of date there."""
    objects = {"callbacks", "verbose", "warm_start", "monotonic_cst"}
    elsewhere = {"hidden_layer_sizes": "hidden", "n_bits": "bits", "n_iter_no_change": "patience"}
    elsewhere |= {"random_state": "seed", "n_jobs": "threads", "categorical_features": "categorical"}
    elsewhere |= {"memory_budget": "memory"}
    told = " ".join(run("fit", "--help").out.split())
    for Model in (BCDClassifier, BCDRegressor, BCDHasher):
        for name in set(Model().get_params()) - objects:
            assert f" --{elsewhere.get(name, name).replace('_', '-')} " in told, name
    assert not [name for name in objects if f"--{name.replace('_', '-')} " in told]
    assert "--max-iter auto|N Epochs of the stochastic solver, iterations of the others. [default: (auto)]" in told


def test_a_parameter_that_an_estimator_gains_is_an_option_at_once(monkeypatch):
    from numbers import Real

    from sklearn.utils._param_validation import Interval, StrOptions

    from tikhonet.cli import parameter_options as fit

    class Patient(BCDRegressor):
        """A regressor that waits.

        Parameters
        ----------
        wait : {"never", "always"} or float, default="never"
            How long to wait: seconds.
        """

        wait = "never"
        _parameter_constraints = {  # noqa: RUF012
            **BCDRegressor._parameter_constraints,
            "wait": [StrOptions({"always", "never"}), Interval(Real, 0, None, closed="left")],
        }

    monkeypatch.setitem(fit.ESTIMATORS, "regression", Patient)
    parameter = fit.Parameter("wait")
    option = parameter.annotation().__metadata__[0]
    assert option.metavar == "never|always|X"
    assert option.help == "How long to wait, for --task regression."
    assert option.show_default == "never"
    assert parameter.value("2.5", "regression") == 2.5
    assert parameter.value("always", "regression") == "always"
    with pytest.raises(fit.Failure, match=r"--wait must be .* got -1"):
        parameter.value("-1", "regression")
