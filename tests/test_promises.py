"""Every promise of docs/promises.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "promises.md").read_text()


def test_every_promise_names_tests_that_exist():
    rows = [row for row in TEXT.splitlines() if row.startswith("|") and "---" not in row]
    promises = [row for row in rows if row.split("|")[1].strip().lower() != "promise"]
    assert len(promises) > 20
    for row in promises:
        proofs = re.findall(r"`((?:tests/[\w/]+\.py)?(?:::\w+)?)`", row.split("|")[2])
        assert proofs, row
        file = ""
        for proof in proofs:
            path, _, name = proof.partition("::")
            file = path or file
            text = (ROOT / file).read_text()
            assert not name or f"def {name}(" in text, proof
