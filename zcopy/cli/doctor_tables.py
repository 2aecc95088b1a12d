"""What doctor found, as tables: one for each part, and one flat list of findings for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from zcopy.doctor import Diagnosis, DriverFinding, KindFinding, holder_text
from zcopy.host import Clock, Device, cpus_text
from zcopy.host.users import users_text
from zcopy.table import Cell, Column, Kind, Report, Table
from zcopy.units import size_text

_FACTS: Final = (Column("fact", "fact", priority=0), Column("value", "value", priority=0))
_BUFFERS: Final = (
    Column("buffer", "buffer", kind=Kind.ID, priority=0),
    Column("state", "state", priority=0),
    Column("what", "what it is", priority=2),
    Column("detail", "limit, or why not", priority=0),
)
_DRIVERS: Final = (
    Column("driver", "driver", kind=Kind.ID, priority=0),
    Column("state", "state", priority=1),
    Column("version", "version", kind=Kind.ID, priority=1),
    Column("srcversion", "srcversion", kind=Kind.ID, priority=2),
    Column("taint", "taint", kind=Kind.ID, priority=3),
    Column("on_disk", "on disk", priority=1),
    Column("build_id", "build-id", kind=Kind.ID, priority=0),
)
_CLOCKS: Final = (
    Column("clock", "clock", kind=Kind.ID, priority=0),
    Column("governor", "governor", kind=Kind.ID, priority=0),
    Column("driver", "driver", kind=Kind.ID, priority=2),
    Column("min_mhz", "min", unit="MHz", kind=Kind.COUNT, priority=1),
    Column("max_mhz", "max", unit="MHz", kind=Kind.COUNT, priority=1),
    Column("now_mhz", "now", unit="MHz", kind=Kind.COUNT, priority=1),
)
_DEVICES: Final = (
    Column("device", "device", kind=Kind.ID, priority=0),
    Column("lock", "lock", kind=Kind.ID, priority=1),
    Column("driver", "driver", kind=Kind.ID, priority=1),
    Column("where", "where", kind=Kind.ID, priority=2),
    Column("ids", "ids", kind=Kind.ID, priority=3),
    Column("mode", "mode", kind=Kind.ID, priority=2),
    Column("owner", "owner", kind=Kind.ID, priority=2),
    Column("access", "access", kind=Kind.FLAG, priority=0),
    Column("detail", "remark", priority=0),
)
_PLACES: Final = (
    Column("place", "place", priority=0),
    Column("path", "path", kind=Kind.ID, priority=0),
    Column("detail", "state", priority=0),
)
_FLAT: Final = (
    Column("section", "section", kind=Kind.ID),
    Column("name", "name", kind=Kind.ID),
    Column("state", "state"),
    Column("detail", "detail"),
)


def doctor_report(found: Diagnosis) -> Report:
    """The diagnosis: a table per part that has anything, `flat` for TSV and CSV, the document for JSON."""
    facts, places = dict(_facts(found)), tuple(_places(found))
    tables = (
        Table("box", _FACTS, tuple({"fact": name, "value": value} for name, value in facts.items())),
        Table("buffers", _BUFFERS, tuple(_buffer(kind) for kind in found.kinds)),
        Table("drivers", _DRIVERS, tuple(_driver(each) for each in found.drivers)),
        Table("clocks", _CLOCKS, tuple(_clock(clock) for clock in found.host.clocks)),
        Table("devices", _DEVICES, tuple(_devices(found))),
        Table("places", _PLACES, places, tuple(f"warning: {each.text}" for each in found.warnings)),
    )
    flat = Table("doctor", _FLAT, tuple(_flat(found, facts, places)))
    return Report(tuple(table for table in tables if table.rows), found.document, flat=flat)


def _facts(found: Diagnosis) -> Iterator[tuple[str, str]]:
    """What stands in the first table; a fact that is not known is left out."""
    host = found.host
    kernel, machine, cpu, memory = host.kernel, host.machine, host.cpu, host.memory
    facts: dict[str, str | None] = {
        "kernel": _joined(kernel.release, kernel.arch),
        "boot words": " ".join(kernel.cmdline) or None,
        "machine": _joined(machine.model, machine.soc),
        "hypervisor": machine.virtual,
        "container": machine.container,
        "cpu": f"{cpu.model or 'unknown'}, {cpu.count} online, {cpus_text(cpu.allowed) or 'all'} allowed",
        "clusters": "; ".join(_clusters(found)) or None,
        "caches": _caches(found),
        "isa": " ".join(cpu.isa) or None,
        "memory": _joined(
            _size(memory.total), f"{_size(memory.available)} available" if memory.total else None
        ),
        "room": "{} (limit: {})".format(*_room(found)),
        "huge pages": "; ".join(
            f"{size_text(pool.size)}: {pool.available} of {pool.total} to be had" for pool in memory.pools
        )
        or None,
        "thp": _joined(memory.thp.enabled, memory.thp.shmem_enabled and f"shmem {memory.thp.shmem_enabled}"),
        "gpu": "; ".join(
            f"{node.gfx or 'GPU'} on renderD{node.render_minor}" for node in host.kfd if node.is_gpu
        )
        or None,
        "temperature": "; ".join(f"{each.name} {each.celsius:.0f} °C" for each in host.temperatures())
        or None,
    }
    return ((name, value) for name, value in facts.items() if value)


def _clusters(found: Diagnosis) -> Iterator[str]:
    clusters = found.host.cpu.clusters
    for cluster in clusters if len(clusters) > 1 else ():
        clock = f", {cluster.max_hz // 10**6} MHz" if cluster.max_hz else ""
        yield f"{cpus_text(cluster.cpus)}: {cluster.name or 'alike'}{clock}"


def _caches(found: Diagnosis) -> str | None:
    caches = {
        f"L{cache.level}{'i' if cache.kind == 'instruction' else ''} {size_text(cache.size)}": None
        for cache in found.host.cpu.caches
    }
    return ", ".join(caches) or None


def _room(found: Diagnosis) -> tuple[str, str]:
    size, limit = found.host.room()
    return size_text(size), limit


def _size(count: int | None) -> str | None:
    return None if count is None else size_text(count)


def _joined(*parts: str | None) -> str | None:
    return ", ".join(part for part in parts if part) or None


def _buffer(kind: KindFinding) -> dict[str, Cell]:
    limit = f"up to {size_text(kind.limit[0])}: {kind.limit[1]}" if kind.limit else None
    state = "available" if kind.reason is None else "unavailable"
    return {"buffer": kind.name, "state": state, "what": kind.summary, "detail": kind.reason or limit}


def _driver(found: DriverFinding) -> dict[str, Cell]:
    driver = found.driver
    on_disk = None if found.installed is None else ("another build" if found.stale else "same")
    return {
        "driver": driver.name,
        "state": driver.state,
        "version": driver.version,
        "srcversion": driver.srcversion,
        "taint": driver.taint or None,
        "on_disk": on_disk,
        "build_id": driver.build_id,
    }


def _clock(clock: Clock) -> dict[str, Cell]:
    return {
        "clock": f"cpu {cpus_text(clock.cpus)}" if clock.kind == "cpu" else clock.name,
        "governor": clock.governor,
        "driver": clock.driver,
        "min_mhz": _mhz(clock.min_hz),
        "max_mhz": _mhz(clock.max_hz),
        "now_mhz": _mhz(clock.now_hz),
    }


def _mhz(hz: int | None) -> int | None:
    return None if hz is None else hz // 10**6


def _devices(found: Diagnosis) -> Iterator[dict[str, Cell]]:
    for device in found.host.devices:
        users = users_text(found.users.of([device.path]))
        yield _device(device, f"open in {users}" if users else None)


def _device(device: Device, use: str | None) -> dict[str, Cell]:
    node = device.node
    product = device.facts.get("product")
    no_gpu = "no GPU in its topology" if device.facts.get("gpus") == 0 else None
    return {
        "device": device.path,
        "lock": device.lock,
        "driver": device.driver or device.module,
        "where": device.where,
        "ids": device.ids,
        "mode": node.mode_text if node else None,
        "owner": f"{node.owner}:{node.group}" if node else None,
        "access": device.usable,
        "detail": _joined(device.remedy, no_gpu, str(product) if product else None, use),
    }


def _places(found: Diagnosis) -> Iterator[Mapping[str, Cell]]:
    locks, store = found.locks, found.store
    folder = str(locks.folder) if locks.folder else None
    yield {"place": "lock folder", "path": folder, "detail": locks.error or locks.caution or "usable"}
    for each in locks.reports:
        state = holder_text(each, found.taken_ns) or "free"
        yield {"place": f"lock {each.device}", "path": str(each.path), "detail": state}
    runs = "not there yet" if not store.exists else f"{store.runs} runs, schema {store.schema}"
    writable = "writable" if store.writable else "not writable"
    detail = _joined(store.error or runs, writable, store.filesystem)
    yield {"place": "history", "path": str(store.path), "detail": detail}


def _flat(
    found: Diagnosis, facts: Mapping[str, str], places: Iterable[Mapping[str, Cell]]
) -> Iterator[dict[str, Cell]]:
    """One finding per line: section, name, state, detail."""
    for name, value in facts.items():
        yield _line("box", name, None, value)
    for row in map(_buffer, found.kinds):
        yield _line("buffer", row["buffer"], row["state"], row["detail"])
    for row in map(_driver, found.drivers):
        identity = (f"{key}={row[key]}" for key in ("version", "srcversion", "build_id") if row[key])
        yield _line("driver", row["driver"], row["state"], " ".join(identity))
    for row in map(_clock, found.host.clocks):
        yield _line("clock", row["clock"], row["governor"], row["driver"])
    for row in _devices(found):
        words = (f"lock {row['lock']}" if row["lock"] else None, row["detail"])
        detail = _joined(*(str(word) if word else None for word in words))
        yield _line("device", row["device"], "usable" if row["access"] else "not usable", detail)
    for place in places:
        yield _line("place", place["place"], place["path"], place["detail"])
    for warning in found.warnings:
        yield _line("warning", warning.code, None, warning.text)


def _line(section: str, name: Cell, state: Cell, detail: Cell) -> dict[str, Cell]:
    return {"section": section, "name": name, "state": state, "detail": detail}
