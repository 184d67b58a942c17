"""A tool on its own terminal: `runtime` joins process, screen and keyboard.

`screen` draws with the terminal `library` (`frames`, `variation`), in the time of `draw_scheduler`;
`paint` serialises it, `screen_reader` reads plain and styled rows, `transcript` renders text.
`input` writes text and keys by the `encoders`, when `read_watch` and `keyboard_owner` allow.
"""
