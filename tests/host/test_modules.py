"""Is the module that is loaded the one on disk?"""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from zcopy.host import Host
from zcopy.host.files import Root
from zcopy.host.modules import has_module, installed_build_id

RELEASE = "7.3.0-test-amd64"


def install(root: Path, name: str, content: bytes) -> None:
    folder = root / "lib/modules" / RELEASE
    (folder / "kernel/drivers").mkdir(parents=True, exist_ok=True)
    (folder / "kernel/drivers" / name).write_bytes(content)
    (folder / "modules.dep").write_text(f"kernel/a.ko: \nkernel/drivers/{name}: kernel/a.ko\n")


SAME = bytes.fromhex("b3" * 20)
Image = Callable[[bytes], bytes]
PACKED = [(".ko", bytes), (".ko.xz", lzma.compress), (".ko.gz", gzip.compress)]


@pytest.mark.parametrize(("suffix", "pack"), PACKED)
def test_the_build_id_on_disk(tmp_path: Path, module_image: Image, suffix: str, pack: Image) -> None:
    install(tmp_path, f"some-driver{suffix}", pack(module_image(SAME)))
    assert installed_build_id(Root(tmp_path), RELEASE, "some_driver") == "b3" * 20


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"\xfd7zXZ\0junk", b"\x1f\x8bjunk", b"\x28\xb5\x2f\xfd", b"\x7fELF\x02\x01"]
)
def test_a_file_that_cannot_be_read_has_none(tmp_path: Path, content: bytes) -> None:
    install(tmp_path, "amdxdna.ko", content)
    assert installed_build_id(Root(tmp_path), RELEASE, "amdxdna") is None


def test_a_module_without_a_file_has_none(tmp_path: Path) -> None:
    assert installed_build_id(Root(tmp_path), RELEASE, "amdxdna") is None
    install(tmp_path, "other.ko", b"")
    (tmp_path / "lib/modules" / RELEASE / "kernel/drivers/other.ko").unlink()
    assert installed_build_id(Root(tmp_path), RELEASE, "other") is None


def test_a_path_out_of_the_folder_is_not_followed(tmp_path: Path, module_image: Image) -> None:
    (tmp_path / "evil.ko").write_bytes(module_image(SAME))
    folder = tmp_path / "lib/modules" / RELEASE
    folder.mkdir(parents=True)
    (folder / "modules.dep").write_text("../../../evil.ko:\n")
    assert installed_build_id(Root(tmp_path), RELEASE, "evil") is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "é", "x" * 65])
def test_what_cannot_be_a_module_is_absent(host: Callable[[str], Host], name: str) -> None:
    read = host("strix-halo")
    assert read.driver(name) is None
    assert read.parameter("udmabuf", name) is None
    assert read.parameter(name, "size_limit_mb") is None


def test_which_modules_a_kernel_has(tree: Callable[[str], Path]) -> None:
    root = Root(tree("== lib/modules/7.3.0/modules.dep\nkernel/drivers/dma-buf/system-heap.ko.zst:\n==\n"))
    assert has_module(root, "7.3.0", "system_heap") is True
    assert has_module(root, "7.3.0", "vgem") is False
    assert has_module(root, "6.1.0", "vgem") is None
    assert has_module(root, None, "vgem") is None
