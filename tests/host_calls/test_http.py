"""Requests of mediated tools: the rules hold for names, addresses, paths and redirects."""

from __future__ import annotations

import base64
import ssl
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import h11
import msgspec
import pytest
import trio
import trio.testing
from msgspec import Raw

from haftd.host_calls.addresses import is_public
from haftd.host_calls.calls import HostCalls, Run, RunResult
from haftd.host_calls.decisions import require_address, require_url
from haftd.host_calls.http import Get, Http, Post
from haftd.host_calls.messages import HostCallError, Request
from haftd.host_calls.redaction import Redaction

from .rules import access_of

PUBLIC = "93.184.216.34"
EXAMPLE = 'net = [{ host = "example.com" }]'
Answer = tuple[int, Mapping[str, str], bytes]


class Internet:
    """Hosts by name, and the answers by URL; `requests` has what arrived."""

    def __init__(
        self,
        answers: Callable[[str, h11.Request], Answer],
        names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._answers = answers
        self._names = {"example.com": [PUBLIC], **(names or {})}
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connected: list[tuple[str, int]] = []
        self.resolved: list[str] = []
        self.nursery: trio.Nursery | None = None

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.resolved.append(host)
        if host not in self._names:
            raise OSError(-2, "Name or service not known")
        return self._names[host]

    async def connect(self, address: str, port: int) -> trio.abc.Stream:
        self.connected.append((address, port))
        ours, theirs = trio.testing.memory_stream_pair()
        assert self.nursery is not None
        self.nursery.start_soon(self._serve, theirs)
        return ours

    async def _serve(self, stream: trio.abc.Stream) -> None:
        http = h11.Connection(h11.SERVER)
        request, body = None, b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(65_536)))
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                break
        if request is None:
            return  # the client has refused the certificate
        headers = {name.decode(): value.decode() for name, value in request.headers}
        url = f"{headers['host']}{request.target.decode()}"
        self.requests.append((f"{request.method.decode()} {url}", headers, body))
        status, more, content = self._answers(url, request)
        all_headers = [(name.encode(), value.encode("latin-1")) for name, value in more.items()]
        all_headers.append((b"Content-Length", str(len(content)).encode()))
        data = [
            http.send(h11.Response(status_code=status, headers=all_headers)),
            http.send(h11.Data(data=content)),
            http.send(h11.EndOfMessage()),
        ]
        try:
            await stream.send_all(b"".join(part or b"" for part in data))
        except trio.BrokenResourceError:
            pass


def plain(url: str, request: h11.Request) -> Answer:
    return 200, {"Content-Type": "text/plain"}, b"hello"


