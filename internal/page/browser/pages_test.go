// Package browser looks at the pages of rlxc in headless Chromium, as wide as a desk's screen and as a phone's. It is a separate module:
// what drives the browser stays out of rlxc's dependencies.
//
//	go -C internal/page/browser test ./... -pictures ../../../docs/pictures
package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var (
	pictures = flag.String("pictures", "", "folder to write what the pages look like to")
	program  string
	browser  context.Context
)

const models = "../../../pipeline/testdata/"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "rlxc-browser-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		program = filepath.Join(folder, "rlxc")
		if out, err := exec.Command("go", "build", "-C", "../../..", "-o", program, "./cmd/rlxc").CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v: %s", err, out))
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.WSURLReadTimeout(time.Minute))
		ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		defer cancel()
		browser, cancel = chromedp.NewContext(ctx)
		defer cancel()
		if err := chromedp.Do(browser); err != nil {
			panic(fmt.Sprintf("%v: the tests need Chromium: apt-get install chromium", err))
		}
		return m.Run()
	}())
}

// A tab is a page of the browser, and what went wrong on it.
type tab struct {
	*testing.T
	ctx  context.Context
	wide string // the screen's name

	mu      sync.Mutex
	wrong   []string
	foreign []string // requests to elsewhere than origin
	origin  string
}

// screens are the widths that pages are looked at.
var screens = []struct {
	name  string
	width int64
}{{"desk", 1280}, {"phone", 390}}

// onScreens walks through a page on each screen. A page asks for nothing from elsewhere, raises no error, and is no wider than the screen.
func onScreens(t *testing.T, url string, walk func(b *tab)) {
	for _, screen := range screens {
		t.Run(screen.name, func(t *testing.T) {
			ctx, cancel := chromedp.NewContext(browser)
			defer cancel()
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
			defer cancel()
			b := &tab{T: t, ctx: ctx, wide: screen.name, origin: regexp.MustCompile(`^(http://[^/]*/|file://)`).FindString(url)}
			require.NoError(t, chromedp.Listen(ctx, b.notice))
			b.do(chromedp.EmulateViewport(screen.width, 900), chromedp.Navigate(url))
			walk(b)
			wider := evaluate[int](b, `document.documentElement.scrollWidth - innerWidth`)
			require.LessOrEqual(t, wider, 0, "the page is wider than the screen")
			b.mu.Lock()
			defer b.mu.Unlock()
			require.Empty(t, b.wrong)
			require.Empty(t, b.foreign)
		})
	}
}

// refused is what the browser writes of an answer that the page shows as an error.
var refused = regexp.MustCompile(`status of 40[01] `)

// notice notes errors and requests.
func (b *tab) notice(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, fmt.Sprint(e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !refused.MatchString(e.Entry.Text) {
			b.wrong = append(b.wrong, e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, b.origin) && !strings.HasPrefix(url, "data:") {
			b.foreign = append(b.foreign, url)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, actions...))
}

// evaluate is the value of an expression in JavaScript.
func evaluate[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b, err, expression)
	return value
}

// shows waits until an element contains a text.
func (b *tab) shows(selector, text string) {
	b.Helper()
	var now string
	for range 200 {
		now = evaluate[string](b, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? "nothing"`, selector))
		if strings.Contains(now, text) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Contains(b, now, text, selector)
}

// click clicks on the first element that fits, as a script of the page sees it.
func (b *tab) click(selector string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// count is how many elements fit.
func (b *tab) count(selector string) int {
	b.Helper()
	return evaluate[int](b, fmt.Sprintf(`document.querySelectorAll(%q).length`, selector))
}

// picture writes what the window shows, in 256 colours, which makes files small.
func (b *tab) picture(name string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b, err)
	seen, err := png.Decode(bytes.NewReader(data))
	require.NoError(b, err)
	few := fewColours(seen)
	var out bytes.Buffer
	require.NoError(b, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few))
	require.Less(b, out.Len(), 150<<10)
	require.NoError(b, os.WriteFile(filepath.Join(*pictures, name+"-"+b.wide+".png"), out.Bytes(), 0o666))
}

// fewColours is a picture in the 256 colours that it has most of.
func fewColours(seen image.Image) image.Image {
	r := seen.Bounds()
	counts := map[color.Color]int{}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			counts[seen.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return counts[b] - counts[a] })
	few := image.NewPaletted(r, colours[:min(len(colours), 256)])
	index := map[color.Color]uint8{}
	for c := range counts {
		index[c] = uint8(few.Palette.Index(c))
	}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			few.SetColorIndex(x, y, index[seen.At(x, y)])
		}
	}
	return few
}

// serve runs a server and returns its URL.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	server := exec.Command(program, append([]string{"serve", "--address", "127.0.0.1:0", "--log-level", "info"}, args...)...)
	out, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	var text []byte
	url := regexp.MustCompile(`url=(\S+)`)
	for buffer := make([]byte, 4096); ; {
		if m := url.FindSubmatch(text); m != nil {
			go func() {
				for { // or the server waits for a reader of its log
					if _, err := out.Read(buffer); err != nil {
						return
					}
				}
			}()
			return string(m[1]) + "/"
		}
		n, err := out.Read(buffer)
		text = append(text, buffer[:n]...)
		require.NoError(t, err, "%s", text)
	}
}
