"""A classifier used as a hash: the code of a row is the codeword of its predicted class.

It ignores all that hashing is about, and beats many hashing methods on data with few classes (Sablayrolles et al.,
*How should we evaluate supervised hashing?*, 2017), so a comparison without it says little.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tikhonet.hashing.codes import Codes, check_n_bits, pack
from tikhonet.hashing.codewords import codewords
from tikhonet.paper.baselines.hash_base import as_labels


class ClassifierHash:
    """`classifier` is anything with `fit(X, y)` and `predict(X)`; it is fitted in place."""

    def __init__(self, n_bits: int, classifier: Any) -> None:
        check_n_bits(n_bits)
        for method in ("fit", "predict"):
            if not hasattr(classifier, method):
                raise ValueError(f"classifier must have fit and predict, got {type(classifier).__name__}")
        self.n_bits, self.classifier = n_bits, classifier
        self.classes_: Any = None

    def fit(self, X: Any, y: Any, seed: int = 0) -> Self:
        self.assign(y, seed)
        self.classifier.fit(X, y)
        return self

    def assign(self, y: Any, seed: int = 0) -> Self:
        """Give every class its word; all that is to do where the classifier is fitted already."""
        labels = as_labels(y)
        if labels.ndim != 1:
            raise ValueError(f"y must be a vector of labels, got shape {labels.shape}; a class has one codeword")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least 2 classes, got {len(classes)}")
        self.words_ = pack(codewords(len(classes), self.n_bits, seed))
        self.classes_ = classes
        return self

    def codes(self, X: Any) -> Codes:
        """Packed codes, one for each row."""
        if self.classes_ is None:
            raise ValueError("ClassifierHash must be fitted before it makes codes; call fit(X, y) first")
        return self.codes_of(self.classifier.predict(X))

    def codes_of(self, labels: Any) -> Codes:
        """The codewords of labels."""
        labels = np.asarray(labels)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(f"labels must be classes of y, got {labels[unknown][0]!r}")
        found: Codes = self.words_[np.searchsorted(self.classes_, labels)]
        return found
