"""`tikhonet greet`: greet somebody."""

from tikhonet.cli.mistakes import OptionError
from tikhonet.cli.outputs import Answer

EXAMPLE = "tikhonet greet you"


def greet(name: str) -> Answer:
    """Greet somebody."""
    if name == "nobody":
        raise OptionError("NAME", "must be somebody, got nobody; say whom")
    return Answer({"greeted": name}, f"hello {name}")
