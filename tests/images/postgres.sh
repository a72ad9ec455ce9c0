set -e
id -un
bin=$(echo /usr/lib/postgresql/*/bin)
cd /tmp
"$bin/initdb" --pgdata=/tmp/data --auth=trust >/tmp/log 2>&1
"$bin/pg_ctl" -s -w -D /tmp/data -l /tmp/log -o '-k /tmp -h ""' start
psql --host=/tmp --tuples-only --no-align --command='
    create table t as select i, i * i as square from generate_series(1, 20000) i; create index on t (i); analyze t;
    select sum(square), count(*) from t where i % 3 = 0; select usename, usesuper from pg_user; show server_version;
    explain (costs off) select * from t where i = 3'
"$bin/pg_ctl" -s -w -D /tmp/data -m immediate stop
# It recovers.
"$bin/pg_ctl" -s -w -D /tmp/data -l /tmp/log -o '-k /tmp -h ""' start
psql --host=/tmp --tuples-only --no-align --command='select max(i) from t'
"$bin/pg_ctl" -s -w -D /tmp/data -m fast stop
grep -c 'database system is ready' /tmp/log
