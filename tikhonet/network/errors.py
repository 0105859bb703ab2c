"""The error of a wrong argument, with the argument's name as a field."""


class ArgumentError(ValueError):
    """A value that an argument may not have.

    Parameters
    ----------
    argument : name of the argument or of the estimator's parameter; kept as the attribute ``argument``
    message : sentence that names the argument, what is allowed, what arrived and the remedy

    """

    def __init__(self, argument: str, message: str):
        super().__init__(argument, message)
        self.argument = argument

    def __str__(self) -> str:
        """Return the sentence alone."""
        return str(self.args[1])