async def send(
    rules: str,
    internet: Internet,
    params: Get | Post,
    variables: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    access = access_of(rules, variables=variables)
    http = Http(access, Redaction(access.private), internet.resolve, internet.connect)
    work: Callable[[], Awaitable[dict[str, Any]]] = lambda: (  # noqa: E731
        http.post(params) if isinstance(params, Post) else http.get(params)
    )
    with trio.fail_after(30):
        async with trio.open_nursery() as internet.nursery:
            try:
                return await work()
            except HostCallError as error:
                failure = error
            finally:
                internet.nursery.cancel_scope.cancel()
    raise failure


async def refused(*args: Any, **kwargs: Any) -> HostCallError:
    with pytest.raises(HostCallError) as caught:
        await send(*args, **kwargs)
    assert caught.value.message.endswith(".")
    return caught.value


async def test_a_permitted_request_is_answered() -> None:
    internet = Internet(plain)
    reply = await send(EXAMPLE, internet, Get("http://example.com/a?b=c#d", {"X-Mine": "1"}))
    assert reply == {
        "status": 200,
        "url": "http://example.com/a?b=c",
        "headers": {"content-type": "text/plain", "content-length": "5", "connection": "close"},
        "body": "hello",
        "encoding": "utf-8",
    }
    ((line, headers, _),) = internet.requests
    assert line == "GET example.com/a?b=c" and headers["x-mine"] == "1"
    assert internet.connected == [(PUBLIC, 80)]


async def test_a_post_sends_text_bytes_or_json() -> None:
    internet = Internet(plain)
    await send(EXAMPLE, internet, Post("http://example.com", body="é"))
    await send(EXAMPLE, internet, Post("http://example.com", body="/w==", encoding="base64"))
    await send(EXAMPLE, internet, Post("http://example.com", json={"a": [1]}))
    assert [body for _, _, body in internet.requests] == ["é".encode(), b"\xff", b'{"a":[1]}']
    assert internet.requests[2][1]["content-type"] == "application/json"
    both = await refused(EXAMPLE, internet, Post("http://example.com", body="", json=1))
    assert both.kind == "invalid"


RULES = """
net = [
  { host = "*", allow = true },
  { host = "*.evil.com", allow = false },
  { host = "api.com", scheme = "https", port = 443, path_prefix = "/v1" },
  { host = "api.com", allow = false },
]
"""


@pytest.mark.parametrize(
    ("url", "is_permitted"),
    [
        ("http://any.com/", True),
        ("http://www.evil.com/", False),
        ("http://WWW.Evil.COM./", False),
        ("http://evil.com/", True),
        ("https://api.com/v1/x", True),
        ("https://api.com/v1", True),
        ("https://api.com:443/v1", True),
        ("https://api.com:444/v1", False),
        ("http://api.com/v1", False),
        ("http://api.com:443/v1", False),
        ("https://api.com/v10", False),
        ("https://api.com/v1/../v2", False),
        ("https://api.com/v1/%2e%2e/v2", False),
        ("https://api.com/v1/%2E%2E%2Fv2", False),
        ("https://api.com/v1/%252e%252e/v2", False),
        ("https://api.com//v1", False),
        ("https://api.com/%76%31/x", True),
        ("https://api.com/?/v1", False),
    ],
)
def test_scheme_host_port_and_path_are_checked(url: str, is_permitted: bool) -> None:
    access = access_of(RULES)
    if is_permitted:
        require_url(access, url)
        return
    with pytest.raises(HostCallError) as caught:
        require_url(access, url)
    assert caught.value.kind == "denied"
    assert "access.net" in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "//example.com/",
        "http://",
        "http:///x",
        "http://user:pw@example.com/",
        "http://example.com@evil.com/",
        "http://example.com:pw/",
        "http://example.com:99999/",
        "http://exa mple.com/",
        "http://example.com/a b",
        "http://example.com/\r\nX: y",
        "http://example.com\\@evil.com/",
        "http://exämple.com/",
        "http://example.com/é",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://ex%61mple.com/",
        "http://example.com/${TOKEN}",
        "http://${TOKEN}.example.com/",
        "http://example.com/" + "x" * 9000,
    ],
)
def test_a_doubtful_url_is_invalid(url: str) -> None:
    with pytest.raises(HostCallError) as caught:
        require_url(access_of('net = [{ host = "*" }]'), url)
    assert caught.value.kind == "invalid"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.1/", "127.0.0.1"),
        ("http://0x7f.1/", "127.0.0.1"),
        ("http://2130706433/", "127.0.0.1"),
        ("http://0177.0.0.1/", "127.0.0.1"),
        ("http://[::ffff:127.0.0.1]/", "127.0.0.1"),
        ("http://[::ffff:7f00:1]:80/", "127.0.0.1"),
        ("http://[0:0:0:0:0:0:0:1]/", "::1"),
        ("http://[::1]:8080/", "::1"),
    ],
)
def test_each_form_of_an_address_is_one_host(url: str, host: str) -> None:
    assert require_url(access_of(f'net = [{{ host = "{host}" }}]'), url).host == host
    to = require_url(access_of('net = [{ host = "*" }]'), url)
    with pytest.raises(HostCallError, match="needs a rule with the address"):
        require_address(access_of('net = [{ host = "*" }]'), to, host)


PRIVATE = [
    "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1",
    "fe80::1%2", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "::127.0.0.1",
    "64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1", "2002:7f00:1::", "2001:0:4136:e378::1", "168.63.129.16",
    "192.0.0.1", "192.0.0.192", "::ffff:192.0.0.192", "::ffff:0:10.0.0.1", "::ffff:0:93.184.216.34", "64:ff9b::a83f:8110",
    "64:ff9b:1::93.184.216.34", "3fff::1", "5f00::1", "nonsense",
]  # fmt: skip


