"""The bound of the names in a broker's registration, for its settings and for the record."""

from typing import Final

MAX_REGISTERED_NAME: Final = 255
"""The maximum length, in characters, of a rack, a host or the name of a listener in a registration."""
