"""The settings of gunicorn for dictionary_flask.py and dictionary_django.py: a client in each worker.

NODES has the client listeners of the three nodes (dictionary_node.py):

cd examples; export NODES=127.0.0.1:8001,127.0.0.1:8002,127.0.0.1:8003
gunicorn --config python:dictionary_workers --bind 127.0.0.1:8000 dictionary_flask:app
curl -X PUT localhost:8000/colour/blue; curl localhost:8000/colour
"""

import os
from contextlib import ExitStack

from quorate.blocking import Client
from quorate.runtime import Address

workers = 2
threads = 4
client: Client

_open = ExitStack()


def post_worker_init(worker: object) -> None:  # after the fork: a client does not survive it
    global client
    addresses = [Address.parse(address) for address in os.environ["NODES"].split(",")]
    client = _open.enter_context(Client.open(addresses))


def worker_exit(server: object, worker: object) -> None:
    _open.close()