def test_addresses_of_this_machine_and_of_private_networks_are_not_public() -> None:
    assert [address for address in PRIVATE if is_public(address)] == []
    assert all(map(is_public, [PUBLIC, "2606:2800:220:1::1", "64:ff9b::93.184.216.34"]))


@pytest.mark.parametrize("address", PRIVATE[:-1])
async def test_a_name_that_leads_to_a_private_address_is_refused(address: str) -> None:
    for rule in ("example.com", "*"):
        internet = Internet(plain, {"example.com": [PUBLIC, address]})
        rules = f'net = [{{ host = "{rule}" }}]'
        error = await refused(rules, internet, Get("http://example.com/"))
        assert error.kind == "denied" and "needs a rule with the address" in error.message
        assert internet.connected == []


async def test_a_private_address_is_granted_by_itself() -> None:
    internet = Internet(plain, {"example.com": ["10.0.0.1"], "10.0.0.2": ["10.0.0.2"]})
    rules = 'net = [{ host = "example.com" }, { host = "10.0.0.1", port = 80 }]'
    assert (await send(rules, internet, Get("http://example.com/")))["status"] == 200
    assert (await refused(rules, internet, Get("http://example.com:81/"))).kind == "denied"
    assert (await refused(rules, internet, Get("http://10.0.0.2/"))).kind == "denied"


async def test_a_forbidden_address_is_refused_under_any_name() -> None:
    internet = Internet(plain)
    rules = f'net = [{{ host = "*" }}, {{ host = "{PUBLIC}", allow = false }}]'
    error = await refused(rules, internet, Get("http://example.com/"))
    assert error.kind == "denied" and "forbids" in error.message


async def test_the_checked_address_is_the_one_of_the_connection() -> None:
    """A name that answers otherwise the second time (DNS rebinding) is resolved once only."""
    internet = Internet(plain)
    await send(EXAMPLE, internet, Get("http://example.com/"))
    assert internet.resolved == ["example.com"] and internet.connected == [(PUBLIC, 80)]


def redirecting(to: str, status: int = 302) -> Callable[[str, h11.Request], Answer]:
    def answer(url: str, request: h11.Request) -> Answer:
        if url.endswith("/start"):
            return status, {"Location": to}, b"moved"
        return 200, {}, b"arrived"

    return answer


@pytest.mark.parametrize(
    "to",
    [
        "http://evil.com/",
        "//evil.com/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "https://example.com/ok",
        "http://example.com:81/ok",
        "/closed",
        "../closed",
        "/ok/%2e%2e/closed",
        "file:///etc/passwd",
        "gopher://example.com/ok",
        "http://user@example.com/ok",
        "/ok/\u00e9",
        "http://[example.com/ok",
        "//[::1/ok",
        "http://example.com:99999/ok",
        "http://example.com:x/ok",
    ],
)
async def test_a_redirect_is_decided_on_anew(to: str) -> None:
    rules = 'net = [{ host = "example.com", scheme = "http", port = 80, path_prefix = "/ok" }]'
    internet = Internet(redirecting(to), {"evil.com": [PUBLIC]})
    error = await refused(rules, internet, Get("http://example.com/ok/start"))
    assert error.kind in ("denied", "invalid")
    assert len(internet.requests) == 1


async def test_a_redirect_to_a_name_of_a_private_address_is_refused() -> None:
    internet = Internet(redirecting("http://inner.com/"), {"inner.com": ["192.168.0.1"]})
    rules = 'net = [{ host = "*" }]'
    assert (await refused(rules, internet, Get("http://example.com/start"))).kind == "denied"


async def test_a_redirect_within_the_rules_is_followed() -> None:
    internet = Internet(redirecting("there?x=1", 303))
    reply = await send(EXAMPLE, internet, Post("http://example.com/a/start", body="x"))
    assert (reply["body"], reply["url"]) == ("arrived", "http://example.com/a/there?x=1")
    assert [line for line, _, _ in internet.requests] == [
        "POST example.com/a/start",
        "GET example.com/a/there?x=1",
    ]
    internet = Internet(redirecting("/there", 307))
    await send(EXAMPLE, internet, Post("http://example.com/start", body="x"))
    assert internet.requests[1][0::2] == ("POST example.com/there", b"x")


async def test_an_endless_redirect_ends() -> None:
    internet = Internet(redirecting("/start"))
    error = await refused(EXAMPLE, internet, Get("http://example.com/start"))
    assert error.kind == "network" and len(internet.requests) == 6


