"""A tool on a terminal of its own: `runtime` joins the process, the screen and the keyboard.

Drawing: `screen` keeps the cells by the terminal `library`; `frames` holds back unfinished frames, `variation` keeps
U+FE0F; `draw_scheduler` and `render_cost` bound the work of one turn. `paint` serialises a screen; `transcript` renders
the output as text on a `scratch` terminal.
Typing: `input` writes text and keys by the `encoders`, `read_watch` sees that the program took them, and
`keyboard_owner` knows whose keyboard protocol is set.
"""
