"""One client for the administration of a cluster: for commands, simulated operators and scripts.

`open_admin` connects. The modules have the requests, each a function of the client (or of `Controllers`, for
what only the quorum's own protocol has): `await topics.create_topic(admin, "orders", partitions=6)`. They
print nothing, run over any network, and return typed values.
"""

from typing import TYPE_CHECKING

from quorate.broker.admin.admin_client import AdminClient, BrokerView, TopicPartition, open_admin
from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.broker.admin import (
        brokers,
        configs,
        groups,
        log_dirs,
        quorum,
        quotas,
        records,
        replicas,
        topics,
    )
    from quorate.broker.admin.controllers import Controllers

__all__ = [
    "AdminClient",
    "BrokerView",
    "Controllers",
    "TopicPartition",
    "brokers",
    "configs",
    "groups",
    "log_dirs",
    "open_admin",
    "quorum",
    "quotas",
    "records",
    "replicas",
    "topics",
]

# With the quorum's own protocol, which few requests need.
__getattr__ = lazily(__name__, {"Controllers": "quorate.broker.admin.controllers"})
