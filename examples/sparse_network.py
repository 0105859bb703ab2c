"""
Sparse networks of both kinds
=============================

Sparse networks of both kinds: rows in the l1 ball, as in the paper's BCD-S, and a budget of nonzeros.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tikhonet.estimators import BCDClassifier

if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    settings = {
        "dense": {},
        "l1 ball of radius 4": {"constraint": "l1", "radius": 4.0},
        "l1 ball of radius 1": {"constraint": "l1", "radius": 1.0},
        "5% of the weights": {"sparsity": 0.05},
        "5% in the l1 ball of radius 4": {"sparsity": 0.05, "constraint": "l1", "radius": 4.0},
        "a quarter of the units": {"sparsity": 0.25, "sparsity_over": "units"},
    }
    for name, choice in settings.items():
        model = BCDClassifier((100, 100), random_state=0, **choice).fit(X, y)
        found, accuracy = model.sparsity_, model.score(X_test, y_test)
        nonzeros = sum(found["nonzeros"].values())
        print(f"{name}: {nonzeros:,} nonzero weights (zeros by: {found['kind']}), test accuracy {accuracy:.3f}")
