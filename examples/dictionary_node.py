"""A node of the replicated dictionary for clients, such as the workers of dictionary_workers.py.

python examples/dictionary_node.py 1 8001 /tmp/d1    (and 2 8002 /tmp/d2, and 3 8003 /tmp/d3)
quorate append --client-listener 127.0.0.1:8001 '["colour", "blue"]'
quorate read --client-listener 127.0.0.1:8001 colour
"""

import logging
import sys
from dataclasses import replace

import trio
from dictionary_state import Dictionary
from three_nodes import configured

from quorate.raft import Quorum, QuorumConfig, Sessions
from quorate.runtime import Address


async def main(config: QuorumConfig) -> None:
    dictionary = Dictionary()
    async with Quorum.open(config, Sessions(dictionary)) as quorum:  # a repeated append is applied once
        quorum.serve_reads(lambda key: dictionary.found(key.decode()).encode())
        await trio.sleep_forever()


logging.basicConfig(level=logging.INFO)
node, port, *rest = sys.argv[1:]
trio.run(main, replace(configured(node, *rest), client_listen=Address("127.0.0.1", int(port))))
