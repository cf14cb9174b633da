"""Values that questions share, and how they are checked, sent, shown and merged."""
