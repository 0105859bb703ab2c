import numpy as np

from tikhonet.data import Dataset, data_set, load


@data_set("coins", files=False)
def coins(split: str = "train") -> Dataset:
    """Two coins."""
    return Dataset("coins", split, np.eye(2), np.arange(2), ("heads", "tails"))


assert load("coins", "test").classes == ("heads", "tails")  # and `tikhonet data coins`
