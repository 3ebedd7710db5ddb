#!/bin/sh
# Includes may only go down the layers: proto <- model, store <- sampler <- ckd <- daemon, lab.
# proto, model, store, sampler, ckd must not know libmicrohttpd or libuv; store.h must not know SQLite; lab must not know daemon.
set -eu
fail=0
deny() { # folder, pattern
    if grep -nE "$2" "$1"/*.[ch] /dev/null; then
        echo "layers: $1 must not include the above" >&2
        fail=1
    fi
}
deny proto '#include "(model|store|sampler|ckd|daemon|lab|clients)/'
deny model '#include "(store|sampler|ckd|daemon|lab|clients)/'
deny store '#include "(model|sampler|ckd|daemon|lab|clients)/'
deny sampler '#include "(ckd|daemon|lab|clients)/'
deny ckd '#include "(daemon|lab|clients)/'
deny lab '#include "(daemon|clients)/'
deny daemon '#include "(lab|clients)/'
deny clients/replay '#include "(model|store|sampler|ckd|daemon|lab)/'
deny clients/ctl '#include "(model|store|sampler|ckd|daemon|lab)/'
deny clients '#include "(model|store|sampler|ckd|daemon|lab)/'
for d in proto model store sampler ckd lab; do
    deny "$d" '#include <(microhttpd|uv)\.h>'
done
grep -n 'sqlite' store/store.h && { echo "layers: store.h names SQLite" >&2; fail=1; } || true
exit $fail
