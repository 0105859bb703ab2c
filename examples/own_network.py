"""
A network of your own, with skips
=================================

The input feeds both hidden layers, and the first one also skips the second. The history of a fit shows what training
and held-out rows had to say.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tikhonet import BCDClassifier, Network

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
edges = {(1, 0): "learned", (2, 0): "learned", (2, 1): "learned", (3, 2): "learned", (3, 1): "identity"}
network = Network([64, 64, 32, 64], edges, bias=True)
model = BCDClassifier(network=network, eval_metric="accuracy", random_state=0).fit(X, y)
print(model.network_)
print({edge: matrix.shape for edge, matrix in model.coefs_.items()})
print(f"test accuracy {model.score(X_test, y_test):.3f}")

# %%
# `plot` draws the loss by epoch, and the metric on held-out rows beside it.

axes = model.plot()
