"""The words and codecs of haft's wire: no I/O, no clock, no event loop, no logging."""
