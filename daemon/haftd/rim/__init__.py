"""The rim: bytes come in, messages are decided, and answers leave.

`transports` where connections come from, `wire` the seam to them, `connection` one peer and the calls it
waits for, `dispatch` from a message to its answer, `replies` the forms that an answer has until it is
sent, `outbox` the only way out.
"""
