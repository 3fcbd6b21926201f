"""What a running router and worker show of themselves: traces, metrics, logs."""
