"""A llama.cpp server for one job: python llama_server.py JOB, JOB being a JSON document.

It processes a prompt and saves its slot (`tokens`, `save`), or restores a slot from each of `restore` and prints a
line for each: TAKEN or REFUSED. It ends with the job; a file that ends the server ends it before.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def serve(job: dict[str, Any], folder: str) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = job["model"]
    params.n_ctx, params.n_parallel = job["ctx"], job["slots"]
    params.kv_unified = False
    params.slot_save_path = f"{folder}/"
    params.cache_type_k, params.cache_type_v = (
        getattr(xllamacpp.ggml_type, f"GGML_TYPE_{name.upper()}") for name in job["types"]
    )
    flash = xllamacpp.llama_flash_attn_type
    params.flash_attn_type = (
        flash.LLAMA_FLASH_ATTN_TYPE_ENABLED if job["flash"] else flash.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.endpoint_slots, params.warmup, params.cache_ram_mib = True, False, 0
    return xllamacpp.Server(params)


def post(url: str, body: dict[str, Any]) -> bool:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urlopen(request) as answer:
            answer.read()
    except HTTPError:
        return False
    return True


def main() -> None:
    job = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        server = serve(job, folder)
        slot = f"{server.listening_address}/slots/{job['slots'] - 1}"
        if tokens := job.get("tokens"):
            prompt = [3 + i * 79 % 500 for i in range(tokens)]
            completion = {"prompt": prompt, "n_predict": 0, "id_slot": job["slots"] - 1, "cache_prompt": True}
            assert post(f"{server.listening_address}/completion", completion)
        if save := job.get("save"):
            assert post(f"{slot}?action=save", {"filename": "slot.bin"})
            shutil.copy(f"{folder}/slot.bin", save)
        for path in job.get("restore", ()):
            shutil.copy(path, f"{folder}/slot.bin")
            taken = post(f"{slot}?action=restore", {"filename": "slot.bin"})
            print("TAKEN" if taken else "REFUSED", flush=True)
    os._exit(0)  # the server's threads are still at work


main()
