"""What doctor finds, on made machines and on this one."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from zcopy.buffers.base import Buffer, Capabilities
from zcopy.cli.doctor_tables import doctor_report
from zcopy.doctor import Diagnosis, diagnose
from zcopy.errors import RefusedError
from zcopy.history.location import history_settings
from zcopy.history.store import Store
from zcopy.host import Host
from zcopy.locks import LockSettings
from zcopy.model import Json, Run
from zcopy.render import Format, Look, render

NOW = 1_800_000_000 * 10**9
SCHEMA = Path(__file__).parents[2] / "docs/zcopy.doctor.schema.json"
NAMES = ("strix-halo", "rk3588", "plain-vm", "amdgpu-without-gpu")


class Refusing(Buffer):
    """A kind that the system refuses."""

    name = "refusing"
    summary = "a kind that is refused"
    capabilities = Capabilities(exportable=True)

    def allocate(self, size: int, label: str) -> Any:
        raise RefusedError("refusing: Operation not permitted", "ask the administrator")

    def proof(self, region: Any) -> Mapping[str, Json]:
        return {}


class Limited(Refusing):
    """A kind that is there, up to a limit."""

    name = "limited"

    def unavailable(self, host: Host) -> str | None:
        return None

    def limit(self, host: Host) -> tuple[int, str] | None:
        return 64 << 20, "size_limit_mb is 64"


Doctor = Callable[..., Diagnosis]


@pytest.fixture
def doctor(host: Callable[[str], Host], tmp_path: Path) -> Doctor:
    """Diagnoses a made machine with locks and history in the temporary folder."""
    (tmp_path / "locks").mkdir()

    def run(name: str, **changes: Any) -> Diagnosis:
        read = name if isinstance(name, Host) else host(name)
        settings: dict[str, Any] = {
            "kinds": [Refusing(), Limited()],
            "locks": LockSettings(lock_dir=tmp_path / "locks"),
            "history": history_settings(tmp_path / "state/history.db", {}),
            "version": "0.1.0",
            "now_ns": NOW,
        }
        return diagnose(read, **(settings | changes))

    return run


def flat(found: Diagnosis) -> list[list[str]]:
    text = render(doctor_report(found), Format.TSV, Look())
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_the_document_keeps_its_schema(doctor: Doctor, name: str) -> None:
    document = json.loads(json.dumps(doctor(name).document(), allow_nan=False))
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))


@pytest.mark.parametrize("format", [Format.TABLE, Format.TSV, Format.CSV, Format.MD, Format.JSON])
@pytest.mark.parametrize("name", NAMES)
def test_every_format_draws_every_machine(doctor: Doctor, name: str, format: Format) -> None:
    text = render(doctor_report(doctor(name)), format, Look(width=80))
    assert "refusing" in text
    assert "Operation not permitted" in " ".join(text.split())


def test_a_kind_has_its_reason_or_its_limit(doctor: Doctor) -> None:
    refusing, limited = doctor("plain-vm").kinds
    assert refusing.reason == "refusing: Operation not permitted (ask the administrator)"
    assert refusing.limit is None
    assert limited.reason is None
    assert limited.limit == (64 << 20, "size_limit_mb is 64")
    lines = flat(doctor("plain-vm"))
    assert ["buffer", "refusing", "unavailable", refusing.reason] in lines
    assert ["buffer", "limited", "available", "up to 64 MiB: size_limit_mb is 64"] in lines


def test_flat_lines_have_four_fields_and_a_header(doctor: Doctor) -> None:
    lines = flat(doctor("strix-halo"))
    assert lines[0] == ["section", "name", "state", "detail"]
    assert {len(line) for line in lines} == {4}
    sections = {line[0] for line in lines[1:]}
    assert sections == {"box", "buffer", "driver", "clock", "device", "place", "warning"}


def test_devices_say_what_would_help(doctor: Doctor) -> None:
    lines = {line[1]: line for line in flat(doctor("rk3588")) if line[0] == "device"}
    remedy = "no device node here (a container must be given it)"
    assert lines["/dev/mali0"][2:] == ["not usable", f"lock gpu0, {remedy}"]
    assert lines["/dev/rga"][2:] == ["usable", ""]
    assert lines["/dev/dri/card1"][3] == "lock npu0"


def test_devices_have_the_names_of_their_locks(doctor: Doctor) -> None:
    text = render(doctor_report(doctor("strix-halo")), Format.TABLE, Look(width=200))
    (line,) = [line for line in text.splitlines() if "renderD128" in line and "amdgpu" in line]
    assert "gpu0" in line.split()


def test_who_has_a_gpu_open_is_said(doctor: Doctor, box: Callable[[str], Path]) -> None:
    """A made box whose card is /dev/full, which a real process has open."""
    root = box("strix-halo")
    (root / "dev/dri/card1").unlink()
    (root / "dev/dri/card1").symlink_to("/dev/full")
    with Path("/dev/full").open("rb") as full, subprocess.Popen(["sleep", "60"], stdin=full) as child:
        try:
            (root / f"proc/{child.pid}").symlink_to(f"/proc/{child.pid}")
            found = doctor(Host.read(root))
        finally:
            child.kill()
    users = {each["path"]: each["users"] for each in found.document()["access"]}  # type: ignore[union-attr,call-overload,index]
    assert users["/dev/dri/card1"] == [{"pid": child.pid, "command": "sleep"}]
    assert users["/dev/dri/renderD128"] == []
    (line,) = [line for line in flat(found) if line[1] == "/dev/dri/card1"]
    assert line[3] == f"lock gpu0, open in sleep (pid {child.pid})"


def test_kfd_without_a_gpu_is_said(doctor: Doctor) -> None:
    found = doctor("amdgpu-without-gpu")
    assert [warning.code for warning in found.warnings] == ["kfd-without-gpu"]
    (line,) = [line for line in flat(found) if line[1] == "/dev/kfd"]
    assert "no GPU in its topology" in line[3]
    assert "kfd-without-gpu" not in [warning.code for warning in doctor("strix-halo").warnings]


def test_loaded_drivers_are_found_without_a_device(doctor: Doctor) -> None:
    found = doctor("amdgpu-without-gpu")
    assert [each.driver.name for each in found.drivers] == ["amdgpu"]
    assert found.drivers[0].installed is None
    assert not found.drivers[0].stale


def test_a_driver_whose_file_is_newer_is_stale(
    doctor: Doctor, box: Callable[[str], Path], module_image: Callable[[bytes], bytes]
) -> None:
    root = box("strix-halo")
    folder = root / "lib/modules/7.3.0-test-amd64"
    folder.mkdir(parents=True)
    (folder / "modules.dep").write_text("amdxdna.ko:\namdgpu.ko:\n")
    (folder / "amdxdna.ko").write_bytes(module_image(bytes(20)))
    (folder / "amdgpu.ko").write_bytes(module_image(bytes.fromhex("a2" * 20)))
    found = doctor(Host.read(root))
    assert {each.driver.name: each.stale for each in found.drivers} == {
        "amdgpu": False,
        "amdxdna": True,
        "udmabuf": False,
    }
    assert [each.text for each in found.warnings if each.code == "driver-stale"] == [
        "driver amdxdna: the build that runs is not the one on disk: reload it or reboot"
    ]


def test_a_lock_in_use_names_its_holder(doctor: Doctor, tmp_path: Path) -> None:
    with (tmp_path / "locks/gpu0.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (line,) = [line for line in flat(doctor("plain-vm")) if line[1] == "lock gpu0"]
        assert line[2] == str(tmp_path / "locks/gpu0.lock")
        assert f"pid {os.getpid()}" in line[3]
    (line,) = [line for line in flat(doctor("plain-vm")) if line[1] == "lock gpu0"]
    assert line[3] == "free"


def test_a_lock_folder_that_cannot_be_one_is_a_finding(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = doctor("plain-vm", locks=LockSettings(lock_dir=tmp_path / "file"))
    assert found.locks.folder is None
    assert "not a folder" in str(found.locks.error)


def test_looking_makes_nothing(doctor: Doctor, tmp_path: Path) -> None:
    found = doctor("plain-vm", locks=LockSettings(lock_dir=tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()
    assert not (tmp_path / "state").exists()
    assert (found.store.exists, found.store.writable, found.store.schema) == (False, True, None)


def test_the_history_that_is_there(doctor: Doctor, tmp_path: Path) -> None:
    settings = history_settings(tmp_path / "state/history.db", {})
    with Store.open(settings) as store:
        store.save(Run("20261130-210000-abc", "handoff", "2026-11-30T21:00:00Z", "0.1.0"))
    found = doctor("plain-vm").store
    assert (found.exists, found.runs, found.error) == (True, 1, None)
    assert isinstance(found.schema, int)
    assert found.schema > 0


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 100, b""])
def test_a_damaged_or_empty_history_is_a_finding(doctor: Doctor, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/history.db").write_bytes(content)
    found = doctor("plain-vm")
    assert found.store.exists
    assert found.store.error or "history-empty" in [warning.code for warning in found.warnings]
    assert (tmp_path / "state/history.db").read_bytes() == content


def test_a_fifo_as_history_does_not_block(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    os.mkfifo(tmp_path / "state/history.db")
    assert "not a regular file" in str(doctor("plain-vm").store.error)


def run_doctor(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    environ = {name: os.environ[name] for name in kept if name in os.environ}
    (tmp_path / "home").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "zcopy", "doctor", *arguments],
        env=environ | {"HOME": str(tmp_path / "home"), "ZCOPY_LOCK_DIR": str(tmp_path / "locks")},
        cwd=tmp_path,  # in the checkout, -m would find the source tree and not the installed package
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_this_machine_as_json(tmp_path: Path) -> None:
    done = run_doctor(tmp_path, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    buffers = {each["buffer"]: each for each in document["buffers"]}
    assert buffers["memfd"]["available"]
    for family in ("dma-heap:", "drm:"):  # a row, whether the box has one or not
        assert any(name.startswith(family) for name in buffers)
    assert document["locks"]["folder"] == str(tmp_path / "locks")
    assert document["store"]["path"].startswith(str(tmp_path / "home"))
    assert list((tmp_path / "home").rglob("*")) == []
    assert not (tmp_path / "locks").exists()


def test_this_machine_as_lines(tmp_path: Path) -> None:
    done = run_doctor(tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("section\tname\tstate\tdetail\n")
    assert "\nbuffer\tmemfd\tavailable\t" in done.stdout


def test_help_needs_no_native_module() -> None:
    code = (
        "import sys; sys.argv = ['zcopy', 'doctor', '--help']\n"
        "from zcopy.cli.main import run\n"
        "code = run()\n"
        "heavy = {'numpy', 'rich', 'sqlite3', 'zcopy.native', 'zcopy.native._zc'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout


@pytest.mark.kernel
def test_the_guests_kinds_and_devices(tmp_path: Path) -> None:
    """In the kernel guest: dma-heap, udmabuf and the DRM cards are there, tried, and fingerprinted."""
    document = json.loads(run_doctor(tmp_path, "--json").stdout)
    available = {each["buffer"] for each in document["buffers"] if each["available"]}
    assert {"memfd", "udmabuf", "dma-heap:system"} <= available
    assert any(name.startswith("drm:") for name in available)
    drivers = {each["name"]: each for each in document["drivers"]}
    assert len(drivers["vgem"]["build_id"]) == 40
    assert all(each["usable"] for each in document["access"] if each["path"].startswith("/dev/dri/"))
    locks = {each["path"].removeprefix("/dev/dri/"): each["lock"] for each in document["host"]["devices"]}
    assert locks["card0"] is locks["renderD128"] is None  # vgem
    assert (
        locks["card1"] == locks["renderD129"] == "gpu0"
    )  # virtio_gpu computes, the others only show pictures
    assert {locks[card] for card in ("card2", "card3", "card4")} == {"gpu1", "gpu2", "gpu3"}
