package page

import (
	"bytes"
	"encoding/xml"
	"io"
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
	r.Chart(&Chart{Caption: "<caption>", Kinds: []Kind{{"<kind>", Colour(3)}}, Boxes: []Box{{H: 20, Label: "<label>", About: "<about>"}}})
	require.NoError(t, r.Close())
	for _, name := range []string{"title", "head", "cell", "name", "value", "caption", "kind", "label", "about"} {
		require.Contains(t, out.String(), "&lt;"+name+"&gt;")
		if name != "title" && name != "head" {
			require.NotContains(t, out.String(), "<"+name+">")
		}
	}
	r = NewReport(&out, "\x1b[31m\u202e\x00")
	r.Put("<p>%s</p>", "\x1b]0;title\a\u009b1m\xff\r\n\t\u2066é")
	require.NoError(t, r.Close())
	require.NotContains(t, out.String(), "\x1b")
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
