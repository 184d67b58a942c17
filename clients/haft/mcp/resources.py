"""Resources `haft://handles/<id>/output` and `…/screen`, and notifications about them.

Reads leave the read offset and take no output from the model. A modern host listens to one stream
(`subscriptions/listen`), a legacy one subscribes to each. Notifications have no content.
"""

from __future__ import annotations

from collections.abc import Container, Generator
from typing import Any

import msgspec
from msgspec import Raw

from haft_protocol.ellipsis import shorten
from haft_protocol.mcp import INVALID_PARAMS

from ..errors import HaftError, RemoteError
from .messages import Fault, ListenParams, ListParams, ReadParams, read_params
from .roots import Place
from .steps import AwaitNotification, CallDaemon, Host, NotifyHost, Serve, Step, Steps
from .tools import Tools

CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
}
MAX_BYTES = 262_144

_SCHEME = "haft://handles/"
_VIEWS = ("output", "screen")
_LIST = msgspec.json.Decoder(ListParams)
_READ = msgspec.json.Decoder(ReadParams)
_LISTEN = msgspec.json.Decoder(ListenParams)
_ID = "io.modelcontextprotocol/subscriptionId"


class _Screen(msgspec.Struct, frozen=True):
    lines: tuple[str, ...] = ()


class _State(msgspec.Struct, frozen=True):
    id: str = ""
    tool: str = ""
    state: str = ""
    command: str = ""
    content: str = ""
    result: str | None = None
    output: str = ""
    screen: _Screen | None = None


class _Handles(msgspec.Struct, frozen=True):
    handles: tuple[_State, ...]


class _Heard(msgspec.Struct, frozen=True, array_like=True):
    method: str
    params: _State


