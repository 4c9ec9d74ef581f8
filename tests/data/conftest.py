"""A PostgreSQL server of Debian's package, on loopback, for as long as the tests of a worker."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest


def _program(name):
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def _as_user():
    """What starts a program as somebody else if this is root, whom the server refuses."""
    if os.geteuid() != 0:
        return [], None
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        switch = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        return switch, user
    pytest.skip("a PostgreSQL server needs a user that is not root: postgres or nobody")


@pytest.fixture(scope="session")
def postgresql():
    """The address of an empty database."""
    pytest.importorskip("adbc_driver_postgresql")
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("PostgreSQL is not installed: initdb and pg_ctl are needed")
    switch, user = _as_user()
    folder = Path(tempfile.mkdtemp(prefix="fedcsa-pg-"))
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command):
        subprocess.run(  # noqa: S603
            [*switch, *command], check=True, capture_output=True, cwd="/", timeout=600
        )

    data = folder / "data"
    run(initdb, "-D", data, "-A", "trust", "-U", "reader", "--no-sync", "-E", "UTF8", "--locale=C")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    log = folder / "log"
    run(pg_ctl, "-D", data, "-o", options, "-l", log, "-w", "start")
    yield f"postgresql://reader@127.0.0.1:{port}/postgres"
    run(pg_ctl, "-D", data, "-m", "immediate", "-w", "stop")
    shutil.rmtree(folder)
