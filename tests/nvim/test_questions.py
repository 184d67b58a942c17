"""Questions, approvals and secrets are counted, and asked only when the person goes to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.nvim.editor import Editor
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

pytestmark = pytest.mark.clients

DEPLOY = """
[tools.deploy]
source = "local"
run = "ask"
output = "raw"
command = ["echo", "deployed to {{ tool.arguments.to }}"]
parameters.to = { type = "string", required = true }
"""

# The script asks `question`, and returns the answer as JSON.
ASKING = """
[tools.asking]
source = "local"
output = "outcome"
stateful = true
command = ["python3", "-c", '''
import json, os
answers = json.loads(os.environ["HAFT_CALL"])["tool"]["answers"]
if "q" in answers:
    print(json.dumps({"type": "success", "content": json.dumps(answers["q"])}))
else:
    kind = json.loads(os.environ["HAFT_CALL"])["tool"]["arguments"]["kind"]
    question = {"id": "q", "text": "Which?", "answer_type": json.loads(kind)}
    print(json.dumps({"type": "needs_input", "question": question}))
''']
parameters.kind = { type = "string", required = true }
"""

# Stand in for a person: what was asked is kept, and answered as given.
PERSON = """
local answer = ...
vim.g.asked = 0
vim.ui.select = function(items, options, done)
  vim.g.asked = vim.g.asked + 1
  for index, item in ipairs(items) do
    if (options.format_item or tostring)(item) == answer then return done(item, index) end
  end
end
vim.ui.input = function(options, done) vim.g.asked = vim.g.asked + 1; done(answer) end
vim.fn.inputsecret = function() vim.g.asked = vim.g.asked + 1; return answer end
"""


@pytest.fixture
def wire(daemon: RunningDaemon) -> Iterator[Wire]:
    """The connection that starts the tools; its approvals are withdrawn when it closes."""
    daemon.tools(DEPLOY + ASKING)
    with daemon.connect() as connection:
        connection.call("tools/reload")
        yield connection


@pytest.mark.parametrize(
    ("kind", "answer", "result"),
    [
        ({"type": "boolean"}, "yes", "true"),
        ({"type": "text"}, "some words", '"some words"'),
        ({"type": "select", "options": [1, "two"]}, "two", '"two"'),
        ({"type": "secret"}, "hidden", None),
    ],
)
def test_a_question_is_announced_counted_and_answered(
    editor: Editor, wire: Wire, kind: dict[str, Any], answer: str, result: str | None
) -> None:
    editor.lua(PERSON, answer)
    editor.lua("require('haft').watch()")
    editor.wait("require('haft.client').state == 'open'")
    wire.call("spawn", tool="asking", id="asked", args={"kind": json.dumps(kind)}, wait="none")
    assert editor.wait("require('haft').statusline()") == "haft! 1"
    assert editor.lua("return vim.g.asked") == 0, "nothing asks by itself"
    editor.command("Haft next")
    editor.wait("require('haft').statusline() == ''")
    state = wire.call("fetch", id="asked", wait="stopped")
    assert state["state"] == "stopped" and "error" not in state
    assert result is None or state["result"] == result


def test_an_approval_is_shown_and_its_arguments_edited(editor: Editor, wire: Wire) -> None:
    editor.lua("require('haft').watch()")
    editor.wait("require('haft.client').state == 'open'")
    call = wire.start("spawn", tool="deploy", id="asked", args={"to": "prod"}, wait="stopped")
    assert editor.wait("require('haft').statusline()") == "haft! 1"
    editor.command("Haft next")
    assert '"to": "prod"' in editor.wait_for_text("edit the arguments")
    editor.keys("e")
    editor.wait("vim.bo.filetype == 'json'")
    editor.command("%s/prod/staging/")
    editor.command("write")
    editor.wait("require('haft').statusline() == ''")
    state = wire.finish(call)
    assert state["result"].strip() == "deployed to staging"


def test_an_approval_is_denied_by_one_key(editor: Editor, wire: Wire) -> None:
    editor.lua("require('haft').watch()")
    editor.wait("require('haft.client').state == 'open'")
    call = wire.start("spawn", tool="deploy", id="asked", args={"to": "prod"}, wait="stopped")
    editor.wait("require('haft').statusline()")
    editor.command("Haft approve")
    editor.wait_for_text("deny")
    editor.keys("d")
    with pytest.raises(Refused, match="-32007"):
        wire.finish(call)


def test_a_question_answered_elsewhere_is_withdrawn_here(editor: Editor, wire: Wire) -> None:
    editor.lua("require('haft').watch()")
    editor.wait("require('haft.client').state == 'open'")
    args = {"kind": '{"type":"boolean"}'}
    wire.call("spawn", tool="asking", id="asked", args=args, wait="none")
    editor.wait("require('haft').statusline()")
    wire.call("apply", id="asked", input=True)
    editor.wait("require('haft').statusline() == ''")


def test_a_secret_is_typed_unseen(editor: Editor) -> None:
    editor.lua(PERSON, "hidden")
    editor.command("Haft run read -rsp 'Password: ' word; echo got-${#word}; cat")
    editor.wait_for_text("Password:")
    editor.command("Haft secret")
    assert "hidden" not in editor.wait_for_text("got-6")
