"""``python -m fedcsa``, and the program ``fedcsa``."""

import atexit
import os
import sys
from typing import NoReturn


def begin() -> NoReturn:
    """Load the command line and run it; a Ctrl-C before it is loaded ends with one line, too.

    The process ends without taking the interpreter apart: a thread of a library, such as
    pyarrow's, that still asks for the interpreter then would abort it.
    """
    try:
        from fedcsa.cli.app import main
    except KeyboardInterrupt:
        sys.stderr.write("error: Interrupted.\n")
        sys.stderr.flush()
        os._exit(130)  # as of every interrupted command; `fedcsa.cli.common` may not be loaded
    try:
        main()
    except SystemExit as end:
        atexit._run_exitfuncs()
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None:  # closed by whoever started the program
                    stream.flush()
            except OSError:  # nobody reads it any more, or the disk is full
                code = code or 1
        os._exit(code)


if __name__ == "__main__":
    begin()
