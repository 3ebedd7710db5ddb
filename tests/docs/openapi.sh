#!/bin/sh
# The API description of a running tcld, checked by a public validator from npm (kept in build/npm). Without npm, or
# when it cannot be reached, says so and does nothing.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
validator=@seriousme/openapi-schema-validator@2.11.0
skip() {
    echo "check-openapi: $*: the API description is not validated"
    exit 0
}
command -v node >/dev/null || skip "node is not installed"
command -v npm >/dev/null || skip "npm is not installed"
if [ ! -d build/npm/node_modules/@seriousme ]; then
    mkdir -p build/npm
    npm install --prefix build/npm --no-save --no-audit --no-fund --fetch-timeout=20000 --fetch-retries=1 "$validator" \
        >build/npm/log 2>&1 || skip "npm cannot be reached"
fi
dir=$(mktemp -d)
"$build"/tcld --listen=127.0.0.1:0 --state-dir="$dir/state" --port-file="$dir/port" 2>"$dir/log" &
pid=$!
trap 'kill $pid; wait $pid || true; rm -rf "$dir"' EXIT
for _ in $(seq 100); do
    [ -e "$dir/port" ] && break
    sleep 0.1
done
curl -sSf "http://127.0.0.1:$(cat "$dir/port")/openapi.json" >"$dir/openapi.json"
cat >build/npm/validate.mjs <<'END'
import { Validator } from "@seriousme/openapi-schema-validator";
const validator = new Validator();
const result = await validator.validate(process.argv[2]);
if (!result.valid) {
    console.error(JSON.stringify(result.errors, null, 1));
    process.exit(1);
}
console.log(`check-openapi: a valid OpenAPI ${validator.version} description`);
END
node build/npm/validate.mjs "$dir/openapi.json"
