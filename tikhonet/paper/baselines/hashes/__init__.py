"""Classical hashing methods to compare with: `fit(X, y, seed)`, then `codes(X)`."""

from tikhonet.paper.baselines.hashes.base import Hash
from tikhonet.paper.baselines.hashes.classifier import ClassifierHash
from tikhonet.paper.baselines.hashes.discrete import DiscreteHash
from tikhonet.paper.baselines.hashes.projections import ITQ, PrincipalComponents, RandomProjections

__all__ = ["ITQ", "ClassifierHash", "DiscreteHash", "Hash", "PrincipalComponents", "RandomProjections"]
