"""The paper's experiments, one file per figure or table; every finished trial is a file of its own."""

from tikhonet.paper.experiments.images import Images, digits
from tikhonet.paper.experiments.mnist import FULL, QUICK, Size, methods, run
from tikhonet.paper.experiments.progress import Progress
from tikhonet.paper.experiments.records import Record, RecordError, load_pictures, load_records

__all__ = [
    "FULL",
    "QUICK",
    "Images",
    "Progress",
    "Record",
    "RecordError",
    "Size",
    "digits",
    "load_pictures",
    "load_records",
    "methods",
    "run",
]
