"""The replicated dictionary of dictionary.py as a service of FastAPI on hypercorn, with the same arguments.

The application and its node run in one loop of trio.
"""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
from dictionary_state import Dictionary, status_of
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from hypercorn import Config
from hypercorn.trio import serve
from three_nodes import configured

from quorate.raft import Quorum, QuorumError

node, port, *rest = sys.argv[1:]
config = configured(node, *rest)
dictionary = Dictionary()
quorum: Quorum[str]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    global quorum
    async with Quorum.open(config, dictionary) as quorum:
        yield


app = FastAPI(lifespan=lifespan, default_response_class=PlainTextResponse)


@app.put("/{key}/{value}")
async def put(key: str, value: str) -> str:
    return f"was {(await quorum.append([dictionary.entry(key, value)])).results[0]}"


@app.get("/{key}")
async def get(key: str) -> str:
    return await quorum.read(partial(dictionary.found, key))


@app.exception_handler(QuorumError)
async def refuse(request: Request, error: QuorumError) -> PlainTextResponse:
    return PlainTextResponse(str(error), status_code=status_of(error))


logging.basicConfig(level=logging.INFO)
server = Config.from_mapping(bind=f"127.0.0.1:{port}")
trio.run(partial(serve, app, server))  # type: ignore  # its types of scopes are others
