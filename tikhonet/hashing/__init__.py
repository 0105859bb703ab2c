"""Binary codes: packing, Hamming search, retrieval measures."""

from tikhonet.hashing.codes import hamming, pack, signs, unpack
from tikhonet.hashing.index import HammingIndex
from tikhonet.hashing.measures import Curve, Retrieval, evaluate
from tikhonet.hashing.quality import CodeReport, report
from tikhonet.hashing.ties import Tied

__all__ = [
    "CodeReport",
    "Curve",
    "HammingIndex",
    "Retrieval",
    "Tied",
    "evaluate",
    "hamming",
    "pack",
    "report",
    "signs",
    "unpack",
]
