"""Classical hashing methods to compare with: `fit(X, y, seed)`, then `codes(X)`."""

from tikhonet.baselines.hashes.base import Hash
from tikhonet.baselines.hashes.classifier import ClassifierHash
from tikhonet.baselines.hashes.discrete import DiscreteHash
from tikhonet.baselines.hashes.projections import ITQ, PrincipalComponents, RandomProjections

__all__ = ["ITQ", "ClassifierHash", "DiscreteHash", "Hash", "PrincipalComponents", "RandomProjections"]
