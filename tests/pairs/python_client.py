"""A program on the Python client, driven over its standard streams, so that it can be killed."""

from __future__ import annotations

import base64
import json
import sys

from haft import Haft


def main(socket: str) -> None:
    shown, cursor = "", 0
    with Haft.connect(socket) as client:
        for request in sys.stdin:
            action, id, text = json.loads(request)
            if action == "shell":
                client.spawn("user_shell", id=id, args={"rows": 24, "cols": 80}, wait="none")
            elif action == "type":
                client.apply(id, {"text": text}, wait="none", cursor=cursor, max_bytes=0)
            elif action == "answer":
                client.apply(id, text, wait="none")
            elif action == "shown":
                state = client.fetch(id, view="raw", reader="terminal", cursor=cursor)
                assert isinstance(state.content, str)
                shown += base64.b64decode(state.content).decode()
                cursor = state.cursor
            sys.stdout.write(json.dumps(shown) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
