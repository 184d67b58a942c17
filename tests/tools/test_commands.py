"""Commands of a definition: refusals that name the fault."""

from __future__ import annotations

import pytest

from haftd.tools.definitions.commands import read_command
from haftd.tools.definitions.parameters import InvalidField


@pytest.mark.parametrize("command", ["a\0b", "run 'a \0'", ["a\0b"], {"program": "a\0b"}], ids=repr)
def test_a_nul_byte_is_named_in_each_form_of_a_command(command: object) -> None:
    with pytest.raises(InvalidField, match="NUL byte"):
        read_command(command)
