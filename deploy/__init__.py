"""What it takes to run Multiverse elsewhere: images, compose file, chart, and their generator."""