TOKEN = {"TOKEN": "s3cr3t/tok+en"}
GRANTED = EXAMPLE + '\nenv.read = ["TOKEN"]'


async def test_a_variable_is_filled_into_headers_and_nowhere_else() -> None:
    internet = Internet(plain)
    params = Post("http://example.com/", {"Authorization": "Bearer ${TOKEN}"}, body="body ${TOKEN}")
    await send(GRANTED, internet, params, TOKEN)
    ((_, headers, body),) = internet.requests
    assert headers["authorization"] == f"Bearer {TOKEN['TOKEN']}"
    assert body == b"body ${TOKEN}"


@pytest.mark.parametrize("name", ["OTHER", "PATH", "", "TOKEN}${TOKEN"])
async def test_a_variable_without_a_grant_is_refused(name: str) -> None:
    internet = Internet(plain)
    params = Get("http://example.com/", {"X": f"${{{name}}}"})
    if name == "TOKEN}${TOKEN":
        await send(GRANTED, internet, params, TOKEN)
        return
    error = await refused(GRANTED, internet, params, TOKEN)
    assert error.kind == "denied" and internet.requests == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"},
        {"X": "a\nb"},
        {"X": "a\0"},
        {"X\r\nY": "b"},
        {"X: y": "b"},
        {"": "b"},
        {"X": "é"},
        {"Host": "evil.com"},
        {"content-length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "upgrade"},
        {"Accept-Encoding": "gzip"},
        {"X": "${LINES}"},
    ],
)
async def test_a_header_cannot_be_smuggled_in(headers: dict[str, str]) -> None:
    internet = Internet(plain)
    rules = EXAMPLE + '\nenv.read = ["LINES"]'
    params = Get("http://example.com/", headers)
    error = await refused(rules, internet, params, {"LINES": "a\r\nb"})
    assert error.kind == "invalid" and internet.requests == []


async def test_a_secret_header_stays_with_its_origin() -> None:
    headers = {"X-Key": "${TOKEN}", "authorization": "mine", "Cookie": "a=b", "X-Other": "kept"}
    rules = 'net = [{ host = "example.com" }, { host = "other.com" }]\nenv.read = ["TOKEN"]'
    for to, is_same in (
        ("/there", True),
        ("http://other.com/", False),
        ("http://example.com:81/", False),
    ):
        internet = Internet(redirecting(to), {"other.com": [PUBLIC]})
        await send(rules, internet, Get("http://example.com/start", headers), TOKEN)
        arrived = internet.requests[1][1]
        assert arrived["x-other"] == "kept"
        for name in ("x-key", "authorization", "cookie"):
            assert (name in arrived) is is_same, (to, name)


async def test_a_value_that_a_server_echoes_is_replaced() -> None:
    def echo(url: str, request: h11.Request) -> Answer:
        token = dict(request.headers)[b"x-key"]
        return (
            200,
            {"X-Echo": token.decode(), "Location": "x"},
            (token + b" s3cr3t%2Ftok%2Ben czNjcjN0L3RvaytlbiA s3cr3t/tok%2Ben"),
        )

    internet = Internet(echo)
    params = Get("http://example.com/", {"X-Key": "${TOKEN}"})
    reply = await send(GRANTED, internet, params, TOKEN)
    assert "tok" not in reply["body"].replace("TOKEN", "") and "s3cr3t" not in str(reply)
    assert reply["headers"]["x-echo"] == "${TOKEN}"
    short = await send(GRANTED, internet, params, {"TOKEN": "ab"})
    assert short["body"].startswith("${TOKEN} ")


