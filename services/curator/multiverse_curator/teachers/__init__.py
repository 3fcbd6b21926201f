"""Teachers: whoever answers the questions of the stages."""
