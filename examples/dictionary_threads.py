"""The replicated dictionary of dictionary.py as a service of threads, with the same arguments."""

import logging
import sys
from functools import partial
from http import HTTPStatus
from socketserver import StreamRequestHandler, ThreadingTCPServer

from dictionary_state import Dictionary, status_of
from three_nodes import configured

from quorate.blocking import Quorum
from quorate.raft import QuorumError

dictionary = Dictionary()
quorum: Quorum[str]


def answer(line: str) -> tuple[HTTPStatus, str]:
    try:
        match line.replace("/", " ").split():
            case ["PUT", key, value, "HTTP", _]:
                was = quorum.append([dictionary.entry(key, value)]).results[0]
                return HTTPStatus.OK, f"was {was}"
            case ["GET", key, "HTTP", _]:
                return HTTPStatus.OK, quorum.read(partial(dictionary.found, key))
            case _:
                return HTTPStatus.BAD_REQUEST, "GET /key, or PUT /key/value"
    except QuorumError as error:
        return status_of(error), str(error)


class Handler(StreamRequestHandler):
    timeout = 30.0

    def handle(self) -> None:
        try:
            request = self.request.recv(8192).decode(errors="replace")
            status, text = answer(request.partition("\r\n")[0])
            self.request.sendall(f"HTTP/1.0 {status.value} {status.phrase}\r\n\r\n{text}".encode())
        except (ConnectionError, TimeoutError):
            pass


class Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


logging.basicConfig(level=logging.INFO)
node, port, *rest = sys.argv[1:]
with Quorum.open(configured(node, *rest), dictionary) as quorum:
    Server(("127.0.0.1", int(port)), Handler).serve_forever()
