"""A replicated dictionary behind HTTP. Three terminals:

python examples/dictionary.py 1 8001 /tmp/d1    (and 2 8002 /tmp/d2, and 3 8003 /tmp/d3)
curl -X PUT localhost:8001/colour/blue; curl localhost:8002/colour
"""

import contextlib
import logging
import sys
from functools import partial
from http import HTTPStatus

import trio
from dictionary_state import Dictionary, status_of
from three_nodes import configured

from quorate.raft import Quorum, QuorumConfig, QuorumError


async def answer(quorum: Quorum[str], dictionary: Dictionary, stream: trio.SocketStream) -> None:
    with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(30):
        request = (await stream.receive_some(8192)).decode(errors="replace")
        status, text = HTTPStatus.OK, ""
        try:
            match request.partition("\r\n")[0].replace("/", " ").split():
                case ["PUT", key, value, "HTTP", _]:
                    text = f"was {(await quorum.append([dictionary.entry(key, value)])).results[0]}"
                case ["GET", key, "HTTP", _]:
                    text = await quorum.read(partial(dictionary.found, key))  # what any node acknowledged
                case _:
                    status, text = HTTPStatus.BAD_REQUEST, "GET /key, or PUT /key/value"
        except QuorumError as error:
            status, text = status_of(error), str(error)
        await stream.send_all(f"HTTP/1.0 {status.value} {status.phrase}\r\n\r\n{text}".encode())


async def main(config: QuorumConfig, port: str) -> None:
    async with Quorum.open(config, dictionary := Dictionary()) as quorum:
        await trio.serve_tcp(lambda stream: answer(quorum, dictionary, stream), int(port), host="127.0.0.1")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)  # elections and what else happens, on standard error
    node, port, *rest = sys.argv[1:]
    trio.run(main, configured(node, *rest), port)
