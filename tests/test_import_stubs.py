"""Stubbed imports: the real module is importable later, and no stub stays visible."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

_LEAVE_OUT = (
    "from haftd.import_stubs import stub_unused_imports; stub_unused_imports(); "
    "import haftd.rpc.jsonrpcserver; "
)

_FORK = """
import os, sys
for line in sys.stdin.buffer:
    child = os.fork()
    if child == 0:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        exec(bytes.fromhex(line.decode()))
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(1, b"\\0%d\\n" % status)
"""
"""Runs each line of code in a fork; its output and status end with a NUL, the status, a newline."""


def run(code: str) -> str:
    """Return the output of a Python that has loaded nothing."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def run_after() -> Iterator[Callable[[str], str]]:
    """A function that returns the output of code after `_LEAVE_OUT`, in a fork of a Python that has
    loaded nothing else."""
    command = [sys.executable, "-c", f"import sys; {_LEAVE_OUT}{_FORK}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run_code(code: str) -> str:
            stdin.write(f"{code.encode().hex()}\n".encode())
            stdin.flush()
            output = b""
            while b"\0" not in output:
                line = stdout.readline()
                assert line, output
                output += line
            text, _, status = output.decode().partition("\0")
            assert int(status) == 0, text
            return text.strip()

        yield run_code


@pytest.mark.parametrize(
    "name",
    [
        "rich.console",
        "asyncio.events",
        "jsonrpcserver.server",
        "oslash.maybe",
        "email.utils",
        "idna.core",
        "html.parser",
        "pickle",
        "platform",
        "ssl",
        "structlog.dev",
        "structlog.stdlib",
        "structlog.threadlocal",
        "structlog.tracebacks",
        "trio._dtls",
        "typing_extensions",
    ],
)
def test_a_stubbed_module_can_be_imported_afterwards(
    run_after: Callable[[str], str], name: str
) -> None:
    assert run_after(f"import {name}; print({name}.__name__)") == name


def test_loaded_modules_are_left_alone() -> None:
    code = "import sys, asyncio, rich; there = asyncio, rich; " + _LEAVE_OUT
    assert run(code + "print(there == (sys.modules['asyncio'], sys.modules['rich']))") == "True"


def test_no_stub_is_left(run_after: Callable[[str], str]) -> None:
    stubbed = (
        "rich",
        "asyncio",
        "jsonrpcserver",
        "oslash",
        "email",
        "email.utils",
        "html",
        "idna",
        "pickle",
        "platform",
        "ssl",
        "structlog.dev",
        "structlog.stdlib",
        "structlog.threadlocal",
        "structlog.tracebacks",
        "trio._dtls",
        "twisted",
        "typing_extensions",
    )
    code = f"print([n for n in {stubbed} if n in sys.modules])"
    assert run_after(code) == "[]"


def test_tls_and_international_names_are_loaded_at_their_first_use_by_trio(
    run_after: Callable[[str], str],
) -> None:
    code = (
        "import trio, trio._ssl, trio._socket\n"
        "print([n for n in ('ssl', 'idna') if n in sys.modules])\n"
        "print(trio._socket._idna.encode('b\u00fccher').decode())\n"
        "print(trio._ssl._stdlib_ssl.SSLWantReadError is __import__('ssl').SSLWantReadError)"
    )
    assert run_after(code).splitlines() == ["[]", "xn--bcher-kva", "True"]


def test_dtls_is_loaded_at_its_first_use(run_after: Callable[[str], str]) -> None:
    code = (
        "stub_unused_imports(); import trio\n"
        "print('trio._dtls' in sys.modules, hasattr(trio, 'DTLS'))\n"
        "print(trio.DTLSEndpoint is sys.modules['trio._dtls'].DTLSEndpoint)\n"
        "from trio import DTLSChannel, DTLSChannelStatistics\n"
        "print(DTLSChannel.__name__, DTLSChannelStatistics.__name__)"
    )
    assert run_after(code).splitlines() == [
        "False False",
        "True",
        "DTLSChannel DTLSChannelStatistics",
    ]


def test_html_is_loaded_when_a_template_first_escapes_it(run_after: Callable[[str], str]) -> None:
    code = (
        "import minijinja\n"
        "print('html' in sys.modules, minijinja.escape('<&>'), 'html' in sys.modules)"
    )
    assert run_after(code) == "False &lt;&amp;&gt; True"


def test_a_log_line_without_configuration_loads_the_console_without_optional_libraries(
    run_after: Callable[[str], str],
) -> None:
    code = (
        "import structlog\n"
        "print('structlog.dev' in sys.modules)\n"
        "structlog.get_logger().warning('it is so', reason='none')\n"
        "print('structlog.dev' in sys.modules, 'rich' in sys.modules)"
    )
    before, line, after = run_after(code).splitlines()
    assert (before, after) == ("False", "True False")
    assert "it is so" in line
    assert "reason=none" in line


def test_structlog_has_its_modules_at_their_first_use(run_after: Callable[[str], str]) -> None:
    code = (
        "import structlog\n"
        "print(structlog.stdlib.BoundLogger.__name__, structlog.dev.ConsoleRenderer.__name__)\n"
        "try: 1 / 0\n"
        "except Exception: told = structlog.processors.dict_tracebacks(0, '', {'exc_info': True})\n"
        "print(told['exception'][0]['exc_type'], 'rich' in sys.modules)"
    )
    assert run_after(code).splitlines() == [
        "BoundLogger ConsoleRenderer",
        "ZeroDivisionError False",
    ]


def test_a_deferred_module_that_is_used_at_an_import_takes_the_place_of_its_stub() -> None:
    code = (
        "import sys; from haftd.import_stubs import DeferredModule, stubbed\n"
        "with stubbed('colorsys', DeferredModule('colorsys')):\n"
        "    from colorsys import rgb_to_hsv\n"
        "print(rgb_to_hsv is sys.modules['colorsys'].rgb_to_hsv)"
    )
    assert run(code) == "True"
