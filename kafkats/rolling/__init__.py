"""Roll: when a broker starts a new segment, and closing the active segment of a stopped broker.

options      what can be chosen
rules        the broker's rules, by Kafka generation
plan         which active segments a plan closes
replay       the segments that appending the batches again would make
simulate     what a broker with given settings would have done
"""
