"""Training data: the schema of a record, its files, and how records become token trees."""
