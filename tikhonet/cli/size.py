"""`tikhonet size`: what a saved model would take on a device, by format."""

from __future__ import annotations

from dataclasses import asdict

from tikhonet.cli.inputs import Model, open_model
from tikhonet.cli.outputs import Answer, facts, table
from tikhonet.model.export.format import sizes

EXAMPLE = "tikhonet size my.model"


def size(model: Model) -> Answer:
    """Tell flash and RAM by format.

    Each format is made in memory. Flash is the file, of C the constant arrays; RAM is what one prediction needs.
    """
    learned = open_model(model).estimator.exported_model()
    found, nonzero, size = sizes(learned), learned.nonzero, model.stat().st_size
    rows = [
        (entry.format, f"{entry.flash:,}", f"{entry.ram:,}" + ("" if entry.complete else " and the runtime's own"))
        for entry in found
    ]
    document = {"model": model, "bytes": size, "nonzero": nonzero, "formats": [asdict(entry) for entry in found]}
    human = facts(model=f"{model} ({size:,} bytes)", nonzero=f"{100 * nonzero:.2f}% of the weights")
    return Answer(document, human, table(("format", "flash bytes", "RAM bytes"), rows))
