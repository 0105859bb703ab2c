"""
Retrieval with an order within the class
========================================

Embeddings of any model become short codes, and codes find neighbours. Codes of labels alone give a whole class one
code, so nothing orders what they find; a share of the bits can know neighbours instead.

The embeddings are made here, by a small network that has seen six of the ten digits; yours come from wherever you
have them, as a matrix with one row a thing.
"""

import matplotlib.pyplot as plt
import numpy as np

from tikhonet import BCDFeatures
from tikhonet.data import load
from tikhonet.hashing import BCDHasher, HammingIndex, evaluate, neighbour_recall, pack

train, test = load("digits", "train"), load("digits", "test")
known = train.y < 6
network = BCDFeatures(hidden_layer_sizes=(128, 64), random_state=0).fit(train.X[known], train.y[known])
base, queries = (network.transform(part.X).astype(np.float32) for part in (train, test))

first = {}
for structure in (0.0, "auto"):
    hasher = BCDHasher(n_bits=48, structure=structure, random_state=0).fit(base, train.y)
    codes, scores = hasher.transform(base), hasher.decision_function(queries)
    found = evaluate(pack(scores), test.y, codes, train.y, n_bits=48)
    labels = {"query_labels": test.y, "base_labels": train.y}
    near = neighbour_recall(pack(scores), queries, codes, base, k=10, **labels)
    print(f"structure={structure!r}: {hasher.mixture_.bits} of 48 bits know neighbours")
    print(f"  label mAP                {found.mean_average_precision.expected:.4f}")
    print(f"  true neighbours found    {near.expected:.4f}")
    print(f"  distinct codes           {hasher.report_.distinct:,} of {len(codes):,}")
    index = HammingIndex(48).add(codes)
    plain, sure = index.search(pack(scores), 10)[1], index.search(pack(scores), 10, scores=scores, candidates=100)[1]
    for name, ids in (("by Hamming distance", plain), ("by the queries' scores", sure)):
        distance = np.linalg.norm(base[ids] - queries[:, None], axis=2).mean()
        print(f"  distance of the first 10 {name}: {distance:.2f}")
    first[structure] = sure

# %%
# What is found first for four queries: above by codes of labels alone, whose order within the class is that of the
# database; below by codes that know neighbours, whose digits are written as that of the query is.

figure = plt.figure(figsize=(9, 5.2), layout="constrained")
rows = figure.subplots(8, 9)
for place, query in enumerate((0, 5, 9, 20)):
    for line, (structure, words) in enumerate(((0.0, "labels"), ("auto", "neighbours"))):
        shown = [test.X[query], *train.X[first[structure][query, :8]]]
        for column, (axes, image) in enumerate(zip(rows[2 * place + line], shown, strict=True)):
            axes.imshow(image.reshape(8, 8), cmap="gray_r" if column else "Greens")
            axes.set(xticks=[], yticks=[])
        rows[2 * place + line][0].set_ylabel(words, rotation=0, ha="right", va="center")
rows[0][0].set_title("query")
rows[0][4].set_title("found first")
