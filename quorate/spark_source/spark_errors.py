"""The errors of the data source, grouped by the party that can act on them. A log that can't be read raises
those of `quorate.history`."""


class SourceError(Exception):
    """The root of the errors that only this package raises."""


class OptionError(SourceError):
    """An option is unknown, malformed, missing, or contradicts another."""


class DataLossError(SourceError):
    """The log no longer has, or never had, what was read or asked for: it was cut or replaced, its beginning
    went into a snapshot, or it is another cluster's. `failOnDataLoss=false` continues with the other
    records."""

    def __init__(self, problem: str, *, remedy: str | None = None) -> None:
        remedy = remedy or (
            "Start a new query (with a new checkpoint) to read this log, or set failOnDataLoss=false to go "
            "on with what there is"
        )
        super().__init__(f"{problem}. {remedy}")


class LaterVersionError(SourceError):
    """A record that a later version of quorate wrote, where rows after it depend on what it says."""
