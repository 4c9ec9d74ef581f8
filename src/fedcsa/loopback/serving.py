"""Serve a page on this machine for as long as a command runs."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from fedcsa.errors import ResultError
from fedcsa.loopback.guard import HOST, Guard, PageViews

#: Seconds in which a server that can start has started.
_START_SECONDS = 10.0
#: Seconds that a request under way is given when the command ends.
_END_SECONDS = 1


@contextmanager
def served(views: PageViews, again: str, port: int = 0) -> Iterator[Guard]:
    """Serve a page beside whatever this process does; it is gone when the block ends.

    Parameters
    ----------
    views : mapping
    again : str
        How to get another link, in words. Anybody may read them: they name no folder or file.
    port : int, optional
        By default a free one.
    """
    with _bound(port) as listener:
        guard = Guard(views, listener.getsockname()[1], again)
        server = uvicorn.Server(
            uvicorn.Config(
                guard, http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, timeout_graceful_shutdown=_END_SECONDS,
            )
        )  # fmt: skip
        thread = threading.Thread(target=server.run, args=([listener],), name="page", daemon=True)
        thread.start()
        try:
            _await_start(server, thread)
            yield guard
        finally:
            server.should_exit = True
            thread.join()


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    until = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise ResultError("The page could not be served. Start the command again.")
        time.sleep(0.01)


def _bound(port: int) -> socket.socket:
    """A socket that this machine alone can reach."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere it lets two processes share a port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise ResultError(
            f"The page cannot be served on port {port} ({type(error).__name__}). Name another."
        ) from None
    return listener
