"""
A table with gaps and categories
================================

Numbers in different units, text, missing values: the table is given as it is. What the model uses is compared with
how the table was made.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from tikhonet import BCDClassifier

random = np.random.default_rng(0)
table = pd.DataFrame(
    {
        "age": random.integers(18, 80, 1200).astype(float),
        "income": random.lognormal(10, 0.6, 1200),
        "city": random.choice(["Bern", "Graz", "Lyon", "Ulm"], 1200),
        "visits": random.poisson(3, 1200),
        "noise": random.normal(size=1200),
    }
)
urge = 2 * np.log(table["income"] / 22_000) + 1.5 * (table["city"] == "Lyon") - 0.05 * (table["age"] - 45)
buys = np.where(random.random(1200) < 1 / (1 + np.exp(-2 * urge)), "buys", "leaves")
table.loc[random.random(1200) < 0.15, "income"] = np.nan
table.loc[random.random(1200) < 0.05, "city"] = None

# %%
# There is nothing to scale, fill in or encode before.

X, X_test, y, y_test = train_test_split(table, buys, random_state=0)
model = BCDClassifier(random_state=0).fit(X, y)
print(f"{model.n_iter_} epochs: {model.status_.name}")
print(f"test accuracy {model.score(X_test, y_test):.3f}, log loss {log_loss(y_test, model.predict_proba(X_test)):.3f}")

# %%
# On the left, how far predictions move when a column is exchanged between rows. On the right, the probability of
# "buys" by
# income, all else as in the first test row; the mark is what the model says where the income is missing.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.barh(table.columns[::-1], model.feature_importances_[::-1], color="#1f6fb2")
left.set(xlabel="importance (share of the total effects)", title="What the model uses")
row = X_test.iloc[[0]]
incomes = np.geomspace(6_000, 80_000, 60)
many = pd.concat([row] * 60, ignore_index=True).assign(income=incomes)
right.plot(incomes / 1000, model.predict_proba(many)[:, 0], color="#00805c")
gap = model.predict_proba(row.assign(income=np.nan))[0, 0]
right.axhline(gap, color="#c8501e", ls="--", label="income is missing")
words = f"age {row['age'].iloc[0]:.0f}, {row['city'].iloc[0]}"
right.set(xlabel="income, thousands", ylabel="probability of buys", title=words, ylim=(0, 1))
right.legend()
