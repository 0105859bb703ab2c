"""`python -m tikhonet.cli` is `tikhonet`."""

from tikhonet.cli import main

main()
