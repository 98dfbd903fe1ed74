"""The replicated dictionary as a service of Django on gunicorn, whose workers are clients of the quorum.

dictionary_workers.py says how to run it.
"""

from collections.abc import Callable

import dictionary_workers
from dictionary_state import Dictionary, status_of
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import path

from quorate.raft import QuorumError


def put(request: HttpRequest, key: str, value: str) -> HttpResponse:
    if request.method != "PUT":
        return HttpResponseNotAllowed(["PUT"])
    appended = dictionary_workers.client.append([Dictionary.entry(key, value)])
    return HttpResponse(f"was {appended.results[0]}".encode())


def get(request: HttpRequest, key: str) -> HttpResponse:
    return HttpResponse(dictionary_workers.client.read(key.encode()))


class Refusals:
    """Middleware for the errors of all views."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, QuorumError):
            return None
        return HttpResponse(str(error).encode(), status=status_of(error))


urlpatterns = [path("<key>/<value>", put), path("<key>", get)]
settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    MIDDLEWARE=[f"{__name__}.Refusals"],
)
app = get_wsgi_application()
