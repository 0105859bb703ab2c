"""A smoke test for `make dist`: the built wheel in an empty environment, without extras and without this tree."""

import re
import subprocess
import sys
import tempfile
from importlib.metadata import metadata
from pathlib import Path

from sklearn.datasets import load_iris

import tikhonet

assert "site-packages" in Path(tikhonet.__file__).parts, f"{tikhonet.__file__} is not the installed wheel"
described = metadata("tikhonet").get_payload()
relative = [link for pair in re.findall(r'\]\(([^)]+)\)|src="([^"]+)"', described) for link in pair if link]
relative = [link for link in relative if not link.startswith(("https://", "#"))]
assert "make demo" in described, "the README must be in the wheel"
assert not relative, f"links that a package index cannot follow: {relative}"
X, y = load_iris(return_X_y=True)
model = tikhonet.BCDClassifier(random_state=0).fit(X, y)
assert model.score(X, y) > 0.9
with tempfile.TemporaryDirectory() as folder:
    model.save(f"{folder}/iris.tikhonet")
    assert (tikhonet.load(f"{folder}/iris.tikhonet").predict(X) == model.predict(X)).all()
shell = subprocess.run([sys.executable, "-m", "tikhonet", "--help"], capture_output=True, text=True, check=False)
assert shell.returncode == 1, "without the extra `cli` the command must refuse"
assert "tikhonet[cli]" in shell.stderr, shell.stderr
print(f"tikhonet {tikhonet.__version__} works from its wheel")
