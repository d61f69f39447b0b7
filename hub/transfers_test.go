package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlxc/rlxc/internal/modeltest"
)

// A scripted body delivers what its words say: +3 the next three bytes, 9s a pause, cut an end of the connection.
type scripted struct {
	ctx   context.Context
	data  string
	words []string
	open  *int
}

func (b *scripted) Close() error {
	*b.open--
	return nil
}

func (b *scripted) Read(to []byte) (int, error) {
	for len(b.words) > 0 {
		word := b.words[0]
		b.words = b.words[1:]
		pause, err := time.ParseDuration(word)
		switch n, _ := strconv.Atoi(word); {
		case word == "cut":
			return 0, errors.New("cut off")
		case word[0] == '+':
			sent := copy(to, b.data[:n])
			b.data = b.data[n:]
			return sent, nil
		case err == nil:
			select {
			case <-b.ctx.Done():
				return 0, b.ctx.Err()
			case <-time.After(pause):
			}
		}
	}
	return 0, io.EOF
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTransfers fetches a file from hubs that break off, wait, or send another part than they were asked for. testdata/transfers.txt
// records when each request comes, which bytes it asks for, the progress reported, and what the file holds in the end. The clock is not
// the machine's.
func TestTransfers(t *testing.T) {
	modeltest.Transcript(t, "testdata/transfers.txt", *update, addresses, func(line string) string {
		var out strings.Builder
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			note := func(format string, args ...any) {
				fmt.Fprintf(&out, "%v "+format+"\n", append([]any{time.Since(start)}, args...)...)
			}
			about, script, _ := strings.Cut(line, ":")
			var size, there int
			var patience time.Duration
			_, err := fmt.Sscanf(about, "%d of %d bytes", &there, &size)
			require.NoError(t, err)
			if _, text, ok := strings.Cut(about, " within "); ok {
				patience, err = time.ParseDuration(text)
				require.NoError(t, err)
			}
			open := 0
			answers := strings.Split(script, ";")
			whole := strings.Repeat("abcdefghij", 11)
			m := metadata{commit: testCommit, etag: shaHash([]byte(whole[:max(size, 0)])), size: int64(size)}
			if size < 0 {
				m.etag = shaHash([]byte(whole))
			}
			c := &Client{Endpoint: "http://hub.test", Cache: t.TempDir()}
			c.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				require.Equal(t, []string{"rlxc", "identity"}, []string{r.UserAgent(), r.Header.Get("Accept-Encoding")})
				asked := r.Header.Get("Range")
				note("asks for %q", asked)
				words := strings.Fields(answers[0])
				answers = answers[min(1, len(answers)-1):]
				if words[0] == "none" {
					return nil, errors.New("no answer")
				}
				code, err := strconv.Atoi(words[0])
				require.NoError(t, err)
				from := 0
				header := http.Header{}
				if code == http.StatusPartialContent {
					fmt.Sscanf(asked, "bytes=%d-", &from)
					header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
				}
				for _, word := range words[1:] {
					if name, value, ok := strings.Cut(word, "="); ok {
						header.Set(name, strings.ReplaceAll(value, "_", " "))
					}
				}
				fmt.Sscanf(header.Get("Content-Range"), "bytes %d-", &from)
				open++
				return &http.Response{StatusCode: code, Header: header, Request: r,
					Body: &scripted{r.Context(), whole[from:], words[1:], &open}}, nil
			})}
			c.Progress = func(_ string, done, total int64) { note("%d of %d", done, total) }
			r, err := c.repo(testID)
			require.NoError(t, err)
			part := filepath.Join(c.Cache, "part")
			require.NoError(t, os.WriteFile(part, []byte(whole[:there]), 0o666))
			ctx := t.Context()
			if patience > 0 {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, patience)
				defer cancel()
			}
			resumed, err := c.fetch(ctx, r, m, "x", part)
			require.Zero(t, open, "answers that are not closed")
			data, _ := os.ReadFile(part)
			note("resumed %t: %v, %d bytes, whole %t", resumed, err, len(data), shaHash(data) == m.etag)
		})
		lines := slices.Collect(strings.Lines(out.String()))
		if middle := len(lines) - 4; middle > 20 {
			lines = slices.Replace(lines, 4, middle, fmt.Sprintln(middle-4, "lines"))
		}
		return strings.Join(lines, "")
	})
}
