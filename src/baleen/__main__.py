"""`python -m baleen` is the command line."""

from baleen.cli.app import main

main()
