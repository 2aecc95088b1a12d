"""A process that takes locks as its argument (JSON) says and tells on stdout, one JSON document a line.

Not imported: the tests run it. It holds the locks for `hold_s`, or runs `children` (further workers, all at
once, inside its hold), or waits for a line on stdin.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from zcopy.errors import ZcopyError
from zcopy.locks import Clock, LockSettings, acquire


def tell(event, **facts):
    # One write, since workers inside a hold share the pipe.
    os.write(1, json.dumps({"event": event, "at": time.monotonic(), **facts}).encode() + b"\n")


def settings_of(order):
    return LockSettings(
        lock_dir=Path(order["dir"]),
        files={name: Path(path) for name, path in order.get("files", {}).items()},
        token=os.environ.get("ZCOPY_HELD"),
        **{key: order[key] for key in ("notice_after_ns", "notice_every_ns") if key in order},
    )


def journal(order, word):
    if "journal" in order:
        with Path(order["journal"]).open("a") as file:
            file.write(f"{word} {order['label']}\n")


def hold(order):
    clock = Clock(time.monotonic_ns, time.time_ns)
    settings = settings_of(order)
    for _ in range(order.get("rounds", 1)):
        with acquire(
            order["devices"],
            settings,
            wait_ns=order.get("wait_ns"),
            label=order.get("label", ""),
            notify=lambda text: tell("notice", text=text),
            clock=clock,
        ) as held:
            states = {lock.device: lock.state for lock in held.states}
            tell("held", states=states, environ=held.environ, fds=held.fds)
            journal(order, "begin")
            inside(order, held)
            journal(order, "end")
    tell("released")


def inside(order, held):
    if "children" in order:
        runs = [run_child({"dir": order["dir"], **child}, held.environ) for child in order["children"]]
        for run in runs:
            run.wait()
    elif "command" in order:
        tell("running", pid=subprocess.Popen(order["command"], pass_fds=held.fds).pid)
        sys.stdin.readline()
    elif "hold_s" in order:
        time.sleep(order["hold_s"])
    else:
        sys.stdin.readline()


def run_child(order, handed_down):
    environ = {**os.environ, **handed_down}
    if order.get("scrubbed"):
        del environ["ZCOPY_HELD"]
    return subprocess.Popen([sys.executable, __file__, json.dumps(order)], env=environ)


if __name__ == "__main__":
    try:
        os.umask(json.loads(sys.argv[1]).get("umask", 0o022))
        tell("start")
        hold(json.loads(sys.argv[1]))
    except ZcopyError as error:
        tell("error", kind=type(error).__name__, exit=int(error.exit), message=error.message, hint=error.hint)
        sys.exit(int(error.exit))
