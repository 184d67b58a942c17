"""Live tools report states as lines; every other line is output."""

from __future__ import annotations

import json

import pytest
import trio

from haftd.core.termination import EXIT
from haftd.runtimes.base import Call, Input, InputRefused, ToolFailed
from haftd.runtimes.process.pipes import PipeControl
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.testing import Recorder, perform
from tests.patience import PATIENCE_S
from tests.terminations import termination

from . import kit

stdio = ProcessRuntime()

HEAD = """
import json, os, signal, sys, time
def say(state, wrapped=False):
    if wrapped:
        state = {"jsonrpc": "2.0", "method": "state", "params": state}
    print(json.dumps(state), flush=True)
def hear():
    return json.loads(sys.stdin.readline() or "null")
init = hear()
assert init["method"] == "init", init
"""
NAME = {"id": "name", "text": "Which name?", "answer_type": {"type": "text"}}


def tool(script: str, **fields: object) -> Call:
    """A live tool that runs `script` after `init`."""
    env = {"HAFT_CALL": json.dumps({"tool": {"name": "live", "arguments": {"a": 1}}})}
    return kit.python(HEAD + script, output="events", env=env, **fields)


async def run(call: Call, **answers: object) -> tuple[str | None, Recorder]:
    port = Recorder(answers=answers)
    with trio.fail_after(PATIENCE_S):
        result = await stdio.run(call, port)
    return result, port


async def test_init_comes_first_with_the_context() -> None:
    result, _ = await run(tool("say({'type': 'stopped', 'result': json.dumps(init)})"))
    assert result is not None
    document = json.loads(result)
    assert document["jsonrpc"] == "2.0"
    assert document["params"] == {"tool": {"name": "live", "arguments": {"a": 1}}}


async def test_states_are_parsed_and_other_lines_are_kept() -> None:
    script = """
print('plain')
say({'type': 'running', 'content': 'working\\n'})
say({'type': 'running', 'content': 'still\\n'}, wrapped=True)
print('{"type": "odd"}', flush=True)
print('on stderr', file=sys.stderr, flush=True)
sys.stdout.write('no line end'); sys.stdout.flush()
"""
    result, port = await run(tool(script))
    assert result is None
    assert port.output.replace(b"on stderr\n", b"") == (
        b'plain\nworking\nstill\n{"type": "odd"}\nno line end'
    )
    assert b"on stderr\n" in port.output
    assert port.end == termination(code=0)


async def test_a_result_and_a_failure_are_passed_on() -> None:
    result, port = await run(tool("say({'type': 'stopped', 'result': {'Ok': 'done'}}, True)"))
    assert result == "done"
    assert port.end == termination(code=0, result="done")
    port = Recorder()
    failure = "{'type': 'stopped', 'error': {'message': 'bad', 'trace': ['x'], 'transient': True}}"
    with pytest.raises(ToolFailed) as failed:
        await stdio.run(tool(f"say({failure}); sys.exit(3)"), port)
    assert (failed.value.message, failed.value.trace, failed.value.transient) == (
        "bad",
        ("x",),
        True,
    )
    assert port.end == termination(code=3, failure=failed.value)


async def test_a_malformed_state_fails_the_tool_and_ends_it() -> None:
    script = """
say({'type': 'running', 'content': 'working\\n'})
say({'type': 'waiting', 'question': {'text': 'Which?'}})
hear()
"""
    port = Recorder()
    with trio.fail_after(PATIENCE_S), pytest.raises(ToolFailed) as failed:
        await stdio.run(tool(script), port)
    assert "a malformed `waiting` outcome: its `question` is wrong" in failed.value.message
    assert port.output.startswith(b'working\n{"type": "waiting"')
    assert port.asked == []
    assert port.end is not None
    assert port.end.failure == failed.value.termination.failure


async def test_a_question_is_answered_through_apply() -> None:
    script = f"""
say({{'type': 'waiting', 'content': 'hm\\n', 'question': {NAME!r}}})
answer = hear()
say({{'type': 'stopped', 'result': json.dumps(answer)}})
"""
    result, port = await run(tool(script), name="Ada")
    assert result is not None
    document = json.loads(result)
    assert document["method"] == "apply"
    assert document["params"] == {"question": "name", "input": "Ada"}
    assert port.output == b"hm\n"
    assert [question.id for question in port.asked] == ["name"]


