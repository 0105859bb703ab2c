"""`python -m tikhonet` is `tikhonet`."""

from tikhonet.cli.app import main

main()
