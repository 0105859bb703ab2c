"""
Learned features in a pipeline
==============================

Learned features in a pipeline: choose the width and the classifier on top by cross-validation.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from tikhonet.estimators import BCDFeatures

if __name__ == "__main__":
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    pipeline = Pipeline([("features", BCDFeatures(random_state=0)), ("classifier", SVC())])
    grid = {
        "features__hidden_layer_sizes": [(30,), (100,)],
        "classifier": [SVC(), LogisticRegression(max_iter=1000)],
    }
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    print(f"chosen: {search.best_params_}")
    print(f"test accuracy {search.score(X_test, y_test):.3f}")
