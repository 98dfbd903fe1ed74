"""The replicated dictionary of dictionary.py as a service of asyncio, with the same arguments."""

import asyncio
import logging
import sys
from functools import partial
from http import HTTPStatus

from dictionary_state import Dictionary, status_of
from three_nodes import configured

from quorate.aio import Quorum
from quorate.raft import QuorumConfig, QuorumError


async def answer(quorum: Quorum[str], dictionary: Dictionary, line: str) -> tuple[HTTPStatus, str]:
    try:
        match line.replace("/", " ").split():
            case ["PUT", key, value, "HTTP", _]:
                appended = await quorum.append([dictionary.entry(key, value)])
                return HTTPStatus.OK, f"was {appended.results[0]}"
            case ["GET", key, "HTTP", _]:
                return HTTPStatus.OK, await quorum.read(partial(dictionary.found, key))
            case _:
                return HTTPStatus.BAD_REQUEST, "GET /key, or PUT /key/value"
    except QuorumError as error:
        return status_of(error), str(error)


async def main(config: QuorumConfig, port: int) -> None:
    dictionary = Dictionary()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(30):
                request = (await reader.read(8192)).decode(errors="replace")
                status, text = await answer(quorum, dictionary, request.partition("\r\n")[0])
                writer.write(f"HTTP/1.0 {status.value} {status.phrase}\r\n\r\n{text}".encode())
                await writer.drain()
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()

    async with Quorum.open(config, dictionary) as quorum:
        server = await asyncio.start_server(serve, "127.0.0.1", port)
        await server.serve_forever()


logging.basicConfig(level=logging.INFO)
node, port, *rest = sys.argv[1:]
asyncio.run(main(configured(node, *rest), int(port)))
