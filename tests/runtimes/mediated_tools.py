"""Shared by the tests of mediated tools: calls with rules, and a tool that sends requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from haftd.host.launch import landlock
from haftd.host_calls.decisions import HostAccess
from haftd.launch_spec import Grant, Sandbox
from haftd.runtimes.base import Call, Mediation
from haftd.runtimes.vfs.runtime import VfsRuntime
from haftd.testing import PATIENCE_S, Recorder, perform
from haftd.tools.calls.confinement import make_program_sandbox
from haftd.tools.definitions.access import AccessPolicy
from haftd.tools.definitions.access_fields import read_access, read_policy

from . import kit

READ_EXECUTE = frozenset({"read", "execute"})
INTERPRETER = tuple(Grant(path, READ_EXECUTE) for path in (sys.prefix, sys.base_prefix))
PREPARED = """
import json, os, sys
def hear():
    return json.loads(sys.stdin.readline())
def say(**state):
    sys.stdout.write(json.dumps(state) + "\\n")
    sys.stdout.flush()
def request(method, id=1, **params):
    say(jsonrpc="2.0", id=id, method=method, params=params)
def call(method, **params):
    request(method, **params)
    return hear()
init = hear()
"""


LEAVES = """
def leave(body, closes=False):
    here, there = os.pipe()
    if os.fork() == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        if closes:
            for fd in range(3):
                os.close(fd)
        os.write(there, b"x")
        exec(body)
    os.read(here, 1)
    os.write(1, TEXT.encode())
    os._exit(3)
"""
sandboxed = pytest.mark.skipif(landlock.abi() < 6, reason="needs a kernel with Landlock 6")


def rules(toml: str, root: str) -> AccessPolicy:
    """Return the rules of a definition's `access`, at a root."""
    import tomllib

    access = read_access(tomllib.loads(toml).get("access", {}))
    return read_policy(access, None, strict=True).at(root, {})


def mediated(
    call: Call,
    root: Path | str = "/",
    policy: AccessPolicy | None = None,
    variables: Mapping[str, str] | None = None,
) -> Call:
    """Return the call with host calls, in a sandbox with the interpreter."""
    policy = policy or AccessPolicy((), (), (), ())
    values = dict(variables or {})
    access = HostAccess(str(root), policy, values, values)

    def make_program(
        argv: tuple[str, ...], folder: str, envs: tuple[str, ...], limits: Mapping[str, float]
    ) -> Call:
        env = {name: values[name] for name in envs if name in values}
        sandbox = make_program_sandbox(policy, str(root))
        return kit.call(
            *argv,
            env=env,
            cwd=folder,
            output="outcome",
            stdin="pipe",
            limits=limits,
            sandbox=sandbox,
        )

    launch = call.launch._replace(sandbox=Sandbox(str(root), INTERPRETER), stdin="pipe")
    return replace(
        call,
        launch=launch,
        runtime="vfs",
        mediation=Mediation(access, make_program, lambda call, confirmed: None),
    )


def tool(script: str, root: Path | str = "/", *args: Any, **kwargs: Any) -> Call:
    """Return a mediated call of a Python script with `call`, `say` and `hear`."""
    return mediated(kit.python(PREPARED + script, output="events"), root, *args, **kwargs)


async def outcome(call: Call) -> Any:
    """Run a call to the end; return the result, as JSON."""
    port = Recorder()
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, VfsRuntime(), call, port)
        await performance.finish()
        if performance.failure is not None:
            raise AssertionError(f"{performance.failure.message}\n{bytes(port.output).decode()}")
        if performance.refused is not None:
            raise AssertionError(performance.refused.message)
        nursery.cancel_scope.cancel()
    assert performance.result is not None, bytes(port.output)
    return json.loads(performance.result)


async def ask(
    requests: Sequence[tuple[str, Mapping[str, Any]]],
    root: Path | str,
    policy: AccessPolicy | None = None,
    variables: Mapping[str, str] | None = None,
) -> list[Any]:
    """Send requests one after the other; return the replies, each a result or a kind of error."""
    script = f"""
replies = [call(method, **params) for method, params in json.loads({json.dumps(list(requests))!r})]
say(type="stopped", result=json.dumps(replies))
"""
    with trio.fail_after(PATIENCE_S):
        replies = await outcome(tool(script, root, policy, variables))
    return [
        reply["result"] if "result" in reply else reply["error"]["data"]["kind"]
        for reply in replies
    ]