async def test_reading_for_an_answer_is_not_waiting_for_input() -> None:
    """From the moment of the question, even while queued."""
    second = {**NAME, "id": "second"}
    script = f"""
say({{'type': 'waiting', 'question': {NAME!r}}})
say({{'type': 'waiting', 'question': {second!r}}})
hear()
"""
    port = Recorder(answers={"name": trio.Event()})
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, stdio, tool(script), port)
        await port.until(lambda: bool(port.asked))
        control = performance.control
        assert isinstance(control, PipeControl)
        with trio.fail_after(PATIENCE_S):
            while PipeControl.input_state(control).state != "reads":
                await trio.sleep(0.001)
        assert control.input_state().state == "busy"
        nursery.cancel_scope.cancel()


async def test_input_is_given_as_apply() -> None:
    script = """
print('ready', flush=True)
heard = [hear() for _ in range(3)]
say({'type': 'stopped', 'result': json.dumps([one['params']['input'] for one in heard])})
"""
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, stdio, tool(script))
        await performance.port.until(lambda: b"ready" in performance.port.output)
        performance.control.write(Input("text", "a\nb"))
        performance.control.write(Input("line", "c"))
        number = performance.control.write(Input("keys", keys=("y",)))
        assert performance.port.number <= number
        await performance.finish()
    assert performance.result == '["a\\nb", "c", "y"]'


async def test_a_refused_question_ends_the_tool() -> None:
    port = Recorder(grace_s=0.2, answers={"name": ToolFailed("nobody answers")})
    script = f"say({{'type': 'waiting', 'question': {NAME!r}}}); time.sleep(60)"
    call = tool(script)
    with pytest.raises(ToolFailed, match="nobody answers"), trio.fail_after(PATIENCE_S):
        await stdio.run(call, port)
    assert port.end is not None
    assert port.end.failure is not None
    assert kit.lives(call) == []


async def test_processes_left_by_a_stopped_tool_are_awaited() -> None:
    port = Recorder(grace_s=0.2)
    script = "say({'type': 'stopped', 'result': 'done'}); time.sleep(60)"
    with trio.fail_after(PATIENCE_S):
        assert await stdio.run(tool(script), port) == "done"
    assert port.end is not None
    assert (port.end.result, port.end.by) == ("done", EXIT)
    # Its input is closed: a reader of it ends by itself.
    port = Recorder(grace_s=20)
    with trio.fail_after(PATIENCE_S):
        script = "say({'type': 'stopped', 'result': 'done'}); sys.stdin.read(); sys.exit(0)"
        assert await stdio.run(tool(script), port) == "done"
    assert port.end == termination(code=0, result="done")


async def test_stopped_withdraws_the_open_questions() -> None:
    """No answer is awaited any more, and a tool that stays is ended after the grace."""
    second = {**NAME, "id": "second"}
    script = f"""
say({{'type': 'waiting', 'question': {NAME!r}}})
say({{'type': 'waiting', 'question': {second!r}}})
say({{'type': 'stopped', 'result': 'done'}})
time.sleep(60)
"""
    port = Recorder(grace_s=0.2, answers={"name": trio.Event(), "second": trio.Event()})
    with trio.fail_after(PATIENCE_S):
        assert await stdio.run(tool(script), port) == "done"
    assert port.withdrawn == ["name", "second"]


async def test_a_cancelled_tool_may_exit_by_itself() -> None:
    async with trio.open_nursery() as nursery:
        script = "print('ready', flush=True); print(hear()['method'], flush=True); sys.exit(4)"
        performance = await perform(nursery, stdio, tool(script))
        await performance.port.until(lambda: b"ready" in performance.port.output)
        performance.port.grace_s = 10
        performance.scope.cancel()
        await performance.finish()
    assert performance.port.output == b"ready\ncancel\n"
    assert performance.port.end == termination(code=4, by="lost")


async def test_an_unresponsive_tool_is_killed_after_the_grace() -> None:
    async with trio.open_nursery() as nursery:
        script = "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
        call = tool(script)
        performance = await perform(nursery, stdio, call)
        await performance.port.until(lambda: b"ready" in performance.port.output)
        performance.port.grace_s = 0.4
        with trio.fail_after(PATIENCE_S):
            performance.scope.cancel()
            await performance.finish()
    assert performance.port.end == termination(signal="KILL", by="lost")
    assert kit.lives(call) == []


async def test_an_endless_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that begins as a state is held back up to a bound only."""
    monkeypatch.setattr("haftd.runtimes.process.events._MAX_LINE_LENGTH", 100_000)
    script = """
