"""The places where the pages of other nodes are."""

import re
from dataclasses import dataclass
from typing import Final, Self

_PEER: Final = re.compile(
    r"(?:(?P<node>[0-9]{1,10})@)?(?P<origin>https?://(?:[a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?)"
)
"""Scheme, host and port, as a header of HTTP has them: nothing else may get into that."""


@dataclass(frozen=True, slots=True)
class PagePeer:
    """The page of a node, as `ID@http://HOST:PORT` or without the id."""

    node_id: int | None
    """None: it is not said whose it is."""
    origin: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `ValueError`."""
        found = _PEER.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is no place of a page; write ID@http://HOST:PORT or https://HOST:PORT, no path"
            )
        node = found["node"]
        return cls(None if node is None else int(node), found["origin"])
