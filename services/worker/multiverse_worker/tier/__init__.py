"""The prefix-cache tier: KV blocks by content key, outside of any worker.

Results never depend on it: whatever it lacks, loses, garbles or says too late is computed.
"""
