"""A tool on its own terminal: `runtime` joins process, screen and keyboard.

`screen` draws with the terminal `library` (`frames`, `variation`), in the time of `draw_scheduler`
and `render_cost`; `paint` serialises it, `style_runs` splits styled rows, `screen_reader` reads
plain ones, `transcript` renders text on a `scratch` terminal. `input` writes text and keys by the
`encoders`, when `read_watch` and `keyboard_owner` allow.
"""