class Resources:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._subscribed: set[str] = set()
        self._notified: dict[object, set[str]] = {}
        """By stream: changed resources that the host knows of and has not read since."""

    @property
    def methods(self) -> dict[str, Serve]:
        return {
            "resources/list": self._list,
            "resources/templates/list": self._templates,
            "resources/read": self._read,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "subscriptions/listen": self._listen,
        }

    def _list(self, host: Host, params: Raw) -> Steps:
        read_params(params, _LIST)
        place = yield from self._tools.place(host)
        listed = msgspec.json.decode(
            (yield CallDaemon("handles/list", {"session": place.session})), type=_Handles
        )
        resources = [
            {
                "uri": f"{_SCHEME}{handle.id}/output",
                "name": handle.id,
                "title": f"Output of {handle.id}",
                "description": f"{handle.state}: {shorten(handle.command, 200)}",
                "mimeType": "text/plain",
            }
            for handle in listed.handles
        ]
        return _cacheable(host, {"resources": resources}, 0)

    def _templates(self, host: Host, params: Raw) -> Steps:
        read_params(params, _LIST)
        yield from ()
        templates = [
            {
                "uriTemplate": f"{_SCHEME}{{id}}/{view}",
                "name": view,
                "title": f"The {view} of a handle",
                "mimeType": "text/plain",
            }
            for view in _VIEWS
        ]
        return _cacheable(host, {"resourceTemplates": templates}, 3_600_000)

    def _read(self, host: Host, params: Raw) -> Steps:
        uri = read_params(params, _READ).uri
        id, view = _handle_of(uri)
        place = yield from self._tools.place(host)
        fetch: dict[str, Any] = {
            "id": id,
            "session": place.session,
            "cursor": 0,
            "max_bytes": MAX_BYTES,
        }
        try:
            if view == "screen":
                fetch |= {"view": "screen", "max_bytes": 0}
            state = msgspec.json.decode((yield CallDaemon("fetch", fetch)), type=_State)
        except RemoteError as refused:
            raise Fault(INVALID_PARAMS, refused.message, {"uri": uri}) from None
        if view == "screen":
            text = "" if state.screen is None else "\n".join(state.screen.lines).rstrip()
        else:
            printed = f"{state.output.rstrip()}\n" if state.output else ""
            text = printed + (state.content if state.result is None else state.result)
        for notified in list(self._notified.values()):
            notified.discard(uri)
        contents = [{"uri": uri, "mimeType": "text/plain", "text": text}]
        return _cacheable(host, {"contents": contents}, 0)

    def _subscribe(self, host: Host, params: Raw) -> Steps:
        uri = read_params(params, _READ).uri
        _handle_of(uri)
        self._subscribed.add(uri)
        place = yield from self._tools.place(host)
        yield CallDaemon("subscribe", _subscription(place, [uri]))
        return {}

    def _unsubscribe(self, host: Host, params: Raw) -> Steps:
        self._subscribed.discard(read_params(params, _READ).uri)
        yield from ()
        return {}

    def _listen(self, host: Host, params: Raw) -> Steps:
        """Serve a stream until cancelled, or until the daemon's connection ends."""
        requested = read_params(params, _LISTEN).notifications
        uris = []
        for uri in requested.resource_subscriptions:
            try:
                _handle_of(uri)
            except Fault:
                continue
            uris.append(uri)
        place = yield from self._tools.place(host)
        meta = {"_meta": {_ID: host.id}}
        honoured: dict[str, Any] = {}
        events: list[str] = []
        if requested.tools_list_changed:
            honoured["toolsListChanged"] = True
            events.append("tools")
        if requested.resources_list_changed:
            honoured["resourcesListChanged"] = True
            events.append("state")
        if uris:
            honoured["resourceSubscriptions"] = uris
        if events:
            yield CallDaemon("subscribe", {"events": events, "session": place.session})
        for uri in uris:
            try:
                yield CallDaemon("subscribe", _subscription(place, [uri]))
            except RemoteError:
                continue  # Without a handle nothing changes.
        # The daemon has subscribed: no change after the event is missed.
        yield NotifyHost(
            "notifications/subscriptions/acknowledged", {"notifications": honoured, **meta}
        )
        yield from self._stream(honoured, meta, uris)
        return meta

    def legacy_stream(self, host: Host) -> Steps:
        """Notify a legacy host of changes, until the daemon's connection ends."""
        place = yield from self._tools.place(host)
        yield CallDaemon("subscribe", {"events": ["tools", "state"], "session": place.session})
        honoured = {"toolsListChanged": True, "resourcesListChanged": True}
        yield from self._stream(honoured, {}, self._subscribed)
        return {}

    def _stream(
        self, honoured: dict[str, Any], meta: dict[str, Any], uris: Container[str]
    ) -> Generator[Step, Raw, None]:
        stream = object()
        notified = self._notified[stream] = set()
        try:
            yield from self._notify(honoured, meta, uris, notified)
        except HaftError:
            return
        finally:
            del self._notified[stream]

    def _notify(
        self,
        honoured: dict[str, Any],
        meta: dict[str, Any],
        uris: Container[str],
        notified: set[str],
    ) -> Generator[Step, Raw, None]:
        ids: set[str] = set()
        while True:
            heard = msgspec.json.decode((yield AwaitNotification()), type=_Heard)
            if heard.method == "tools/changed" and "toolsListChanged" in honoured:
                yield NotifyHost("notifications/tools/list_changed", meta)
            elif heard.method == "handle/state" and "resourcesListChanged" in honoured:
                if heard.params.id not in ids:
                    ids.add(heard.params.id)
                    yield NotifyHost("notifications/resources/list_changed", meta)
            elif heard.method in ("handle/output", "handle/screen"):
                view = heard.method.removeprefix("handle/")
                uri = f"{_SCHEME}{heard.params.id}/{view}"
                if uri in uris and uri not in notified:
                    notified.add(uri)
                    yield NotifyHost("notifications/resources/updated", {"uri": uri, **meta})


def _subscription(place: Place, uris: list[str]) -> dict[str, Any]:
    id, view = _handle_of(uris[0])
    return {"events": [view], "handles": [id], "session": place.session}


def _handle_of(uri: str) -> tuple[str, str]:
    id, _, view = uri.removeprefix(_SCHEME).rpartition("/")
    if not uri.startswith(_SCHEME) or not id or "/" in id or view not in _VIEWS:
        raise Fault(
            INVALID_PARAMS, f"There is no resource {uri}; resources/list names them.", {"uri": uri}
        )
    return id, view


def _cacheable(host: Host, result: dict[str, Any], ttl_ms: int) -> dict[str, Any]:
    return {**result, "ttlMs": ttl_ms, "cacheScope": "private"} if host.is_modern else result
