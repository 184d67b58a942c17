"""A tool on a terminal of its own: `runtime` joins process, screen and keyboard.

Output: `screen` draws with the terminal `library`, `frames` delays unfinished frames, `variation`
keeps U+FE0F, `draw_scheduler` and `render_cost` bound the time, `paint` serialises a screen,
`transcript` renders text on a `scratch` terminal. Input: `input` writes text and keys by the
`encoders`, `read_watch` awaits the program's reads, `keyboard_owner` tracks the keyboard protocol.
"""
