"""The strategies of `fit`: one folder or file for each."""
