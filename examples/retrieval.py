"""
From embeddings to neighbours
=============================

Embeddings of any model -> short codes -> nearest neighbours: codes of labels alone, and of labels and neighbours.

The embeddings are made here, by a small network that has seen six of the ten digits; yours come from wherever you have
them, as a matrix with one row a thing.
"""

import numpy as np

from tikhonet import BCDFeatures
from tikhonet.data import load
from tikhonet.hashing import BCDHasher, HammingIndex, evaluate, neighbour_recall, pack

train, test = load("digits", "train"), load("digits", "test")
known = train.y < 6
network = BCDFeatures(hidden_layer_sizes=(128, 64), random_state=0).fit(train.X[known], train.y[known])
base, queries = (network.transform(part.X).astype(np.float32) for part in (train, test))

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
