import typing

import mcp_types
from mcp_types import version

from hub.protocol import constants


def test_the_versions_are_those_of_the_sdk() -> None:
    assert set(constants.HANDSHAKE_VERSIONS) == set(version.HANDSHAKE_PROTOCOL_VERSIONS)
    assert list(constants.HANDSHAKE_VERSIONS) == sorted(constants.HANDSHAKE_VERSIONS)
    assert constants.HANDSHAKE_VERSIONS[-1] == version.LATEST_HANDSHAKE_VERSION
    assert set(constants.MODERN_VERSIONS) == set(version.MODERN_PROTOCOL_VERSIONS)
    assert constants.MODERN_VERSIONS[-1] == version.LATEST_MODERN_VERSION


def test_the_meta_keys_are_those_of_the_sdk() -> None:
    assert constants.PROTOCOL_VERSION_META == mcp_types.PROTOCOL_VERSION_META_KEY
    assert constants.CLIENT_INFO_META == mcp_types.CLIENT_INFO_META_KEY
    assert constants.CLIENT_CAPABILITIES_META == mcp_types.CLIENT_CAPABILITIES_META_KEY
    assert constants.SERVER_INFO_META == mcp_types.SERVER_INFO_META_KEY


def test_the_error_codes_are_those_of_the_sdk() -> None:
    assert constants.PARSE_ERROR == mcp_types.PARSE_ERROR
    assert constants.INVALID_REQUEST == mcp_types.INVALID_REQUEST
    assert constants.METHOD_NOT_FOUND == mcp_types.METHOD_NOT_FOUND
    assert constants.INVALID_PARAMS == mcp_types.INVALID_PARAMS
    assert constants.INTERNAL_ERROR == mcp_types.INTERNAL_ERROR
    assert constants.HEADER_MISMATCH == mcp_types.HEADER_MISMATCH
    assert constants.MISSING_CLIENT_CAPABILITY == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert constants.UNSUPPORTED_VERSION == mcp_types.UNSUPPORTED_PROTOCOL_VERSION


def test_the_lists_are_those_of_the_sdk() -> None:
    results = {
        mcp_types.ListToolsRequest: mcp_types.ListToolsResult,
        mcp_types.ListResourcesRequest: mcp_types.ListResourcesResult,
        mcp_types.ListResourceTemplatesRequest: mcp_types.ListResourceTemplatesResult,
        mcp_types.ListPromptsRequest: mcp_types.ListPromptsResult,
    }
    methods = {request.model_fields["method"].default for request in results}
    assert set(constants.LISTS) == methods
    for request, result in results.items():
        field = constants.LISTS[request.model_fields["method"].default]
        assert field in {entry.alias or name for name, entry in result.model_fields.items()}


def test_every_list_that_can_change_is_read_again_on_its_notification() -> None:
    changes = [
        mcp_types.ToolListChangedNotification,
        mcp_types.ResourceListChangedNotification,
        mcp_types.PromptListChangedNotification,
    ]
    assert set(constants.LIST_CHANGED) == {one.model_fields["method"].default for one in changes}
    assert {method for one in constants.LIST_CHANGED.values() for method in one} == set(
        constants.LISTS
    )


def test_the_log_levels_are_those_of_the_sdk_in_order() -> None:
    assert typing.get_args(mcp_types.LoggingLevel) == constants.LOG_LEVELS
