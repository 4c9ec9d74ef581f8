"""Makes the process that opens messages die of some of them, as a flaw in its libraries could.

Python loads this file by its name from a folder on its path; tests put this folder there. The
variable FEDCSA_TEST_POISON says which messages, and what they do: "model-report abbey crash".
The product has no such hook.
"""

import os
import sys
import time


def crash():
    os._exit(1)


def segfault():
    import ctypes

    ctypes.string_at(0)


def spin():
    while True:
        pass


def sleep():
    time.sleep(3600.0)


def allocate(megabytes=10_000):
    held = bytearray()
    for _ in range(megabytes):
        held += b"\1" * (1 << 20)


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def print_more():
    print('{"ended": "opened"')


ACTIONS = {
    "crash": crash,
    "segfault": segfault,
    "spin": spin,
    "sleep": sleep,
    "allocate": allocate,
    "a-little-memory": lambda: allocate(100),
    "half-a-second": lambda: work(0.5),
    "chatter": print_more,
    "foreign": lambda: [].pop(),
}


def poisoned(decode, kind, source, action):
    def opened(*args):
        message = decode(*args)
        if message.name == kind and source in ("any", getattr(message, "source", "")):
            ACTIONS[action]()
        return message

    return opened


if "fedcsa.site.opening" in sys.orig_argv and "FEDCSA_TEST_POISON" in os.environ:
    from fedcsa.messages import codec

    codec.decode = poisoned(codec.decode, *os.environ["FEDCSA_TEST_POISON"].split())
