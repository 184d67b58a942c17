"""One-shot tools print an outcome, in either generation of forms; everything else is output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from haft_protocol.errors import invalid_arguments
from haftd.runtimes.base import Call, StartFailed, ToolFailed
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.testing import Recorder, perform
from tests.patience import PATIENCE_S
from tests.terminations import termination

from . import kit

stdio = ProcessRuntime()

ASK = {
    "type": "needs_input",
    "question": {"id": "name", "text": "Which name?", "answer_type": "Text"},
}
ASKING = f"""
import json, os, sys
answers = json.loads(os.environ["HAFT_CALL"])["tool"].get("answers", {{}})
print("on stderr", file=sys.stderr)
if "name" not in answers:
    print(json.dumps({ASK!r}))
else:
    print(json.dumps({{"type": "success", "content": "hello " + answers["name"]}}))
"""


TOLD = {"HAFT_CALL": '{"tool": {}}'}


def say(*texts: str, code: int = 0) -> Call:
    """A tool that prints `texts`."""
    script = f'printf %s "$TEXT"; exit {code}'
    return kit.shell(script, env={"TEXT": "".join(texts)}, output="outcome")


async def run(call: Call, **answers: object) -> tuple[str | None, Recorder]:
    """Run `call` to its end."""
    port = Recorder(answers=answers)
    with trio.fail_after(PATIENCE_S):
        result = await stdio.run(call, port)
    return result, port


@pytest.mark.parametrize(
    "said",
    [
        {"type": "success", "content": "fine"},
        {"type": "stopped", "result": {"Ok": "fine"}},
        {"type": "stopped", "result": "fine"},
    ],
)
async def test_a_success_is_the_result_and_no_output(said: object) -> None:
    result, port = await run(say("\n ", json.dumps(said), "\n"))
    assert result == "fine"
    assert port.output == b""
    assert port.end == termination(code=0, result="fine")


@pytest.mark.parametrize(
    "said",
    [
        {"type": "error", "message": "bad", "trace": ["a", "b"], "transient": True},
        {
            "type": "stopped",
            "result": {"Err": {"message": "bad", "trace": ["a", "b"], "transient": True}},
        },
    ],
)
async def test_a_failure_has_the_tools_own_message(said: object) -> None:
    port = Recorder()
    with pytest.raises(ToolFailed) as failed:
        await stdio.run(say(json.dumps(said), code=1), port)
    assert (failed.value.message, failed.value.trace) == ("bad", ("a", "b"))
    assert failed.value.transient
    assert port.end == termination(code=1, failure=failed.value)


@pytest.mark.parametrize(
    "text", ["plain text\n", "{not json", '{"type":"odd"}', "[1]", "{}\n{}", "", "  \n"]
)
async def test_text_that_is_no_outcome_is_output(text: str) -> None:
    result, port = await run(say(text, code=4))
    assert result is None
    assert port.output.decode() == text
    assert port.end == termination(code=4)


async def test_a_malformed_outcome_fails_the_tool_and_stays_in_its_output() -> None:
    text = '{"type": "error", "reason": "disk full"}\n'
    port = Recorder()
    with pytest.raises(ToolFailed) as failed:
        await stdio.run(say(text), port)
    assert failed.value.message == (
        "The tool printed a malformed `error` outcome: `message` is missing; it must be a string. "
        'A tool that prints plain text needs `output = "raw"` in its definition.'
    )
    assert port.output.decode() == text
    assert port.end == termination(code=0, failure=failed.value)


async def test_raw_output_is_never_read_as_an_outcome() -> None:
    text = '{"type": "error"}\n'
    call = kit.shell('printf %s "$TEXT"', env={"TEXT": text}, output="raw")
    result, port = await run(call)
    assert result is None
    assert port.output.decode() == text
    assert port.end == termination(code=0)


async def test_output_that_cannot_be_an_outcome_is_passed_on_at_once() -> None:
    async with trio.open_nursery() as nursery:
        call = kit.shell("printf '\\n line'; sleep 60", output="outcome")
        performance = await perform(nursery, stdio, call)
        await performance.port.until(lambda: performance.port.output == b"\n line")
        performance.scope.cancel()


async def test_held_back_output_is_released_by_an_abort_and_by_a_signal() -> None:
    message = '{"type":"success","content":"x"}'
    async with trio.open_nursery() as nursery:
        call = kit.shell(f"echo up >&2; printf %s '{message}'; sleep 60", output="outcome")
        performance = await perform(nursery, stdio, call)
        await performance.port.until(lambda: b"up" in performance.port.output)
        while b"x" not in performance.port.output:
            await trio.lowlevel.checkpoint()
            performance.scope.cancel()
            if performance.finished.is_set():
                break
    assert performance.port.end == termination(signal="TERM", by="lost")
    _, port = await run(kit.shell(f"printf %s '{message}'; kill -9 $$", output="outcome"))
    assert port.output.decode() == message
    assert port.end == termination(signal="KILL")


async def test_a_question_is_asked_and_the_tool_run_again_with_the_answer() -> None:
    env = {"HAFT_CALL": json.dumps({"tool": {"name": "t", "arguments": {"a": 1}}})}
    pids = []
    call = kit.python(ASKING, output="outcome", env=env, record=lambda who: pids.append(who.pid))
    result, port = await run(kit.asking(call), name="Ada")
    assert result == "hello Ada"
    assert [question.text for question in port.asked] == ["Which name?"]
    assert port.end == termination(code=0, result="hello Ada")
    assert port.output == b"on stderr\n" * 2
    assert len(pids) == 2
    assert port.control is not None
    assert port.control.pid == pids[1]


async def test_an_abort_during_a_question_is_an_end_without_a_process() -> None:
    before = kit.fds()
    async with trio.open_nursery() as nursery:
        call = kit.asking(kit.python(ASKING, output="outcome", env=TOLD))
        port = Recorder(answers={"name": trio.Event()})
        performance = await perform(nursery, stdio, call, port)
        await port.until(lambda: port.asked)
        assert performance.control.members() == ()
        performance.scope.cancel()
        await performance.finish()
    assert port.end == termination(by="lost")
    assert kit.fds() == before


async def test_a_refused_question_fails_the_tool() -> None:
    port = Recorder(answers={"name": ToolFailed("nobody answers")})
    with pytest.raises(ToolFailed, match="nobody answers"):
        await stdio.run(kit.asking(kit.python(ASKING, output="outcome", env=TOLD)), port)
    assert port.end is not None
    assert port.end.failure is not None


async def test_an_endlessly_asking_tool_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("haftd.runtimes.process.oneshot._MAX_RUNS", 3)
    counting = """
