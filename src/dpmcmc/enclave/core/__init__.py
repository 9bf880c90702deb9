"""What privacy rests on, with `arithmetic`, `noise` and the mechanism in use: read this."""
