# Strimzi's operator makes the pods of a Kafka resource, and no setting of it changes the command of
# the broker's container: this image wraps the start script. Build it in a folder with the archive
# that scripts/package made, again for each version of the operator:
#   docker build -f strimzi.Dockerfile --build-arg BASE=quay.io/strimzi/kafka:... -t ... .
# Name it in spec.kafka.image (or in STRIMZI_KAFKA_IMAGES of the operator). Strimzi's liveness probe
# looks for a java process, which is not there before the broker's start: set
# spec.kafka.livenessProbe.initialDelaySeconds to 270, more than --within. The operator restarts a pod
# that does not answer for 5 minutes (its STRIMZI_OPERATION_TIMEOUT_MS): --within is less than that.
ARG BASE
FROM ${BASE}
USER root
ADD kafkats-*.tar.xz /opt/
RUN mv /opt/kafka/kafka_run.sh /opt/kafka/kafka_run.broker.sh \
    && printf '%s\n' '#!/bin/sh' \
        '# the log directory of each volume, also one that is gone; a pod ends in its node.id' \
        'node=${HOSTNAME##*-}' \
        'dirs=$(printf "%s/kafka-log$node " /var/lib/kafka/data*)' \
        'exec /opt/kafkats/kafkats recover $dirs --node-id $node --within 4m -- /opt/kafka/kafka_run.broker.sh "$@"' \
        > /opt/kafka/kafka_run.sh \
    && chmod 755 /opt/kafka/kafka_run.sh
USER 1001
