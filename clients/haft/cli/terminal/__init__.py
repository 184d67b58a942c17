"""Terminal interface of `haft attach`.

An `attachment` joins a handle's terminal to a person's `own_terminal`, through `output_filter`,
`keyboard` and `pending_input`; a `pollable_client` is polled beside the keyboard.
"""
