"""The replicated dictionary of dictionary.py as a service of FastAPI on uvicorn, with the same arguments."""

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import uvicorn
from dictionary_state import Dictionary, status_of
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from three_nodes import configured

from quorate.aio import Quorum
from quorate.raft import QuorumError

node, port, *rest = sys.argv[1:]
dictionary = Dictionary()
quorum: Quorum[str]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    global quorum
    async with Quorum.open(configured(node, *rest), dictionary) as quorum:
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
uvicorn.run(app, host="127.0.0.1", port=int(port), log_config=None)  # one process, because a node is one
