"""`python -m planner`: the command line where its script is not on the path."""

from planner.cli.main import main

main()
