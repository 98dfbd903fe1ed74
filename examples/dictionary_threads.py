"""The replicated dictionary of dictionary.py as a service of threads, with the same arguments."""

import logging
import sys
from functools import partial
from socketserver import StreamRequestHandler, ThreadingTCPServer

from dictionary import Dictionary, configured

from quorate.blocking import Quorum
from quorate.raft import QuorumError

dictionary = Dictionary()
quorum: Quorum[str]


def answer(line: str) -> str:
    try:
        match line.replace("/", " ").split():
            case ["PUT", key, value, "HTTP", _]:
                was = quorum.append([dictionary.entry(key, value)]).results[0]
                return f"HTTP/1.0 200 OK\r\n\r\nwas {was}"
            case ["GET", key, "HTTP", _]:
                found = quorum.read(partial(dictionary.found, key))
                return f"HTTP/1.0 200 OK\r\n\r\n{found}"
            case _:
                return "HTTP/1.0 400 Bad Request\r\n\r\nGET /key, or PUT /key/value"
    except QuorumError as error:  # it may say that the outcome is unknown: put again
        return f"HTTP/1.0 503 Service Unavailable\r\n\r\n{error}"


class Handler(StreamRequestHandler):
    timeout = 30.0

    def handle(self) -> None:
        try:
            request = self.request.recv(8192).decode(errors="replace")
            self.request.sendall(answer(request.partition("\r\n")[0]).encode())
        except (ConnectionError, TimeoutError):
            pass


class Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


logging.basicConfig(level=logging.INFO)
node, port, *rest = sys.argv[1:]
with Quorum.open(configured(node, *rest), dictionary) as quorum:
    Server(("127.0.0.1", int(port)), Handler).serve_forever()
