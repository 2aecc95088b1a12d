"""Whole machines, from their /proc and /sys to the facts a run carries."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.host import Host
from zcopy.units import GIB, MIB

NAMES = ("strix-halo", "rk3588", "plain-vm", "amdgpu-without-gpu")


@pytest.mark.parametrize("name", NAMES)
def test_document_and_key_are_json_without_nan(host: Callable[[str], Host], name: str) -> None:
    read = host(name)
    text = json.dumps({"host": read.document(), "key": read.key(["amdgpu", "udmabuf"])}, allow_nan=False)
    assert json.loads(text)["host"]["kernel"]["release"] == read.kernel.release


def test_every_machine_has_its_own_key(host: Callable[[str], Host]) -> None:
    keys = [json.dumps(host(name).key()) for name in NAMES]
    assert len(set(keys)) == len(NAMES)


def test_strix_halo_facts(host: Callable[[str], Host]) -> None:
    read = host("strix-halo")
    assert read.kernel.page_size == 4096
    assert read.kernel.cmdline == ("iommu=pt", "amdgpu.gttsize=98304", "ttm.pages_limit=25165824")
    assert read.machine.model == "Framework Desktop (AMD Ryzen AI Max 300 Series)"
    assert (read.machine.virtual, read.machine.container) == (None, None)
    assert (read.cpu.count, read.cpu.allowed) == (32, tuple(range(16)))
    assert read.cpu.last_level_bytes == 32 * MIB
    assert [len(cluster.cpus) for cluster in read.cpu.clusters] == [32]
    assert "avx512_vnni" in read.cpu.isa
    assert read.memory.memlock is None
    assert (read.memory.thp.enabled, read.memory.thp.shmem_enabled) == ("always", "advise")


def test_strix_halo_pools_and_mthp(host: Callable[[str], Host]) -> None:
    memory = host("strix-halo").memory
    pool = memory.pool(2 * MIB)
    assert pool is not None
    assert (pool.total, pool.free, pool.available) == (512, 400, 384)
    assert memory.pool(64 * MIB) is None
    assert [(each.size, each.enabled, each.shmem_enabled) for each in memory.thp.sizes] == [
        (65536, "never", "advise"),
        (2 * MIB, "inherit", None),
    ]


def test_strix_halo_room_is_the_groups_and_counts_its_droppable_cache(host: Callable[[str], Host]) -> None:
    room, name = host("strix-halo").room()
    assert name == "/sys/fs/cgroup/user.slice/user-1000.slice/memory.max"
    assert room == 64 * GIB - (10 * GIB - 5 * GIB) - 512 * MIB


def test_strix_halo_devices(host: Callable[[str], Host]) -> None:
    devices = {device.path: device for device in host("strix-halo").devices}
    assert list(devices) == [
        "/dev/dri/card1", "/dev/dri/renderD128", "/dev/accel/accel0", "/dev/kfd", "/dev/dma_heap/system",
        "/dev/udmabuf",
    ]  # fmt: skip
    gpu, npu = devices["/dev/dri/card1"], devices["/dev/accel/accel0"]
    assert (gpu.driver, gpu.module, gpu.where, gpu.ids) == ("amdgpu", "amdgpu", "0000:c5:00.0", "1002:1586")
    assert gpu.facts["gtt_total_bytes"] == 96 * GIB
    assert (npu.driver, npu.where, npu.ids) == ("amdxdna", "0000:c6:00.1", "1022:17f0")
    assert npu.facts == {"product": "RyzenAI-npu5", "firmware": "1.0.0.63"}
    assert devices["/dev/kfd"].facts == {"gpus": 1}


def test_strix_halo_fingerprints(host: Callable[[str], Host]) -> None:
    read = host("strix-halo")
    drivers = {driver.name: driver for driver in read.drivers}
    assert list(drivers) == ["amdgpu", "amdxdna", "udmabuf"]
    assert (drivers["amdgpu"].version, drivers["amdgpu"].taint) == (None, "")
    assert drivers["amdgpu"].build_id == "a2" * 20
    npu = drivers["amdxdna"]
    assert (npu.version, npu.srcversion, npu.taint) == ("0.1", "0123456789ABCDEF0123456", "OE")
    assert drivers["udmabuf"].built_in
    assert read.key(["amdxdna", "absent"])["drivers"] == {"amdxdna": npu.key(), "absent": None}


def test_strix_halo_gpu_of_the_topology(host: Callable[[str], Host]) -> None:
    gpus = [node for node in host("strix-halo").kfd if node.is_gpu]
    assert [(node.gfx, node.simds, node.render_minor) for node in gpus] == [("gfx1151", 80, 128)]


def test_strix_halo_clocks_merge_alike_policies(host: Callable[[str], Host]) -> None:
    read = host("strix-halo")
    cpu, gpu = read.clocks
    assert (cpu.governor, cpu.cpus, cpu.max_hz) == ("powersave", tuple(range(32)), 5_187_500_000)
    assert (gpu.kind, gpu.name, gpu.governor, gpu.driver) == ("drm", "card1", "auto", "amdgpu")
    assert read.key()["governors"] == {"cpu": "powersave", "card1": "auto"}


def test_strix_halo_is_not_quiet(host: Callable[[str], Host]) -> None:
    read = host("strix-halo")
    found = {warning.code: warning.text for warning in read.quiet_warnings()}
    assert set(found) == {"governor", "pressure", "temperature"}
    assert "powersave on CPUs 0-31" in found["governor"]
    assert "io" in found["pressure"]
    assert found["temperature"].startswith("amdgpu edge is at 97")


def test_only_processor_sensors_are_read(host: Callable[[str], Host]) -> None:
    assert [each.name for each in host("strix-halo").temperatures()] == ["k10temp Tctl", "amdgpu edge"]


def test_rk3588_tells_its_clusters_apart(host: Callable[[str], Host]) -> None:
    cpu = host("rk3588").cpu
    assert [(each.name, each.cpus, each.capacity, each.max_hz) for each in cpu.clusters] == [
        ("Cortex-A55", (0, 1, 2, 3), 530, 1_800_000_000),
        ("Cortex-A76", (4, 5, 6, 7), 1024, 2_400_000_000),
    ]
    assert cpu.model == "4 x Cortex-A55 + 4 x Cortex-A76"
    assert cpu.allowed == (4, 5, 6, 7)
    assert cpu.isa == ("asimd", "asimddp", "dcpop")
    assert [cache.size for cache in cpu.caches] == [3 * MIB]


def test_rk3588_machine(host: Callable[[str], Host]) -> None:
    read = host("rk3588")
    assert (read.machine.model, read.machine.soc) == ("System on A Module", "rockchip,rk3588")
    assert read.kernel.arch == "aarch64"


def test_rk3588_devfreq(host: Callable[[str], Host]) -> None:
    read = host("rk3588")
    assert [(clock.kind, clock.name, clock.governor, clock.now_hz) for clock in read.clocks] == [
        ("cpu", "policy0", "ondemand", None),
        ("cpu", "policy4", "performance", None),
        ("devfreq", "dmc", "dmc_ondemand", 528_000_000),
        ("devfreq", "fdab0000.npu", "performance", 1_000_000_000),
    ]
    assert read.clocks[1].cpus == (4, 5, 6, 7)
    governors = read.key()["governors"]
    assert governors == {"cpu": "ondemand+performance", "dmc": "dmc_ondemand", "fdab0000.npu": "performance"}


def test_rk3588_devices(host: Callable[[str], Host]) -> None:
    read = host("rk3588")
    npu = read.of_kind("drm-render")[0]
    assert (npu.driver, npu.module, npu.where) == ("RKNPU", None, "fdab0000.npu")
    assert npu.ids == "rockchip,rk3588-rknpu"
    assert [device.name for device in read.of_kind("dma-heap")] == ["system", "system-uncached"]
    assert read.of_kind("mali")[0].node is None
    assert "container" in str(read.of_kind("mali")[0].remedy)
    assert [device.facts for device in read.of_kind("v4l2")] == [{"product": "rkvdec [x]"}]


def test_rk3588_built_in_driver_has_the_kernels_build_id(host: Callable[[str], Host]) -> None:
    read = host("rk3588")
    rknpu = read.driver("rknpu")
    assert rknpu is not None
    assert (rknpu.built_in, rknpu.build_id, rknpu.taint) == (True, "c4" * 20, None)
    assert rknpu in read.drivers


def test_rk3588_is_not_quiet(host: Callable[[str], Host]) -> None:
    found = [(warning.code, warning.text) for warning in host("rk3588").quiet_warnings()]
    assert [code for code, _ in found] == ["load", "governor", "governor", "temperature", "memory"]
    assert "on CPUs 0-3" in found[1][1]
    assert "dmc is under governor dmc_ondemand" in found[2][1]
    assert "72 °C" in found[3][1]
    assert "75 °C" in found[3][1]


def test_plain_vm(host: Callable[[str], Host]) -> None:
    read = host("plain-vm")
    assert read.machine.virtual == "qemu"
    assert read.kernel.build_id == "00112233445566778899aabbccddeeff00112233"
    assert read.kernel.cmdline == ("mitigations=off", "udmabuf.size_limit_mb=256")
    assert read.memory.memlock == 8 * MIB
    assert read.memory.limits == ()
    assert read.parameter("udmabuf", "size_limit_mb") == "64"
    assert [device.kind for device in read.devices] == ["udmabuf"]
    assert (read.clocks, read.temperatures(), read.kfd) == ((), (), ())
    assert read.quiet_warnings() == ()
    assert read.room() == (1_600_000 * 1024 - 1_600_000 * 1024 // 16, "MemAvailable")


def test_kfd_without_gpu(host: Callable[[str], Host]) -> None:
    read = host("amdgpu-without-gpu")
    assert [node.is_gpu for node in read.kfd] == [False]
    assert read.of_kind("kfd")[0].facts == {"gpus": 0}
    amdgpu = read.driver("amdgpu")
    assert amdgpu is not None
    assert amdgpu.state == "live"
    assert read.kernel.page_size is None


def test_load_is_asked_anew(box: Callable[[str], Path]) -> None:
    root = box("plain-vm")
    read = Host.read(root)
    assert read.quiet_warnings() == ()
    (root / "proc/loadavg").write_text("1.90 0.10 0.05 3/90 99\n")
    assert [warning.code for warning in read.quiet_warnings()] == ["load"]


def test_room_is_asked_anew(box: Callable[[str], Path]) -> None:
    root = box("plain-vm")
    read = Host.read(root)
    (root / "proc/meminfo").write_text("MemTotal: 2048000 kB\nMemAvailable: 102400 kB\n")
    assert read.room() == (84 * MIB, "MemAvailable")
    assert [warning.code for warning in read.quiet_warnings()] == ["memory"]


def test_the_hosts_name(host: Callable[[str], Host]) -> None:
    assert host("strix-halo").document()["name"] == "halo"
    assert host("rk3588").document()["name"] is None


def test_pools_are_asked_anew_and_count_what_may_be_added(box: Callable[[str], Path]) -> None:
    root = box("strix-halo")
    read = Host.read(root)
    folder = root / "sys/kernel/mm/hugepages/hugepages-2048kB"
    (folder / "free_hugepages").write_text("20\n")
    (folder / "nr_overcommit_hugepages").write_text("8\n")
    (folder / "surplus_hugepages").write_text("3\n")
    small, large = read.pools()
    assert (small.size, small.available, small.overcommit) == (2 * MIB, 4, 5)
    assert (large.size, large.available, large.overcommit) == (GIB, 0, 0)


@pytest.mark.parametrize(
    "driver", ["", "sys/devices/faux/vgem/driver -> ../../../bus/faux/drivers/faux_driver\n"]
)
def test_a_software_card_is_called_like_its_module(tree: Callable[[str], Path], driver: str) -> None:
    """vgem hangs on a platform device without a driver, in later kernels on the faux bus."""
    root = tree(
        "sys/class/drm/card0 -> ../../devices/faux/vgem/drm/card0\n"
        "sys/devices/faux/vgem/drm/card0/device -> ../../../vgem\n"
        "sys/module/vgem/initstate = live\n" + driver
    )
    read = Host.read(root)
    (card,) = read.devices
    assert (card.module, card.where) == ("vgem", "vgem")
    assert [each.name for each in read.drivers] == ["vgem"]


VIRTIO = (
    "sys/class/drm/card1 -> ../../devices/pci0000:00/0000:00:03.0/drm/card1\n"
    "sys/devices/pci0000:00/0000:00:03.0/drm/card1/device -> ../../../0000:00:03.0\n"
    "sys/devices/pci0000:00/0000:00:03.0/driver -> ../../../bus/pci/drivers/virtio-pci\n"
    "sys/bus/pci/drivers/virtio-pci/module -> ../../../../module/virtio_pci\n"
    "sys/module/virtio_pci/initstate = live\nsys/module/virtio_gpu/initstate = live\n"
)
BOUND = (
    "sys/devices/pci0000:00/0000:00:03.0/virtio2/driver -> ../../../../bus/virtio/drivers/virtio_gpu\n"
    "sys/bus/virtio/drivers/virtio_gpu/module -> ../../../../module/virtio_gpu\n"
)


@pytest.mark.parametrize(
    ("bound", "driver", "module"),
    [(BOUND, "virtio_gpu", "virtio_gpu"), ("", "virtio-pci", "virtio_pci")],
)
def test_what_virtio_only_carries_is_named_after_its_own_driver(
    bound: str, driver: str, module: str, tree: Callable[[str], Path]
) -> None:
    (card,) = Host.read(tree(VIRTIO + bound)).of_kind("drm-card")
    assert (card.driver, card.module, card.where) == (driver, module, "0000:00:03.0")
