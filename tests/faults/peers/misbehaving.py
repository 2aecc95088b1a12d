"""A provider that does one thing wrong: ``misbehaving.py MODE [--once FILE COMMAND…]``.

MODE is a class of processes.py or messages.py. With --once only the first process that is started misbehaves (FILE
says that it was); every later one becomes COMMAND.
"""

from __future__ import annotations

import os
import sys

import messages
import processes

MODES = {**vars(processes), **vars(messages)}


def main() -> None:
    mode, *rest = sys.argv[1:]
    if rest:
        _, flag, *command = rest
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            os.execv(command[0], command)
    MODES[mode]().serve()


if __name__ == "__main__":
    main()
