"""
Classify wines
==============

Classify wines: no scaling to do before, honest probabilities, what was learned and how it ended.
"""

from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from tikhonet.estimators import BCDClassifier

if __name__ == "__main__":
    X, y = load_wine(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    model = BCDClassifier(random_state=0).fit(X, y)
    print(f"{model.n_iter_} epochs: {model.status_.name}")
    print(model.network_)
    print(
        f"test accuracy {model.score(X_test, y_test):.3f}, log loss {log_loss(y_test, model.predict_proba(X_test)):.3f}"
    )
