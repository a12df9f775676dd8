"""What the client of a `subscriptions/listen` wants to hear of. MCP 2026-07-28, "Subscriptions"."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.values import Json, JsonObject, object_or_empty

LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
SUBSCRIPTION_ID_META: Final = "io.modelcontextprotocol/subscriptionId"
"""Every message of such a stream carries the id of the request that opened it under this key."""

_LISTS: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
_URIS: Final = "resourceSubscriptions"


class FilterError(ValueError):
    """The filter of a request is none; the text says why."""


class ListenFilter(Struct, frozen=True):
    """The change notifications that are wanted, by method, and the resources, by URI."""

    lists: frozenset[str] = frozenset()
    uris: tuple[str, ...] = ()

    def fields(self) -> JsonObject:
        """Return it as the protocol writes it: only what is wanted."""
        lists: JsonObject = {
            field: True for field, method in _LISTS.items() if method in self.lists
        }
        return {**lists, _URIS: list[Json](self.uris)} if self.uris else lists


def filter_in(value: Json) -> ListenFilter:
    """Return the filter that a request or an acknowledgement carries.

    Fields that this revision does not know are passed over: they are not honoured.

    Raises: FilterError.
    """
    if not isinstance(value, dict):
        raise FilterError('"notifications" must be an object')
    for field in _LISTS:
        if not isinstance(value.get(field), bool | None):
            raise FilterError(f'"notifications.{field}" must be true or false')
    uris = value.get(_URIS)
    texts = [uri for uri in uris if isinstance(uri, str)] if isinstance(uris, list) else []
    if uris is not None and (not isinstance(uris, list) or len(texts) != len(uris)):
        raise FilterError(f'"notifications.{_URIS}" must be an array of URIs')
    lists = frozenset(method for field, method in _LISTS.items() if value.get(field) is True)
    return ListenFilter(lists, tuple(dict.fromkeys(texts)))


def changes_of(capabilities: JsonObject) -> ListenFilter:
    """Return of which changed lists a server declares to tell."""
    declared = (
        method
        for method in _LISTS.values()
        if object_or_empty(capabilities.get(method.split("/")[1])).get("listChanged") is True
    )
    return ListenFilter(frozenset(declared))
