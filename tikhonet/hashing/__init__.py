"""Binary codes: learning them, packing, Hamming search, retrieval measures."""

from tikhonet.hashing.codes import CodeReport, code_report, hamming, pack, signs, unpack
from tikhonet.hashing.hasher import BCDHasher
from tikhonet.hashing.index import HammingIndex
from tikhonet.hashing.mixture import Mixture
from tikhonet.hashing.neighbours import neighbour_recall
from tikhonet.hashing.retrieval import Curve, Retrieval, evaluate
from tikhonet.hashing.ties import Tied

__all__ = [
    "BCDHasher",
    "CodeReport",
    "Curve",
    "HammingIndex",
    "Mixture",
    "Retrieval",
    "Tied",
    "code_report",
    "evaluate",
    "hamming",
    "neighbour_recall",
    "pack",
    "signs",
    "unpack",
]
