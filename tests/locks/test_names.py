import pytest

from zcopy.errors import UsageError
from zcopy.locks import LockSettings, lock_disabled, no_locks
from zcopy.locks.names import resolve


def test_devices_are_sorted_and_each_once() -> None:
    assert resolve(["npu0", "cpu", "gpu0", "cpu"], {}) == ("cpu", "gpu0", "npu0")


def test_an_alias_stands_for_its_device() -> None:
    assert resolve(["gpu", "gpu0"], {"gpu": "gpu0"}) == ("gpu0",)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../cpu", "a/b", "-x", "a b", "a\n", "gpu0:1", "a+b", "x" * 33, "ü"]
)
def test_a_name_that_could_not_be_a_file_or_a_token_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a device name"):
        resolve([name], {})


def test_the_target_of_an_alias_is_checked_too() -> None:
    with pytest.raises(UsageError, match="which 'gpu' stands for"):
        resolve(["gpu"], {"gpu": "../../etc/passwd"})


def test_no_device_at_all_is_a_wrong_call() -> None:
    with pytest.raises(UsageError, match="no device"):
        resolve([], {})


@pytest.mark.parametrize("value", ["1", "true", "YES", "on", " on "])
def test_locking_is_turned_off(value: str) -> None:
    assert lock_disabled(value)


@pytest.mark.parametrize("value", [None, "", "0", "false", "no", "off", "2", "maybe"])
def test_anything_else_leaves_locking_on(value: str | None) -> None:
    assert not lock_disabled(value)


def test_without_locks_the_states_say_none_and_the_outer_hold_is_passed_on() -> None:
    with no_locks(["gpu", "cpu"], LockSettings(aliases={"gpu": "gpu0"}, token="t")) as held:
        assert [(lock.device, lock.state) for lock in held.states] == [("cpu", "none"), ("gpu0", "none")]
        assert held.environ == {"ZCOPY_HELD": "t"}
        assert held.fds == ()
