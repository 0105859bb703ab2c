"""
Learned features in a pipeline
==============================

Width and classifier are chosen by cross-validation, as in any other pipeline of scikit-learn's.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC

from tikhonet import BCDFeatures

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

# %%
# The mean over the folds, with its standard error: here the choices can hardly be told apart.

tried = search.cv_results_
names = [f"{type(p['classifier']).__name__}, {p['features__hidden_layer_sizes'][0]} units" for p in tried["params"]]
error = np.array(tried["std_test_score"]) / np.sqrt(3)
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
axes.errorbar(tried["mean_test_score"], names, xerr=error, fmt="o", color="#00805c", capsize=3)
axes.set(xlabel="accuracy in cross-validation", title="Features of which width, read by what?")
