"""The environment becomes settings, or one clear line that says what is wrong."""

import os
from pathlib import Path

import pytest

from sdi.settings import NAMES, FineGrain, Settings, SettingsError, without_effect


def test_nothing_set_gives_the_defaults() -> None:
    assert Settings.from_environ({}) == Settings()


def test_empty_and_blank_variables_count_as_not_set() -> None:
    assert Settings.from_environ(dict.fromkeys(NAMES, " ")) == Settings()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shared", FineGrain()),
        ("Batch", FineGrain("batch")),
        ("eager", FineGrain("eager")),
        ("lazy", FineGrain("lazy")),
        ("rolling", FineGrain("rolling", 256 << 10)),
        ("rolling:64K", FineGrain("rolling", 64 << 10)),
        ("rolling:1M:4", FineGrain("rolling", 1 << 20, 4)),
    ],
)
def test_an_update_of_fine_grained_memory_may_have_blocks_and_a_number(
    text: str, expected: FineGrain
) -> None:
    assert Settings.from_environ({"SDI_FINE_GRAIN": text}).fine_grain == expected


def test_every_setting_is_read() -> None:
    settings = Settings.from_environ(
        {
            "SDI_NUM_GPUS": "4",
            "SDI_DEVICES": "pocl",
            "SDI_SPLIT": "Always",
            "SDI_BALANCE": "random:7",
            "SDI_COHERENCE": "host",
            "SDI_MEMBER_MEMORY": "64M",
            "SDI_NODE_MEMORY": "2G",
            "SDI_PLATFORM_NAME": "Some platform",
            "SDI_PLATFORM_VENDOR": "Some, Inc.",
            "SDI_DEVICE_VENDOR": "Some: more:0x10De",
            "SDI_DEVICE_NAME": "Some GPU",
            "SDI_MEMBER_VENDORS": "/etc/OpenCL/vendors",
            "SDI_LOG": "debug",
            "SDI_STATS": "/tmp/stats-%p.json",
            "SDI_VERIFY": "1",
            "SDI_EXPLAIN": "1",
            "SDI_TEST_MEMBERS": "/hooks.py:late=1",
            "SDI_NODE_TIMEOUT": "5",
            "SDI_PROFILE": "/tmp/profile",
            "SDI_SERVICE": "/tmp/socket",
            "SDI_PYTHON": "/usr/bin/python3",
        }
    )
    assert settings == Settings(
        num_gpus=4,
        devices="pocl",
        split="always",
        balance=("random", 7),
        coherence="host",
        member_memory=64 << 20,
        node_memory=2 << 30,
        member_vendors="/etc/OpenCL/vendors",
        platform_name="Some platform",
        platform_vendor="Some, Inc.",
        device_vendor=("Some: more", 0x10DE),
        device_name="Some GPU",
        log="debug",
        stats=Path(f"/tmp/stats-{os.getpid()}.json"),
        verify="stop",
        explain=True,
        test_members="/hooks.py:late=1",
        node_timeout_s=5,
        profile=Path("/tmp/profile"),
        service=Path("/tmp/socket"),
        python="/usr/bin/python3",
    )


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("4096", 4096), ("3k", 3 << 10), ("64MiB", 64 << 20), ("2G", 2 << 30), ("1tb", 1 << 40)],
)
def test_member_memory_counts_in_powers_of_1024(text: str, nbytes: int) -> None:
    assert Settings.from_environ({"SDI_MEMBER_MEMORY": text}).member_memory == nbytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AMD", ("AMD", None)),
        ("AMD:0x1002", ("AMD", 0x1002)),
        ("A, B : 0X9", ("A, B", 9)),
        ("a:b", ("a:b", None)),
    ],
)
def test_a_device_vendor_is_a_name_and_perhaps_a_number(text: str, expected: tuple[str, int | None]) -> None:
    assert Settings.from_environ({"SDI_DEVICE_VENDOR": text}).device_vendor == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SDI_NUM_GPUS", "0"),
        ("SDI_NUM_GPUS", "four"),
        ("SDI_NUM_GPUS", "-1"),
        ("SDI_NUM_GPUS", "1_0"),
        ("SDI_NUM_GPUS", "257"),
        ("SDI_SPLIT", "yes"),
        ("SDI_COHERENCE", "eager"),
        ("SDI_FINE_GRAIN", "copies"),
        ("SDI_HOST_WATCH", "sometimes"),
        ("SDI_FINE_GRAIN", "lazy:64K"),
        ("SDI_FINE_GRAIN", "rolling:5000"),
        ("SDI_FINE_GRAIN", "rolling:64K:0"),
        ("SDI_FINE_GRAIN", "rolling:64K:2:1"),
        ("SDI_MEMBER_MEMORY", "0"),
        ("SDI_HOST_MEMORY", "0"),
        ("SDI_SPILL", "/x:3Q"),
        ("SDI_MEMBER_MEMORY", "64X"),
        ("SDI_MEMBER_MEMORY", "-1M"),
        ("SDI_NODE_MEMORY", "-1"),
        ("SDI_NODE_MEMORY", "half"),
        ("SDI_LOG", "loud"),
        ("SDI_VERIFY", "2"),
        ("SDI_IMAGE", "0"),
        ("SDI_BALANCE", "on"),
        ("SDI_BALANCE", "auto:1"),
        ("SDI_BALANCE", "random"),
        ("SDI_BALANCE", "random:x"),
        ("SDI_PLATFORM_NAME", "ä"),
        ("SDI_PLATFORM_VENDOR", "a\tb"),
        ("SDI_PLATFORM_VENDOR", "ä"),
        ("SDI_PLATFORM_VENDOR", "x" * 256),
        ("SDI_DEVICE_NAME", "a\tb"),
        ("SDI_DEVICE_VENDOR", ":0x10de"),
        ("SDI_DEVICE_VENDOR", "a:0x123456789"),
        ("SDI_DEVICE_VENDOR", "a\nb"),
    ],
)
def test_a_malformed_value_is_one_line_with_name_and_value(name: str, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_environ({name: text})
    message = str(caught.value)
    assert message.startswith(f"{name}={text!r}: expected ") and "\n" not in message


def test_what_is_about_splitting_has_no_effect_where_each_member_is_a_device() -> None:
    given = {"SDI_SPLIT": "always", "SDI_VERIFY": "1", "SDI_LOG": "info"}
    assert without_effect(given) == without_effect({"SDI_IMAGE": "off", "SDI_SPLIT": " "}) == []
    said = without_effect({**given, "SDI_IMAGE": "Off"})
    assert [text.partition(" has no effect")[0] for text in said] == ["SDI_SPLIT=always", "SDI_VERIFY=1"]
    assert Settings.from_environ({}).said_of_devices == []
    assert len(Settings.from_environ({"SDI_IMAGE": "off"}).said_of_devices) == 1


def test_files_have_a_folder_and_perhaps_a_limit() -> None:
    def spill(text: str) -> object:
        return Settings.from_environ({"SDI_SPILL": text}).spill

    assert spill("/x:2G") == (Path("/x"), 2 << 30) and spill("/x:64") == (Path("/x"), 64)
    assert spill("/x") == (Path("/x"), None) and spill("/a:b/c") == (Path("/a:b/c"), None)
    assert spill("/a:1/c") == (Path("/a:1/c"), None)
    assert without_effect({"SDI_HOST_MEMORY": "1G", "SDI_SPILL": "/x"}) == []
    (said,) = without_effect({"SDI_HOST_MEMORY": "1G"})
    assert said.startswith("SDI_HOST_MEMORY=1G has no effect: without SDI_SPILL")
    (line,) = Settings.from_environ({"SDI_SPILL": "/x:2G"}).said_of_devices
    assert line == "buffers beyond half of what is free of host memory lie in files in /x, up to 2.0 GiB"


def test_misspelled_settings_are_said() -> None:
    given = {"SDI_SPLITS": "1", "SDI_SPLIT": "auto", "SDI_IN_SERVICE": "1", "SDI_QQQQQQ": "", "HOME": "/"}
    assert without_effect(given) == [
        "SDI_QQQQQQ has no effect: sdi has no such setting",
        "SDI_SPLITS has no effect: sdi has no such setting (did you mean SDI_SPLIT?)",
    ]
