package server

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStatusPage: the page's elements are closed in order, and names of models are text.
func TestStatusPage(t *testing.T) {
	m := served("minilm")
	m[0].Name = `a<b>&"c`
	_, h := start(t, Options{}, m...)
	_, page := ask(t, "GET", h.URL+"/", "", nil)
	body := page[strings.Index(page, "<body>"):strings.Index(page, "</html>")]
	d := xml.NewDecoder(strings.NewReader(body))
	var open []string
	cells := map[string]int{} // of tables, by the element
	text := ""
	for {
		x, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "%s", page)
		switch x := x.(type) {
		case xml.StartElement:
			open = append(open, x.Name.Local)
			cells[x.Name.Local]++
			require.Subset(t, open, map[string][]string{"tr": {"table"}, "td": {"table", "tr"}}[x.Name.Local])
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			text += string(x)
		}
	}
	require.Empty(t, open)
	require.Equal(t, 2, cells["table"])
	require.Contains(t, text, m[0].Name)
	require.Contains(t, text, "GET /openapi.json")
}
