"""`python -m tikhonet.cli` is `tikhonet`."""

from tikhonet.cli.app import main

main()
