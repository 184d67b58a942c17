"""The pure middle: who is what, what was said, who is owed what. No I/O, no event loop."""
