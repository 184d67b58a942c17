"""A tool on a terminal of its own: `runtime` joins process, screen and keyboard.

Drawing: `screen` holds the cells in the terminal `library`; `frames` delays unfinished frames,
`variation` keeps U+FE0F; `draw_scheduler` and `render_cost` bound the time per loop pass. `paint`
serialises a screen; `transcript` renders the output as text on a `scratch` terminal. Input: `input`
writes text and keys by the `encoders`, `read_watch` waits for the program's reads, and
`keyboard_owner` tracks the keyboard protocol.
"""
