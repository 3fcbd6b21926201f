"""What is deployed, checked without a cluster: chart, compose file, images, settings."""
