"""What all experiments share: cells that are run once, tables, pictures."""
