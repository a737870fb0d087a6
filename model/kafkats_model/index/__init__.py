"""Indexes by time that were proposed and never shipped, and `compared`: how well they answer."""
