"""Tells in the Device how the packages fare that add types of device."""

from berth_agent import device_status
from berth_agent.package_sources import PackageSources
from berth_agent.way import Way
from berth_crds import vocabulary, wire


class PackageReport(Way):
    """The condition about the packages of one node; there is none where there are no packages."""

    def __init__(self, sources: PackageSources) -> None:
        self._sources = sources

    def condition(self) -> wire.Condition:
        """Return whether all packages are loaded and their sources answer; it has no time yet."""
        return device_status.ready_or_not(
            vocabulary.DeviceCondition.DEVICE_PACKAGES_READY,
            self._sources.failure(),
            failed="SourceFailed",
            fine="DevicesRead",
            message=self._sources.counts(),
        )
