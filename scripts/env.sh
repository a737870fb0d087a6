# Sourced by every script here: what Python, Java, Spark and Airflow are told, in one place.
# Sets nothing up (scripts/setup does) and works from any directory.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The major version of a java binary, or nothing.
java_major() {
    "$1" -version 2>&1 </dev/null | sed -n 's/^[^"]*version "\([0-9]*\).*/\1/p' | head -n 1
}

# Prints a usable JAVA_HOME: the one given, else the one behind java on PATH. Fails when none is 17 or newer.
find_java() {
    local java
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)"; do
        [ -n "$java" ] && [ -x "$java" ] || continue
        [ "$(java_major "$java")" -ge 17 ] 2>/dev/null || continue
        "$java" -XshowSettings:properties -version 2>&1 </dev/null | sed -n 's/^ *java\.home = //p'
        return
    done
    return 1
}

if home=$(find_java); then export JAVA_HOME=$home; fi
unset home

export VIRTUAL_ENV=$ROOT/.venv
export PATH=$VIRTUAL_ENV/bin:${JAVA_HOME:+$JAVA_HOME/bin:}$PATH
# Spark workers start Python by name: without this they take the system's.
export PYSPARK_PYTHON=$VIRTUAL_ENV/bin/python
export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}

# Airflow, embedded: SQLite under the repository unless AIRFLOW_HOME says otherwise.
export AIRFLOW_HOME=${AIRFLOW_HOME:-$ROOT/.airflow}
export AIRFLOW__CORE__DAGS_FOLDER=$ROOT/dags
export AIRFLOW__CORE__PLUGINS_FOLDER=$ROOT/plugins
export AIRFLOW__CORE__LOAD_EXAMPLES=False
export AIRFLOW_CONN_SPARK_DEFAULT=${AIRFLOW_CONN_SPARK_DEFAULT:-'{"conn_type": "spark", "host": "local[*]"}'}

# `airflow standalone`: reached from this machine only, four tasks at once (32 would take 4 GB), and tasks that find a port
# other than 8080.
export AIRFLOW__API__HOST=${AIRFLOW__API__HOST:-127.0.0.1}
export AIRFLOW__CORE__PARALLELISM=${AIRFLOW__CORE__PARALLELISM:-4}
if [ -n "${AIRFLOW__API__PORT:-}" ]; then
    export AIRFLOW__API__BASE_URL=${AIRFLOW__API__BASE_URL:-http://127.0.0.1:$AIRFLOW__API__PORT}
fi
