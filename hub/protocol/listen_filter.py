"""Filter of a `subscriptions/listen` request. MCP 2026-07-28, "Subscriptions"."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hub.values import Json, JsonObject, object_or_empty

LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
SUBSCRIPTION_ID_META: Final = "io.modelcontextprotocol/subscriptionId"
"""`_meta` key in each message of a listen stream: the id of the request that opened the stream."""

_LISTS: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
_URIS: Final = "resourceSubscriptions"


class FilterError(ValueError):
    """The filter is not valid; the text says why."""


class ListenFilter(Struct, frozen=True):
    """The change notifications (`lists`, by method) and resources (`uris`) to be notified of."""

    lists: frozenset[str] = frozenset()
    uris: tuple[str, ...] = ()

    def fields(self) -> JsonObject:
        """Return the filter as JSON; unset fields are left out."""
        lists: JsonObject = {
            field: True for field, method in _LISTS.items() if method in self.lists
        }
        return {**lists, _URIS: list[Json](self.uris)} if self.uris else lists


def filter_in(value: Json) -> ListenFilter:
    """Return the filter in a request or an acknowledgement.

    Fields that this protocol version does not know are ignored. Raises: FilterError.
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
    """Return the filter for the list changes that a server's capabilities declare."""
    declared = (
        method
        for method in _LISTS.values()
        if object_or_empty(capabilities.get(method.split("/")[1])).get("listChanged") is True
    )
    return ListenFilter(frozenset(declared))
