import pytest

from zcopy.host import Clock, Load, Temperature
from zcopy.host.quiet import clock_warnings, load_warnings, temperature_warnings


def clock(kind: str, governor: str | None, cpus: tuple[int, ...] = ()) -> Clock:
    return Clock(kind, "dmc", governor, None, None, None, None, cpus, "/sys/class/devfreq/dmc/governor")


@pytest.mark.parametrize(
    ("one", "cpus", "codes"),
    [(0.6, 2, []), (0.8, 2, ["load"]), (0.8, 8, []), (3.6, 32, []), (3.8, 32, ["load"]), (None, 2, [])],
)
def test_load_is_judged_by_the_number_of_cpus(one: float | None, cpus: int, codes: list[str]) -> None:
    assert [warning.code for warning in load_warnings(Load(one, None, None), cpus)] == codes


def test_pressure_has_a_threshold_per_resource() -> None:
    pressure = {"cpu": 4.0, "io": 9.0, "memory": 2.0, "odd": 50.0}
    (warning,) = load_warnings(Load(0.0, 0.0, 0.0, pressure), 2)
    assert "memory" in warning.text


def test_a_box_without_governors_is_not_warned_about() -> None:
    assert list(clock_warnings([])) == []
    assert list(clock_warnings([clock("cpu", None)])) == []
    assert list(clock_warnings([clock("cpu", "performance"), clock("drm", "auto")])) == []


def test_cpu_policies_make_one_warning_and_devfreq_one_each() -> None:
    clocks = [clock("cpu", "powersave", (0, 1)), clock("cpu", "ondemand", (2,)), clock("devfreq", "simple")]
    cpu, devfreq = clock_warnings(clocks)
    assert "ondemand, powersave on CPUs 0-2" in cpu.text
    assert "tee /sys/class/devfreq/dmc/governor" in devfreq.text


@pytest.mark.parametrize(
    ("celsius", "limit", "count"), [(69.0, 75.0, 0), (71.0, 75.0, 1), (80.0, 75.0, 1), (200.0, None, 0)]
)
def test_near_the_limit(celsius: float, limit: float | None, count: int) -> None:
    assert len(list(temperature_warnings([Temperature("soc", celsius, limit)]))) == count
