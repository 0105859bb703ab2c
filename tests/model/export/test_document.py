"""The worked example of docs/guide/export.md works as it is printed."""

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from tests.model.export.compiling import needs_gcc
from tikhonet.cli.app import app
from tikhonet.data import load
from tikhonet.estimators import BCDClassifier
from tikhonet.model.export import formats

TEXT = (Path(__file__).parents[3] / "docs" / "guide" / "export.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.S | re.M)


@needs_gcc
def test_the_way_from_data_to_firmware(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("main.c").write_text(blocks("c")[0])
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line)
        if words[0] == "tikhonet":
            result = CliRunner().invoke(app, words[1:], prog_name="tikhonet")
            assert result.exit_code == 0, result.stderr
        else:
            subprocess.run(words, check=True)
    model, X = BCDClassifier.load("digits.tikhonet"), load("digits", "test").X[:20]
    typed = [" ".join(map(str, row)) for row in X]
    printed = [subprocess.run(["./digits"], input=row, capture_output=True, text=True).stdout for row in typed]
    # Eight bits may turn a row whose two best scores are nearly tied, and which goes by the machine's rounding.
    best = np.sort(model.predict_proba(X), axis=1)
    clear = best[:, -1] > 2 * best[:, -2]
    assert clear.sum() >= 15
    assert np.array_equal(np.array(printed, int)[clear], model.predict(X)[clear])


def test_every_format_of_the_table_is_known():
    named = dict(re.findall(r"`(c|onnx|torch|csr) (?:\[--int8\] )?--output net(\.\w+)`", TEXT))
    assert named == {name: format_.ending for name, format_ in formats().items()}
