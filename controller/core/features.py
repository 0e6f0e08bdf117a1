"""Feature levels (KIP-584): who may register, and UpdateFeatures.

A level is raised only if this controller and every registered broker and controller support it; what a node may say on
the wire and into the log follows from it, so nothing new is used before all know it. Our own brokers register with the
levels that they serve, so that none is raised whose APIs are missing; while no broker is registered, the same counts. A
node that does not support a finalized level is not let in. Lowering takes an upgrade type that allows it;
metadata.version is lowered only where no record format changed in between, because the log could not be read otherwise.

`kraft.version` is the quorum's own feature: it is in no metadata record. The quorum raises it, and writes the voters
into the log with it, once each of them has reported its own; it is never lowered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...protocol import ErrorCode, KafkaError
from ...protocol.messages import FEATURE_SAFE_DOWNGRADE, FEATURE_UPGRADE
from ...protocol.messages.cluster import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse
from ..image.image import METADATA_VERSION
from ..records import BrokerFeature, FeatureLevelRecord, MetadataRecord
from .config import KRAFT_VERSION, SERVED_FEATURES, FeatureRange
from .state import ControllerResult, ControllerState, KRaftUpgrade, find_duplicates

UNSAFE_DOWNGRADE: Final = 3
FORMAT_CHANGES: Final = frozenset({23, 30})
"""Levels of metadata.version that changed records (4.0-IV1, 4.3-IV0)."""

EARLIEST_PENDING_UPLOAD_LEVEL: Final = 29
"""metadata.version 4.2-IV1: every broker answers ListOffsets -6 (KIP-1023)."""

NOT_THERE: Final = FeatureRange(0, 0)


def finalized_levels(state: ControllerState) -> dict[str, int]:
    """All features of the cluster, the quorum's own among them."""
    levels = dict(state.image.features)
    if state.kraft_version:
        levels[KRAFT_VERSION] = state.kraft_version
    return levels


def ranges(features: tuple[BrokerFeature, ...]) -> dict[str, FeatureRange]:
    """What a node said it supports."""
    return {item.name: FeatureRange(item.min_supported_version, item.max_supported_version) for item in features}


def check_supports_finalized(state: ControllerState, node: str, supported: Mapping[str, FeatureRange]) -> None:
    """UNSUPPORTED_VERSION unless the node supports every level that the cluster runs at."""
    for name, level in sorted(finalized_levels(state).items()):
        offered = supported.get(name, NOT_THERE)
        if level not in offered:
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"{node} does not support {name} at its finalized level {level}, only {offered.min_level} to"
                f" {offered.max_level}: upgrade the node, or lower the feature",
            )


def update_features(state: ControllerState, request: UpdateFeaturesRequest) -> ControllerResult[UpdateFeaturesResponse]:
    """UpdateFeatures, all or nothing."""
    try:
        records = _checked_updates(state, request)
    except KafkaError as error:
        return ControllerResult([], UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
    level = next((item.max_version_level for item in request.feature_updates if item.feature == KRAFT_VERSION), None)
    upgrade = None if level is None else KRaftUpgrade(level, request.validate_only)
    return ControllerResult([] if request.validate_only else records, _done(request), kraft_upgrade=upgrade)


def _checked_updates(state: ControllerState, request: UpdateFeaturesRequest) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    twice = find_duplicates([update.feature for update in request.feature_updates])
    for update in request.feature_updates:
        if update.feature in twice:
            raise KafkaError(ErrorCode.invalid_request, f"feature {update.feature!r} is given twice")
        level = update.max_version_level
        _check_update(state, update.feature, level, update.upgrade_type)
        if update.feature != KRAFT_VERSION and level != state.image.features.get(update.feature, 0):
            records.append(FeatureLevelRecord(name=update.feature, feature_level=level))
    return records


def _check_update(state: ControllerState, name: str, level: int, upgrade_type: int) -> None:
    current = finalized_levels(state).get(name, 0)
    if upgrade_type not in (FEATURE_UPGRADE, FEATURE_SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise KafkaError(ErrorCode.invalid_request, f"{name}: upgrade type {upgrade_type} is none of 1, 2, 3")
    if level < 0 or (level == 0 and name == METADATA_VERSION):
        raise _refused(f"level {level} of {name} is not one it can have")
    # Registered nodes count even while they are down: once back, they would read records they do not understand.
    for node, supported in _nodes(state):
        if level != 0 and level not in supported.get(name, NOT_THERE):
            raise _refused(f"{node} does not support level {level} of {name}, {_support(supported, name)}")
    if level >= current:
        return
    if upgrade_type == FEATURE_UPGRADE:
        raise _refused(f"{name} is at level {current}; to lower it to {level} allow a safe or unsafe downgrade")
    if name == KRAFT_VERSION:
        raise _refused(f"{name} is at level {current} and can never be lowered")
    if name == METADATA_VERSION and any(level < changed <= current for changed in FORMAT_CHANGES):
        raise _refused(f"{name} cannot be lowered from {current} to {level}: the records of its log changed in between")


def _nodes(state: ControllerState) -> Iterator[tuple[str, Mapping[str, FeatureRange]]]:
    """Everybody who must support a level, and what they support."""
    yield f"this controller ({state.config.node_id})", state.config.supported_features
    for controller_id, controller in sorted(state.image.controllers.items()):
        yield f"controller {controller_id}", ranges(controller.features)
    if not state.image.brokers:
        yield "a broker of this release", SERVED_FEATURES
    for broker_id, broker in sorted(state.image.brokers.items()):
        yield f"broker {broker_id}", ranges(broker.features)


def offered_features(state: ControllerState) -> dict[str, FeatureRange]:
    """The levels that every node supports: those that an update can ask for."""
    offered = dict(state.config.supported_features)
    for _, supported in _nodes(state):
        for name, (low, high) in offered.items():
            other = supported.get(name, NOT_THERE)
            offered[name] = FeatureRange(max(low, other.min_level), min(high, other.max_level))
    return {name: levels for name, levels in offered.items() if levels.max_level > 0}


def _support(supported: Mapping[str, FeatureRange], name: str) -> str:
    offered = supported.get(name)
    return "nor any other" if offered is None else f"only {offered.min_level} to {offered.max_level}"


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_update_version, message)


def _done(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Versions 0 and 1 also say of each feature that all is well; what is not is said of the whole."""
    results = tuple(
        UpdatableFeatureResult(feature=update.feature, error_message=None) for update in request.feature_updates
    )
    return UpdateFeaturesResponse(error_message=None, results=results)
