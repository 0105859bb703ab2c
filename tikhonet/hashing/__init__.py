"""Binary codes: learning them, packing, Hamming search, retrieval measures."""

from tikhonet.hashing.codes import hamming, pack, signs, unpack
from tikhonet.hashing.hasher import BCDHasher
from tikhonet.hashing.index import HammingIndex
from tikhonet.hashing.quality import CodeReport, code_report
from tikhonet.hashing.retrieval import Curve, Retrieval, evaluate
from tikhonet.hashing.ties import Tied

__all__ = [
    "BCDHasher",
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
