"""A sparse network: every row of every weight matrix in the l1 ball, as in the paper's BCD-S."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tikhonet.estimators import BCDClassifier

if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    for radius in (None, 4.0, 1.0):
        constraint = {} if radius is None else {"constraint": "l1", "radius": radius}
        model = BCDClassifier((100, 100), random_state=0, **constraint).fit(X, y)
        zeros, accuracy = 100 * model.sparsity_, model.score(X_test, y_test)
        print(f"radius {radius}: {zeros:.1f}% of the weights are zero, test accuracy {accuracy:.3f}")
