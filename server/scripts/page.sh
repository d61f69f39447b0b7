#!/usr/bin/env bash
# Shows the status page in headless Chromium (Debian's package chromium-headless-shell, which it installs if none is there): it has the
# model and the routes, the browser reports no error, and nothing is asked for from elsewhere. The picture is for eyes.
#   server/scripts/page.sh [PICTURE.png]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
picture=${1:-/dev/null}
work=$(mktemp -d)
browser=$(command -v chromium-headless-shell || command -v chromium || command -v google-chrome || true)
if [ -z "$browser" ]; then
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y chromium-headless-shell >/dev/null
  browser=chromium-headless-shell
fi
go -C "$root" build -o "$work/rlxc" ./cmd/rlxc
"$work/rlxc" serve "$root/pipeline/testdata/minilm" --address 127.0.0.1:0 --log-level info 2>"$work/log" &
server=$!
trap 'kill $server; wait $server || true; rm -rf "$work"' EXIT
for _ in $(seq 200); do
  grep -q msg=serving "$work/log" && break
  sleep 0.1
done
url=$(sed -n 's/.* url=\([^ ]*\).*/\1/p' "$work/log" | head -n 1)
curl --silent --fail "$url/embed" -d '{"inputs": ["a cat", "a dog"]}' >/dev/null
# Every name but the server's address leads nowhere, and what the browser asks for is in its log of the network.
"$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --host-resolver-rules="MAP * ~NOTFOUND, EXCLUDE 127.0.0.1" \
  --enable-logging=stderr --v=0 --user-data-dir="$work/profile" --log-net-log="$work/net.json" --window-size=1200,1400 \
  --virtual-time-budget=2000 --dump-dom "$url/" >"$work/dom.html" 2>"$work/browser.log"
"$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --window-size=1200,1400 --screenshot="$work/page.png" "$url/" 2>/dev/null
cp "$work/page.png" "$picture"
python3 - "$work" "$url" <<'P'
import json
import re
import sys
work, url = sys.argv[1:]
dom = open(f"{work}/dom.html").read()
rows = dict(re.findall(r'<table id="(\w+)">(.*?)</table>', dom, re.S))
models, routes = (re.findall(r"<tr>(.*?)</tr>", rows[name], re.S) for name in ("models", "routes"))
assert len(models) == 2 and "<td>minilm</td><td>embed</td>" in models[1], models
assert re.search(r"<td>2\.0</td>", models[1]), "two texts a batch"
assert len(routes) > 25 and any("/v1/embeddings" in r for r in routes)
assert "<script" not in dom
log = open(f"{work}/browser.log").read()
assert "CONSOLE" not in log, log
asked = set(re.findall(r'"url":"(https?://[^"]*)"', open(f"{work}/net.json").read()))
assert f"{url}/" in asked, "the log of the network lacks the page"
page = {a for a in asked if a.startswith(url)}
print("the page asked for", sorted(page))
others = {a for a in asked - page if not re.match(r"https://([\w-]+\.)*(google|googleapis|gstatic|gvt1)\.com/", a)}  # the browser's own
assert not others, others
print(f"ok: {len(models) - 1} model, {len(routes) - 1} routes, no script, no error in the console")
P
