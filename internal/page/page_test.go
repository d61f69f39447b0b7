package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLayer(t *testing.T) {
	for name, layer := range map[string]string{
		"/encoder/layer.0/attention/self/query/MatMul":                      "layer.0",
		`matmul "/encoder/layer.11/attention/self/query/MatMul" and 5 more`: "layer.11",
		"/model/layers.3/mlp/Mul_1":                                         "layers.3",
		"model.layers.12.mlp.up_proj":                                       "layers.12",
		"/layer1/layer1.0/conv1/Conv":                                       "layer1.0",
		"/h/7/attn/Add":                                                     "h.7",
		`embedding "/embeddings/word_embeddings/Gather" and 5 more`:         "embeddings",
		"/pooler/dense/Gemm":                                                "pooler",
		"/Mul_1":                                                            "",
		"MatMul_12":                                                         "",
		"":                                                                  "",
	} {
		require.Equal(t, layer, Layer(name), name)
	}
	require.Equal(t, []string{"encoder", "layer.0"}, Path("/encoder/layer.0/Add"))
	require.Empty(t, Path("MatMul_12"))
	require.Empty(t, Path(""))
}

// TestReport: what a report puts is text, and it runs the script that its policy names alone.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := NewReport(&out, "<title>")
	r.Table([]string{"<head>"}, [][]string{{"<cell>"}})
	r.Facts("<name>", "<value>")
	r.Chart(&Chart{Caption: "<caption>", Kinds: []Kind{{"<kind>", Colour("matmul")}},
		Boxes: []Box{{H: 20, Label: "<label>", About: "<about>"}}})
	require.NoError(t, r.Close())
	for _, name := range []string{"title", "head", "cell", "name", "value", "caption", "kind", "label", "about"} {
		require.Contains(t, out.String(), "&lt;"+name+"&gt;")
		if name != "title" && name != "head" {
			require.NotContains(t, out.String(), "<"+name+">")
		}
	}
	r = NewReport(&out, "\x1b[31m\u202e\x00")
	r.Put("<p>%s</p>", "\x1b]0;title\a\u009b1m\xff\r\n\t\u2066é")
	type name string
	r.Put("<p>%s, %v</p>", name("<name>\x1b"), errors.New("<error>\x1b"))
	require.NoError(t, r.Close())
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), `<p>&lt;name&gt;\x1b, &lt;error&gt;\x1b</p>`)
	require.Contains(t, out.String(), `<title>\x1b[31m\u202e\x00</title>`)
	require.Contains(t, out.String(), `<p>\x1b]0;title\a\u009b1m`+"\ufffd"+`\r`+"\n\t"+`\u2066é</p>`)
	body := out.String()[strings.Index(out.String(), "<body>"):strings.Index(out.String(), "</html>")]
	for d := xml.NewDecoder(strings.NewReader(body)); ; { // elements are closed in order
		if _, err := d.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	require.Contains(t, out.String(), "script-src &#39;"+digest(script)[1:len(digest(script))-1])
}

// TestTicksHaveRoom: at 390 points and on wider screens no label is over another, however long the labels are, and the first is there.
func TestTicksHaveRoom(t *testing.T) {
	ticks := regexp.MustCompile(`<text class="(tick|tick wide)" x="(\d+\.\d{3})%" y="[\d.]+" text-anchor="(\w+)">([^<]*)<`)
	const letter = 6.7 // points of a digit in the widest of the fonts that style.css names
	for _, text := range []string{"0", "12345", "0.152 ms", "12.345 ms", "123456.789 ms"} {
		for _, n := range []int{1, 2, 9, 11} {
			for _, left := range [][]Tick{nil, {{0, "64.0 KiB"}}} {
				c := &Chart{Left: left}
				for i := range n {
					c.Below = append(c.Below, Tick{float64(i) / float64(max(n-1, 1)), text})
				}
				var out bytes.Buffer
				r := NewReport(&out, "a chart")
				r.Chart(c)
				require.NoError(t, r.Close())
				for screen, narrow := range map[float64]bool{390: true, 833: false, 1200: false} {
					width := screen - 62 // of the chart, between margins
					if left != nil {
						width -= 75
					}
					end, shown := math.Inf(-1), 0
					for _, m := range ticks.FindAllStringSubmatch(out.String(), -1) {
						if narrow && m[1] == "tick wide" {
							continue
						}
						shown++
						x, err := strconv.ParseFloat(m[2], 64)
						require.NoError(t, err)
						size := letter * float64(len(m[4]))
						from := x/100*width - map[string]float64{"start": 0, "middle": 0.5, "end": 1}[m[3]]*size
						require.Greater(t, from, end, "%q, %d ticks at %v points", text, n, screen)
						end = from + size
					}
					require.Positive(t, shown)
				}
			}
		}
	}
}

// TestColours: an operation has one colour, and the most frequent ones differ.
func TestColours(t *testing.T) {
	seen := map[string]string{}
	for _, kind := range kinds {
		require.Empty(t, seen[Colour(kind)], kind)
		seen[Colour(kind)] = kind
	}
	require.Equal(t, Colour("TopK"), Colour("TopK"))
	require.NotEqual(t, Colour("TopK"), Colour("NonZero"))
}
