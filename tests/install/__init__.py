"""The wheel and the sdist: their files, and what an installation of them can do."""
