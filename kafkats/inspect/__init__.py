"""Look at log directories and change nothing.

options      what can be chosen
verify       every defect, classified
inventory    bytes, segments and formats per segment, partition or topic
dump         the content of any file of a log directory
"""
