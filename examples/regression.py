"""
Predict two numbers at once
===========================

Predict two related numbers at once, from features in any units.
"""

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from tikhonet.estimators import BCDRegressor

if __name__ == "__main__":
    X, y = make_friedman1(1000, noise=1.0, random_state=0)
    Y = np.c_[y, 1000 * np.sqrt(np.abs(y))]
    X, X_test, Y, Y_test = train_test_split(X * 10.0 ** np.arange(-5, 5), Y, random_state=0)
    model = BCDRegressor(random_state=0).fit(X, Y)
    print(f"test R2 {model.score(X_test, Y_test):.3f}")
    print("first rows, predicted and true:")
    print(np.hstack([model.predict(X_test[:3]), Y_test[:3]]).round(1))
