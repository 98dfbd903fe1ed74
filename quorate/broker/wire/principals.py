"""The names of clients and nodes (KIP-43)."""

from typing import Final

from quorate.value import value


@value(frozen=True, slots=True)
class Principal:
    """The name behind a connection, in the form `User:alice`. Names are compared exactly, case included."""

    kind: str
    """`User`, or `Node` for a node of the cluster by its own certificate."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """Parse `Type:name`. Raises `ValueError`."""
        kind, separator, name = text.partition(":")
        if not kind or not separator or not name:
            raise ValueError(f"{text!r:.60} is no principal; write Type:name, such as User:alice")
        return cls(kind, name)


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of every client of a listener that asks nobody who they are."""
NODE: Final = "Node"
"""The kind of principal that a node of the cluster has, by its certificate alone; its name is the node id."""
