"""
Probabilities that can be trusted
=================================

A model is calibrated if of the rows that it gives 80% four in five are right. Three models with their defaults, on a
table with noisy labels.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tikhonet import BCDClassifier

X, y = make_classification(4000, 20, n_informative=8, n_redundant=4, flip_y=0.15, class_sep=0.8, random_state=1)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.75, random_state=0)
warnings.simplefilter("ignore", ConvergenceWarning)  # of MLPClassifier, whose default is 200 epochs
models = {
    "BCDClassifier": (BCDClassifier(random_state=0), "#00805c"),
    "MLPClassifier": (make_pipeline(StandardScaler(), MLPClassifier(random_state=0)), "#1f6fb2"),
    "HistGradientBoosting": (HistGradientBoostingClassifier(random_state=0), "#c8501e"),
}

# %%
# Above, the share of rows of the second class by the probability that it was given; a calibrated model lies on the
# diagonal. Below, how often each probability was given: a model that is too sure gives hardly anything but 0 and 1.

figure, (upper, lower) = plt.subplots(2, 1, figsize=(6, 6), height_ratios=(2, 1), sharex=True, layout="constrained")
upper.plot([0, 1], [0, 1], color="#a3a8b0", lw=1)
bins = np.linspace(0, 1, 11)
for name, (model, colour) in models.items():
    given = model.fit(X, y).predict_proba(X_test)[:, 1]
    seen, said = calibration_curve(y_test, given, n_bins=10)
    loss = log_loss(y_test, given)
    upper.plot(said, seen, "o-", color=colour, label=f"{name}, log loss {loss:.2f}")
    lower.stairs(np.histogram(given, bins)[0], bins, color=colour, lw=1.5)
    print(f"{name}: test accuracy {model.score(X_test, y_test):.3f}, log loss {loss:.3f}")
upper.set(ylabel="share of the second class", title="1,000 rows to learn from, 3,000 to look at")
lower.set(xlabel="probability that the model gives", ylabel="test rows")
upper.legend()
