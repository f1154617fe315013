"""Settings of how cards are shared and reach containers come from flags and the environment."""

from pathlib import Path

import pytest

from agent.test_settings import parse
from berth_agent import card_modes, plugin_choices, settings
from berth_crds import wire


def test_sharing_is_a_strategy_and_a_number() -> None:
    """Cards are shared only where somebody says how."""
    assert parse().modes == card_modes.CardModes()
    assert parse("--sharing", "time-slicing:4").modes.sharing == wire.Sharing("time-slicing", 4)
    assert parse(BERTH_SHARING="mps:2").modes.sharing == wire.Sharing("mps", 2)
    assert parse("--sharing", "", BERTH_SHARING="mps:2").modes.sharing is None
    assert not parse("--no-rename-shared").modes.renamed
    assert parse(MIG_STRATEGY="single").modes.mig_strategy == "single"
    assert parse("--mig-strategy=none", MIG_STRATEGY="single").modes.mig_strategy == "none"


def test_the_plugin_of_the_runtime_is_told_what_to_do() -> None:
    """It is there where its socket is given; the driver's folders are called as for NVIDIA's plugin."""
    nvidias = {
        "NVIDIA_DRIVER_ROOT": "/run/driver",
        "DRIVER_ROOT_CTR_PATH": "/seen",
        "NVIDIA_DEV_ROOT": "/host",
    }
    ours = {"BERTH_GUARD": "yes", "BERTH_UNGUARDED_NAMESPACES": "a, b", "BERTH_POD_RESOURCES": "p.sock"}

    assert (parse().nri, parse().driver) == (None, settings.DriverFolders())
    assert parse("--nri", "n.sock").nri == settings.NriSettings(Path("n.sock"))
    assert parse(BERTH_NRI="n.sock", **ours).nri == settings.NriSettings(
        Path("n.sock"), guard=True, unguarded_namespaces=("a", "b")
    )
    assert parse("--nri=n", "--nri-cdi-kind=nvidia.com/gpu").nri == settings.NriSettings(
        Path("n"), "nvidia.com/gpu"
    )
    assert (parse().cdi, parse(BERTH_CDI="/var/run/cdi").cdi) == (None, Path("/var/run/cdi"))
    assert parse(**nvidias).driver == settings.DriverFolders(
        Path("/run/driver"), Path("/seen"), Path("/host/dev"), Path("/host/dev")
    )
    assert parse("--nvidia-driver-root=/d", BERTH_NVIDIA_DRIVER_ROOT="/e", **nvidias).driver.on_host == Path(
        "/d"
    )
    foreign = ("--driver-root=/run/driver", "--dev-root=/host", "--container-driver-root=/seen")
    assert parse(*foreign).driver == parse(**nvidias).driver
    assert parse(CONTAINER_DRIVER_ROOT="/seen").driver.root == Path("/seen")
    assert parse("--nvidia-driver-root=/d").driver == settings.DriverFolders(
        Path("/d"), Path("/d"), Path("/d/dev"), Path("/d/dev")
    )


def test_parts_of_cards_are_enforced_as_somebody_says() -> None:
    """By nothing unless that is said; the daemon of MPS is also there for the device plugin alone."""
    assert (parse().isolation, parse().mps) == (settings.IsolationSettings(), None)
    hami = parse("--nri=n", "--share-isolation=hami-core", BERTH_HAMI_CORE="/h").isolation
    assert hami == settings.IsolationSettings("hami-core", Path("/h"))
    plugin = ("--kubelet-socket=k", "--pod-resources=p", "--mps-control=c")
    assert parse(*plugin, "--sharing=mps:2", MPS_ROOT="/m").mps == settings.MpsSettings(Path("/m"), "c")
    for words in (("--sharing=mps:2",), (*plugin, "--sharing=time-slicing:2"), plugin):
        assert parse(*words, MPS_ROOT="/m").mps is None
    assert parse("--nri=n", "--share-isolation=mps", "--mps-root=/m").mps == settings.MpsSettings(
        Path("/m"), "nvidia-cuda-mps-control"
    )


def test_the_device_plugin_is_told_as_nvidias_is() -> None:
    """By the same variables; a flag of ours wins."""
    nvidias = {
        "KUBELET_SOCKET": "k.sock",
        "DEVICE_LIST_STRATEGY": "envvar,cdi-cri",
        "DEVICE_ID_STRATEGY": "index",
        "PASS_DEVICE_SPECS": "true",
        "SHARED_DEVICES_ALLOCATION_POLICY": "packed",
        "CDI_ANNOTATION_PREFIX": "cdi.example.com/",
    }
    more = ("--pod-resources=p", "--cdi=c")

    assert parse().plugin is None
    assert parse("--kubelet-socket=k", "--pod-resources=p").plugin == settings.PluginSettings(Path("k"))
    found = parse(*more, **nvidias).plugin
    assert found == settings.PluginSettings(
        Path("k.sock"),
        plugin_choices.PluginChoices(
            ("envvar", "cdi-cri"),
            "index",
            pass_device_specs=True,
            allocation_policy="packed",
            cdi_annotation_prefix="cdi.example.com/",
        ),
    )
    flags_win = parse(
        *(
            *more,
            "--device-list-strategy=volume-mounts",
            "--device-id-strategy=uuid",
            "--no-pass-device-specs",
            "--shared-devices-allocation-policy=distributed",
            "--fail-requests-greater-than-one",
            "--cdi-annotation-prefix=cdi.k8s.io/",
        ),
        **nvidias,
    ).plugin
    assert flags_win
    assert flags_win.choices == plugin_choices.PluginChoices(("volume-mounts",), one_replica_each=True)


@pytest.mark.parametrize(
    ("more", "one_each"),
    [
        pytest.param((), None, id="no plugin that could refuse anything"),
        pytest.param(("--kubelet-socket=k", "--pod-resources=r"), True, id="the plugin refuses several"),
    ],
)
def test_the_device_tells_whether_several_replicas_are_refused(
    more: tuple[str, ...], *, one_each: bool | None
) -> None:
    """So that no pod is bound where the kubelet would fail it."""
    found = parse("--sharing=mps:2", "--mps-root=/m", "--fail-requests-greater-than-one", *more).modes.sharing

    assert found == wire.Sharing("mps", 2, one_per_container=one_each)


def test_the_runtimes_configuration_may_lie_in_several_places() -> None:
    """Empty means that it is not looked for."""
    assert parse().runtime_config == ()
    assert parse("--runtime-config=/a/config.toml, b").runtime_config == (Path("/a/config.toml"), Path("b"))
    assert parse(BERTH_RUNTIME_CONFIG="c").runtime_config == (Path("c"),)