sys.stdout.write('{' + 'x' * 300_000 + '\\n'); sys.stdout.flush()
say({'type': 'stopped', 'result': 'after'})
"""
    result, port = await run(tool(script))
    assert result == "after"
    assert port.output == b"{" + b"x" * 300_000 + b"\n"


async def test_closed_stdin_is_reported_on_write() -> None:
    async with trio.open_nursery() as nursery:
        script = "os.close(0); print('ready', flush=True); time.sleep(1); os._exit(0)"
        performance = await perform(nursery, stdio, tool(script))
        await performance.port.until(lambda: b"ready" in performance.port.output)
        with pytest.raises(InputRefused, match="closed"):
            performance.control.write(Input("line", "x"))
        await performance.finish()


async def failed(call: Call, **answers: object) -> tuple[ToolFailed, Recorder]:
    """Run `call` to its failure."""
    port = Recorder(grace_s=0.2, answers=answers)
    with trio.fail_after(PATIENCE_S), pytest.raises(ToolFailed) as failure:
        await stdio.run(call, port)
    return failure.value, port


async def test_an_end_without_a_final_state_is_explained_by_its_stderr() -> None:
    script = """
say({'type': 'running', 'content': 'working\\n'})
print('looking', file=sys.stderr)
raise ValueError('no such table')
"""
    failure, port = await failed(tool(script))
    assert failure.message == (
        "The process exited with code 1 before it printed a final state (`stopped`). Its standard error "
        "ends with: ValueError: no such table"
    )
    assert failure.trace[0] == "looking"
    assert failure.trace[-1] == "ValueError: no such table"
    assert failure.shows_output
    assert b"ValueError: no such table" in port.output
    assert port.end == termination(code=1, failure=failure)


async def test_a_signal_before_a_final_state_is_named() -> None:
    failure, port = await failed(tool("os.kill(os.getpid(), signal.SIGSEGV)"))
    assert failure.message == (
        "The process was ended by signal SEGV before it printed a final state (`stopped`). Its standard "
        "error is empty."
    )
    assert failure.trace == ()
    assert port.end == termination(signal="SEGV", failure=failure)


async def test_the_kept_end_of_stderr_is_bounded_and_printable() -> None:
    script = "sys.stderr.write('x' * 300_000 + '\\n\\x1b[31mred\\x1b[0m\\n' * 100); sys.exit(2)"
    failure, _ = await failed(tool(script))
    assert failure.message.endswith("ends with: red")
    assert len(failure.trace) <= 20
    assert set(failure.trace) == {"red"}


async def test_an_end_with_an_open_question_is_a_failure() -> None:
    failure, port = await failed(
        tool(f"say({{'type': 'waiting', 'question': {NAME!r}}}); sys.exit(0)"), name=trio.Event()
    )
    assert failure.message.startswith(
        "The process exited with code 0 without waiting for the answer to its question 'name'."
    )
    assert port.end == termination(code=0, failure=failure)


async def test_an_aborted_tool_needs_no_final_state() -> None:
    async with trio.open_nursery() as nursery:
        script = "print('ready', flush=True); hear(); print('oops', file=sys.stderr); sys.exit(4)"
        performance = await perform(nursery, stdio, tool(script))
        await performance.port.until(lambda: b"ready" in performance.port.output)
        performance.port.grace_s = 10
        performance.scope.cancel()
        await performance.finish()
    assert performance.port.end == termination(code=4, by="lost")


async def test_a_raw_line_is_output_before_it_ends() -> None:
    script = """
sys.stdout.write('10 %'); sys.stdout.flush()
hear()
sys.stdout.write(' 20 %\\n'); sys.stdout.flush()
say({'type': 'stopped', 'result': 'done'})
"""
    async with trio.open_nursery() as nursery:
        performance = await perform(nursery, stdio, tool(script))
        await performance.port.until(lambda: performance.port.output == b"10 %")
        performance.control.write(Input("line", "go on"))
        await performance.finish()
    assert performance.result == "done"
    assert performance.port.output == b"10 % 20 %\n"


async def test_content_beside_a_result_is_output() -> None:
    state = {"type": "stopped", "content": "last words\n", "result": "done"}
    result, port = await run(tool(f"say({state!r})"))
    assert (result, bytes(port.output)) == ("done", b"last words\n")
    state = {"type": "stopped", "content": "last words\n", "error": "bad"}
    failure, port = await failed(tool(f"say({state!r})"))
    assert (failure.message, bytes(port.output)) == ("bad", b"last words\n")
