"""A tool of the conformance suite: asks each `id:type` of its arguments in turn."""

import json
import os
import sys

answers = json.loads(os.environ["HAFT_CALL"])["tool"]["answers"]
for word in sys.argv[1:]:
    name, _, kind = word.partition(":")
    if name not in answers:
        question = {"id": name, "text": f"What is your {name}?", "answer_type": {"type": kind}}
        print(json.dumps({"type": "needs_input", "question": question}))
        break
else:
    print(json.dumps({"type": "success", "content": f"state-ok {json.dumps(answers)}"}))