import json, os
answers = json.loads(os.environ["HAFT_CALL"])["tool"].get("answers", {})
question = {"id": str(len(answers)), "text": "?", "answer_type": "Text"}
print(json.dumps({"type": "needs_input", "question": question}))
"""
    port = Recorder(answers={"0": "a", "1": "b"})
    with pytest.raises(ToolFailed, match="asked 3 times"):
        await stdio.run(kit.asking(kit.python(counting, output="outcome", env=TOLD)), port)
    assert len(port.asked) == 2


async def test_a_repeated_question_is_an_error_and_no_loop() -> None:
    port = Recorder(answers={"name": "Ada"})
    with pytest.raises(ToolFailed, match="asked 'name' again"):
        await stdio.run(kit.asking(say(json.dumps(ASK))), port)
    assert len(port.asked) == 1
    assert port.end is not None and port.end.failure is not None


async def test_processes_left_by_an_asking_run_do_not_outlive_it() -> None:
    script = f"sleep 1000 & echo '{json.dumps(ASK)}'"
    async with trio.open_nursery() as nursery:
        port = Recorder(answers={"name": trio.Event()}, grace_s=0.2)
        performance = await perform(nursery, stdio, kit.shell(script, output="outcome"), port)
        await port.until(lambda: port.asked)
        assert kit.lives(performance.call) == []
        performance.scope.cancel()


async def test_an_unrepeatable_run_fails_with_a_sentence(tmp_path: Path) -> None:
    program = tmp_path / "tool"
    program.write_text(f"#!/bin/sh\nrm -f $0\necho '{json.dumps(ASK)}'\n")
    program.chmod(0o700)
    port = Recorder(answers={"name": "Ada"})
    with pytest.raises(ToolFailed, match="could not be run again"):
        await stdio.run(kit.asking(kit.call(str(program), output="outcome")), port)
    assert port.end is not None
    assert port.end.failure is not None
    with pytest.raises(StartFailed):
        await stdio.run(kit.call(str(program), output="outcome"), Recorder())


async def test_a_resolvable_call_is_resolved_again() -> None:
    def again(answers: Mapping[str, object]) -> Call:
        return say(json.dumps({"type": "success", "content": f"{answers['name']} again"}))

    call = kit.shell(f"echo '{json.dumps(ASK)}'", output="outcome", with_answers=again)
    result, _ = await run(call, name="Ada")
    assert result == "Ada again"


async def test_an_unresolvable_call_fails_with_a_sentence() -> None:
    def again(answers: Mapping[str, object]) -> Call:
        raise invalid_arguments("t", [{"path": "a", "message": "is gone"}])

    port = Recorder(answers={"name": "Ada"})
    call = kit.shell(f"echo '{json.dumps(ASK)}'", output="outcome", with_answers=again)
    with pytest.raises(ToolFailed, match=r"could not be run again.*is gone"):
        await stdio.run(call, port)
    assert port.end is not None
    assert port.end.failure is not None
