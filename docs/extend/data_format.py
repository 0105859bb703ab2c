import numpy as np

from tikhonet.data import Table, TableFile, read_table
from tikhonet.data.tables import default_names


class SpacedFile(TableFile):
    """.txt: numbers with spaces between, the label last."""

    kind = ".txt"

    def read(self) -> Table:
        rows = np.loadtxt(self.path, ndmin=2)
        names = default_names(rows.shape[1])
        self.check_finite(rows, names)
        return Table(rows[:, :-1], rows[:, -1], tuple(names[:-1]), names[-1])


with open("rows.txt", "w") as file:
    file.write("1 2 0\n3 4 1\n")
assert read_table("rows.txt").X.tolist() == [[1, 2], [3, 4]]  # and `tikhonet fit --data rows.txt`
