package server

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

var update = flag.Bool("update", false, "write testdata/requests.txt anew")

var (
	headerText = regexp.MustCompile(`^[A-Z][\w-]*:\S+$`)
	unsteady   = regexp.MustCompile(`(?m)^(rlxc_\S*(_seconds_sum|_bytes)\S*) \S+$`)
	varies     = regexp.MustCompile(`(took|queued)=\S+|id=[A-Z0-9]{26}|/\S*TestRequests\d+/\d+|` +
		`("created":|"unix":|_duration":|"ns":|"last_inference":|"tokenization_workers":)\d+|` +
		`"(modified_at|expires_at|digest)":"[^"]*"?`)
)

// shownBody is how much of a body is recorded.
const shownBody = 1200

// TestRequests sends the requests of testdata/requests.txt, a server's name, a method, a path, headers and a body in each line, and
// compares answers and the lines of the log with what is recorded there. After a change: go test ./server -run TestRequests -update
func TestRequests(t *testing.T) {
	t.Setenv("RLXC_CPU", "generic") // so that numbers are the same on all machines
	var log bytes.Buffer
	options := func(o Options) Options {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey || a.Key == "from" {
					return slog.Attr{}
				}
				return a
			}}))
		return o
	}
	models := append(served(append([]string{"prompts", "m3"}, everyTask...)...), Model{Name: "tiny", Path: tinyModel(t)})
	for i := range models {
		models[i].Options.Sessions = 1 // however many processors there are
	}
	all, _ := start(t, options(Options{Version: "1.2.3"}), models...)
	strict, _ := start(t, options(Options{Keys: []string{"k", "l"}, MaxBody: 200, MaxHeld: 1 << 20, MaxTexts: 2, NoTruncate: true}),
		served("minilm", "nli")...)
	servers := map[string]*Server{"all": all, "strict": strict}
	modeltest.Transcript(t, "testdata/requests.txt", *update, varies, func(line string) string {
		parts := strings.SplitN(line, " ", 4)
		body := ""
		if len(parts) > 3 {
			body = parts[3]
		}
		header := map[string]string{"X-Request-Id": "x", "Authorization": "Bearer k"}
		for {
			first, rest, _ := strings.Cut(body, " ")
			if !headerText.MatchString(first) {
				break
			}
			name, value, _ := strings.Cut(first, ":")
			header[name], body = value, rest
		}
		r := httptest.NewRequestWithContext(t.Context(), parts[1], parts[2], strings.NewReader(strings.ReplaceAll(body, "LONG",
			strings.Repeat("cat ", 60))))
		for name, value := range header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		require.Contains(t, servers, parts[0])
		servers[parts[0]].ServeHTTP(w, r)
		out := fmt.Sprintln(w.Code)
		for _, name := range slices.Sorted(maps.Keys(w.Header())) {
			if name != "Content-Length" && name != "X-Content-Type-Options" && name != "X-Request-Id" {
				out += fmt.Sprintf("%s: %s\n", name, w.Header().Get(name))
			}
		}
		text := strings.TrimSuffix(w.Body.String(), "\n")
		switch parts[2] {
		case "/":
			text = text[:100] // of a page
		case "/metrics":
			text = strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
				return !strings.Contains(line, "rlxc_") || strings.Contains(line, "_bucket{") // Go's own, and where times fall
			}), "\n")
			text = unsteady.ReplaceAllString(text, "$1 …")
		default:
			text = text[:min(len(text), shownBody)]
		}
		out += text + "\n" + log.String()
		log.Reset()
		return out
	})
}
