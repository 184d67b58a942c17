"""Programs of `process.run`: sandboxed by the tool's rules, ended with the tool."""

from __future__ import annotations

from msgspec import UNSET

from haft_protocol.errors import RpcError
from haftd.host_calls.calls import Run, RunResult
from haftd.host_calls.messages import HostCallError, Kind

from ..base import Call, InputRefused, Mediation, StartFailed
from ..process.child import Child
from ..process.helper import MAX_OUTPUT_BYTES, run_captured

MAX_S = 3600.0
_MAX_STDERR = 65_536


class Programs:
    def __init__(self, call: Call, mediation: Mediation) -> None:
        self._limits = call.launch.limits
        self._mediation = mediation
        self._children: set[Child] = set()

    def members(self) -> tuple[int, ...]:
        return tuple(pid for child in self._children for pid in child.members())

    async def run(self, params: Run, envs: tuple[str, ...], folder: str) -> RunResult:
        """Run a permitted program to the end, or cancellation. Raises `HostCallError`."""
        if not 0 < params.timeout_s <= MAX_S:
            raise HostCallError("invalid", f"`timeout_s` must be a number up to {MAX_S:g}.")
        wall_s = min(params.timeout_s, self._limits.get("wall_s", MAX_S))
        limits = {**self._limits, "wall_s": wall_s}
        # A rule names a file of the root, regardless of the working folder.
        is_relative = "/" in params.program and not params.program.startswith("/")
        program = (
            f"{self._mediation.access.root}/{params.program}" if is_relative else params.program
        )
        argv = (program, *params.args)
        try:
            call = self._mediation.make_program(argv, folder, envs, limits)
            ended = await run_captured(
                call,
                self._mediation.clear_up,
                params.stdin.encode(),
                _MAX_STDERR,
                self._children,
            )
        except StartFailed as failed:
            kind: Kind = "not_found" if failed.reason == "program" else "failed"
            raise HostCallError(kind, failed.message) from None
        except RpcError as error:
            raise HostCallError("failed", error.message) from None
        except InputRefused:
            raise HostCallError(
                "too_large", f"{params.program} gets more input than it reads."
            ) from None
        end = ended.end
        match end.limit:
            case None:
                pass
            case "wall_s":
                raise HostCallError("timeout", f"{params.program} did not end within {wall_s:g} s.")
            case "output":
                raise HostCallError(
                    "too_large", f"{params.program} printed more than {MAX_OUTPUT_BYTES:,} bytes."
                )
            case limit:
                raise HostCallError("failed", f"{params.program} exceeded its limit `{limit}`.")
        exit = end.exit
        return RunResult(
            ended.stdout.decode(errors="replace"),
            ended.stderr.decode(errors="replace"),
            None if exit is None or exit.code is UNSET else exit.code,
            None if exit is None or exit.signal is UNSET else exit.signal,
        )