async def test_a_value_that_a_server_puts_into_a_redirect_is_replaced_also_in_a_refusal() -> None:
    def echo(url: str, request: h11.Request) -> Answer:
        value = dict(request.headers)[b"x-key"].decode()
        if url.endswith("/in"):
            return 302, {"Location": f"/arrived/{value}"}, b""
        if url.endswith("/out"):
            return 302, {"Location": f"http://evil.com/{value}"}, b""
        return 200, {}, base64.b64encode(value.encode())

    internet = Internet(echo)
    headers, variables = {"X-Key": "${TOKEN}"}, {"TOKEN": "s3cr3t/tok+en"}
    reply = await send(GRANTED, internet, Get("http://example.com/in", headers), variables)
    assert (reply["url"], reply["body"]) == ("http://example.com/arrived/${TOKEN}", "${TOKEN}==")
    access = access_of(GRANTED, variables=variables)
    calls = HostCalls(access, never_run)
    calls._http = Http(access, calls._redaction, internet.resolve, internet.connect)
    params = Raw(msgspec.json.encode({"url": "http://example.com/out", "headers": headers}))
    async with trio.open_nursery() as internet.nursery:
        answer = (await calls.answer(Request(1, "http.get", params))).decode()
        internet.nursery.cancel_scope.cancel()
    assert "evil.com:80/${TOKEN} is not permitted" in answer and "s3cr3t" not in answer


async def never_run(params: Run, envs: tuple[str, ...], folder: str) -> RunResult:
    raise AssertionError("no program is run")


async def test_a_range_with_a_variable_is_refused() -> None:
    """A server that echoes would give the value in pieces."""
    headers = {"X-Key": "${TOKEN}", "Range": "bytes=0-3"}
    error = await refused(GRANTED, Internet(plain), Get("http://example.com/", headers), TOKEN)
    assert error.kind == "denied"


async def test_a_compressed_answer_is_refused() -> None:
    internet = Internet(lambda url, request: (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"))
    error = await refused(EXAMPLE, internet, Get("http://example.com/"))
    assert error.kind == "network"


async def test_an_answer_has_bounds() -> None:
    internet = Internet(lambda url, request: (200, {}, b"x" * 100))
    error = await refused(EXAMPLE, internet, Get("http://example.com/", max_bytes=99))
    assert error.kind == "too_large"
    for params in (
        Get("http://example.com/", timeout_s=0),
        Get("http://example.com/", max_bytes=-1),
    ):
        assert (await refused(EXAMPLE, internet, params)).kind == "invalid"
    binary = Internet(lambda url, request: (200, {}, b"\xff"))
    reply = await send(EXAMPLE, binary, Get("http://example.com/"))
    assert (reply["body"], reply["encoding"]) == ("/w==", "base64")


async def test_a_silent_server_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    class Silent(Internet):
        async def _serve(self, stream: trio.abc.Stream) -> None:
            await trio.sleep_forever()

    error = await refused(EXAMPLE, Silent(plain), Get("http://example.com/", timeout_s=5))
    assert error.kind == "timeout"


async def test_an_unknown_host_and_other_protocols_are_network_errors() -> None:
    error = await refused('net = [{ host = "*" }]', Internet(plain), Get("http://nowhere.com/"))
    assert error.kind == "network" and "Name or service not known" in error.message

    class Ssh(Internet):
        async def _serve(self, stream: trio.abc.Stream) -> None:
            await stream.send_all(b"SSH-2.0-x\r\n\r\n")

    error = await refused(EXAMPLE, Ssh(plain), Get("http://example.com/"))
    assert error.kind == "network" and "HTTP" in error.message


class Secure(Internet):
    """Hosts that speak TLS with a certificate of example.com."""

    def __init__(self, certificate: Path, names: Mapping[str, Sequence[str]]) -> None:
        super().__init__(plain, names)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        secure = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        with suppress(trio.BrokenResourceError):
            await super()._serve(secure)


async def test_https_wants_a_trusted_certificate_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, public = tmp_path / "both.pem", tmp_path / "cert.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x"
    more = f"-addext subjectAltName=DNS:example.com -keyout {path} -out {public}"
    subprocess.run([*make.split(), *more.split()], check=True, capture_output=True)
    path.write_text(path.read_text() + public.read_text())
    rules = 'net = [{ host = "*" }]'
    internet = Secure(path, {"other.com": [PUBLIC]})
    error = await refused(rules, internet, Get("https://example.com/"))
    assert error.kind == "network" and "certificate is not trusted" in error.message
    monkeypatch.setenv("SSL_CERT_FILE", str(public))
    reply = await send(rules, internet, Get("https://example.com/"))
    assert reply["body"] == "hello" and internet.connected[-1] == (PUBLIC, 443)
    error = await refused(rules, internet, Get("https://other.com/"))
    assert error.kind == "network" and "certificate is not trusted" in error.message
