"""haft: the client side, plain and on trio, and the command line."""
