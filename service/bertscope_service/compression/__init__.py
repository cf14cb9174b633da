"""What makes models smaller: a checkpoint in, a checkpoint out."""
