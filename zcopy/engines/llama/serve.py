"""A llama.cpp server as a process of its own: ``python -P serve.py FD``.

FD is a socket. It gives the setup (server.py) and gets the address back; when its other end is
closed, by zcopy or by the end of zcopy, this process ends. It is a program of its own and imports nothing of zcopy.
"""

import fcntl
import json
import os
import signal
import socket
import sys
from typing import Any


def start(setup: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = setup["model"]
    params.n_ctx = setup["ctx"]
    params.slot_save_path = setup["folder"]
    params.cache_type_k, params.cache_type_v = (
        getattr(xllamacpp.ggml_type, f"GGML_TYPE_{name.upper()}") for name in setup["types"]
    )
    flash = xllamacpp.llama_flash_attn_type
    params.flash_attn_type = (
        flash.LLAMA_FLASH_ATTN_TYPE_ENABLED if setup["flash"] else flash.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = setup["threads"]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_parallel = 1
    params.endpoint_slots = True
    params.warmup = False
    params.cache_ram_mib = 0  # what a slot has comes from its own state and from nowhere else
    return xllamacpp.Server(params)


def end_with(line: socket.socket) -> None:
    """Has the kernel end this process when the other end of the line is closed.

    A thread could not do it: xllamacpp holds the interpreter's lock for as long as a model takes to load.
    """
    fcntl.fcntl(line, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(line, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    setup = json.loads(line.recv(65536))
    end_with(line)
    try:
        server = start(setup)  # kept: it serves for as long as it is there
    except Exception as fault:
        line.send(json.dumps({"error": " ".join(str(fault).split()) or type(fault).__name__}).encode())
        return  # a whole exit writes out what the server's log still has in its queue
    line.send(json.dumps({"url": server.listening_address}).encode())
    while line.recv(1):
        pass
    # Where the line was closed before the kernel was asked. The server's threads are still at work.
    os._exit(0)


main()
