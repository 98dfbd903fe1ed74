"""A bug of librdkafka in the Metadata request, put right (librdkafka issue 5049).

Asked for all topics in version 9 or later, as by `AdminClient.list_topics()` of confluent-kafka, it writes
the null array's length as the four bytes of the older encoding where one byte belongs. What follows is pushed
back by three zero bytes.
"""

from typing import Final

from quorate.runtime import Buffer

_FIRST_FLEXIBLE: Final = 9
_WITHOUT_CLUSTER_OPERATIONS: Final = 11
"""The first version with one flag less behind the topics."""
_LONG_NULL: Final = bytes(4)


def without_extra_bytes(body: Buffer, version: int) -> memoryview:
    """Return the same bytes, or the intended request if it is exactly librdkafka's faulty one.

    Such a body can't be mistaken for a correct one: from version 11 on it is too long for its first bytes,
    and before that it would have a tagged field, of which this request has none.
    """
    data = memoryview(body)
    flags = 2 if version >= _WITHOUT_CLUSTER_OPERATIONS else 3
    if version < _FIRST_FLEXIBLE or len(data) != len(_LONG_NULL) + flags + 1:
        return data
    rest = data[len(_LONG_NULL) :]
    if data[: len(_LONG_NULL)] != _LONG_NULL or max(rest[:flags]) > 1 or rest[flags] != 0:
        return data
    return data[len(_LONG_NULL) - 1 :]
