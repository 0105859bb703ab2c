import numpy as np

from tikhonet import BCDRegressor
from tikhonet.model.export import Export, Format


class HeadText(Format):
    """The head's coefficients as text."""

    name, ending = "head_text", ".txt"

    def make(self, model, name="model", weights="float32"):
        content = "\n".join(map(str, model.head.coef.tolist())).encode()
        return Export(content, flash=len(content), ram=8 * model.head.coef.size)


X = np.random.default_rng(0).normal(size=(40, 3))
model = BCDRegressor().fit(X, X[:, 0]).model_
Format.kinds["head_text"]().write(model, "head.txt")  # and `tikhonet export my.model --format head_text -o head.txt`
