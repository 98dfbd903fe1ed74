"""A process that starts quorums of `quorate.testing` and prints the time of each, without other imports."""

import json
import time

from quorate.testing import ClusterPool

NODES = 3


def main() -> None:
    pool = ClusterPool()
    try:
        pool.start_quorum("quorum_node:Values", NODES)
        ready_at = time.monotonic()
        pool.start_quorum("quorum_node:Values", NODES)
        warm = time.monotonic() - ready_at
    finally:
        pool.close()
    print(json.dumps({"ready_at": ready_at, "warm": warm}))


if __name__ == "__main__":
    main()
