"""Transactions, which are not served: how they are refused so that clients stop asking."""

from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.wire import KafkaError

REFUSAL: Final = ErrorCode.transactional_id_authorization_failed
"""The code that every client takes as final. On others, such as INVALID_REQUEST, librdkafka asks again for
ever."""
REASON: Final = "transactions are not served by this version of quorate"


def refused() -> KafkaError:
    return KafkaError(REFUSAL, REASON)
