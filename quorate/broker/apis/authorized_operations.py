"""The operations that a client may do, as bits, in answers that were asked for them (KIP-430)."""

from typing import Final

NOT_ASKED: Final = -(1 << 31)
_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = 3, 6, 8, 10, 11
ALL_OF_A_GROUP: Final = sum(
    1 << operation for operation in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
)
"""There is no authorizer: everybody may do everything that there is."""
