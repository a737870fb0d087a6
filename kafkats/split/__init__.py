"""Split segments at batch borders into smaller ones.

options      what can be chosen
points       positions where a segment may be cut
parts        the table of parts
items        plan items for the files of the parts
plan         which segments a plan splits
stage        the files of planned parts, for a split and for expired heads
"""
