"""`python -m baleen` is the command line."""

from baleen.cli import main

main()
