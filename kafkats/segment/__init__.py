"""One .log file: its bytes, and what is known of it without decoding records."""
