"""`python -m anabranch` is the command line."""

from anabranch.cli import main

main(prog_name="anabranch")
