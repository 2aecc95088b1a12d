"""QEMU's command line: the machine that every test of the lane expects."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import tools
from .request import Request, Share

# One display device per DRM driver under test.
DISPLAYS = ("virtio-gpu-pci", "bochs-display", "qxl", "cirrus-vga")

# One thread for all virtual CPUs. With one thread each, a CPU may translate code
# that another is patching and keep the stale int3: "Oops: int3" in some boots
# (QEMU 7.2, about 1 in 20). On a host of two cores nothing is lost by it.
ACCELERATOR = "tcg,thread=single"

# TCG is slow, so nothing is switched on that only costs: no mitigations, no
# audit. loglevel=7 costs no time and has the PAT map, which says what the
# monitor's "info tlb" means. panic=-1 and -no-reboot turn a panic into the end of
# QEMU at once, and an oops is a panic: a driver that crashed must not look like a
# failed command.
KERNEL_LINE = (
    "console=ttyS0 loglevel=7 panic=-1 oops=panic mitigations=off audit=0 "
    "apparmor=0 no_timer_check tsc=reliable random.trust_cpu=on"
)


def base(request: Request) -> list[str]:
    """q35 without a network, run by the translator: KVM would hide PAT."""
    return [
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-machine", "q35", "-accel", ACCELERATOR, "-cpu", "max"),
        *("-smp", str(request.cpus), "-m", str(request.memory), "-nic", "none"),
    ]


def folder(tag: str, share: Share) -> list[str]:
    # A comma would end the option; QEMU reads two as one.
    path = str(share.folder).replace(",", ",,")
    readonly = "off" if share.writable else "on"
    options = f"security_model=none,multidevs=remap,readonly={readonly}"
    return ["-virtfs", f"local,path={path},mount_tag={tag},{options}"]


def folders(shares: Sequence[Share]) -> Iterator[str]:
    yield from folder("root", Share(Path("/")))
    for number, share in enumerate(shares):
        yield from folder(f"share{number}", share)


def ports(pipes: Mapping[str, int]) -> Iterator[str]:
    """One virtio-serial port a stream, written straight into our pipe."""
    yield from ("-device", "virtio-serial-pci")
    for number, (name, fd) in enumerate(pipes.items(), start=1):
        yield from ("-add-fd", f"fd={fd},set={number}")
        # append=on: QEMU would truncate, which a pipe refuses.
        source = f"file,id={name},path=/dev/fdset/{number},append=on"
        yield from ("-chardev", source)
        yield from ("-device", f"virtserialport,chardev={name},name={name}")


def monitor(socket: Path | None) -> list[str]:
    if socket is None:
        return []
    path = str(socket).replace(",", ",,")
    return ["-monitor", f"unix:{path},server=on,wait=off"]


def command(request: Request, image: Path, initrd: Path, log: Path, pipes: Mapping[str, int]) -> list[str]:
    """setpriv makes the kernel kill QEMU when we are killed, whatever the signal."""
    displays = [word for device in DISPLAYS for word in ("-device", device)]
    return [
        *(tools.need("setpriv"), "--pdeathsig", "KILL"),
        tools.need("qemu-system-x86_64"),
        *base(request),
        *("-kernel", str(image), "-initrd", str(initrd), "-append", KERNEL_LINE),
        *("-serial", f"file:{log}"),
        *folders(request.shares),
        *displays,
        *ports(pipes),
        *monitor(request.monitor),
    ]
