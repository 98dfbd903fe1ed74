"""The operations that a client may do, as bits, in answers that were asked for them (KIP-430)."""

from typing import Final

NOT_ASKED: Final = -(1 << 31)
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12
ALL_OF_A_GROUP: Final = sum(
    1 << operation for operation in (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
)
"""There is no authorizer: everybody may do everything that there is."""
ALL_OF_A_TOPIC: Final = sum(
    1 << operation
    for operation in (
        *(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE),
        *(_DESCRIBE_CONFIGS, _ALTER_CONFIGS),
    )
)
ALL_OF_THE_CLUSTER: Final = sum(
    1 << operation
    for operation in (
        *(_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION),
        *(_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE),
    )
)
