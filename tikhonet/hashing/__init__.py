"""Binary codes: packing, Hamming search, retrieval measures."""

from tikhonet.hashing.codes import hamming, pack, signs, unpack
from tikhonet.hashing.index import HammingIndex
from tikhonet.hashing.measures import Curve, Retrieval, evaluate
from tikhonet.hashing.quality import CodeReport, code_report
from tikhonet.hashing.ties import Tied

__all__ = [
    "CodeReport",
    "Curve",
    "HammingIndex",
    "Retrieval",
    "Tied",
    "code_report",
    "evaluate",
    "hamming",
    "pack",
    "signs",
    "unpack",
]
