"""The replicated dictionary as a service of Flask on gunicorn, whose workers are clients of the quorum.

dictionary_workers.py says how to run it.
"""

import dictionary_workers
from dictionary_state import Dictionary, status_of
from flask import Flask

from quorate.raft import QuorumError

app = Flask(__name__)


@app.put("/<key>/<value>")
def put(key: str, value: str) -> str:
    return f"was {dictionary_workers.client.append([Dictionary.entry(key, value)]).results[0]}"


@app.get("/<key>")
def get(key: str) -> str:
    return dictionary_workers.client.read(key.encode()).decode()


@app.errorhandler(QuorumError)
def refuse(error: QuorumError) -> tuple[str, int]:
    return str(error), status_of(error)
