"""
Quantiles, and curves that may only rise
========================================

A band that should hold eight of ten new rows, and a regression that is told that it never falls.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from tikhonet import BCDRegressor

random = np.random.default_rng(0)
X = np.sort(random.uniform(0, 10, 900))[:, None]
y = 3 * np.sqrt(X[:, 0]) + random.gamma(1.0, 0.15 * X[:, 0] + 0.2)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

# %%
# The noise grows with x and has a long tail upwards, so a mean with a symmetric band would miss it.

quantiles = {
    q: BCDRegressor(loss="quantile", quantile=q, n_networks=1, random_state=0).fit(X, y) for q in (0.1, 0.5, 0.9)
}
rising = BCDRegressor(monotonic_cst=[1], random_state=0).fit(X, y)
inside = (quantiles[0.1].predict(X_test) <= y_test) & (y_test <= quantiles[0.9].predict(X_test))
print(f"test rows inside of the band: {inside.mean():.0%}")
print(f"test R2 of the rising mean: {rising.score(X_test, y_test):.3f}")

# %%
line = np.linspace(0, 10, 300)[:, None]
figure, axes = plt.subplots(figsize=(6.8, 4), layout="constrained")
axes.scatter(X_test, y_test, s=10, color="#a3a8b0", label="test rows")
low, middle, high = (model.predict(line) for model in quantiles.values())
axes.fill_between(line[:, 0], low, high, color="#1f6fb2", alpha=0.2, label="quantiles 0.1 to 0.9")
axes.plot(line, middle, color="#1f6fb2", label="median")
axes.plot(line, rising.predict(line), color="#00805c", label="mean that may only rise")
axes.set(xlabel="x", ylabel="y")
axes.legend()
