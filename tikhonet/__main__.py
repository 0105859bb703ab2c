"""`python -m tikhonet` is `tikhonet`."""

from tikhonet.cli import main

main()
