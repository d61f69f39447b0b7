package page

import (
	"bufio"
	_ "embed"
	"fmt"
	"html"
	"io"

	"github.com/rlxc/rlxc/internal/files"
)

//go:embed report.js
var script string

// head begins a report; %s are the policy and the title.
const head = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="%s">
<title>%s</title>
`

// A Report is a page that is written from the top to the bottom. It keeps the first error of its writer.
type Report struct{ w *bufio.Writer }

// NewReport begins a page with a title.
func NewReport(w io.Writer, title string) *Report {
	r := &Report{bufio.NewWriter(w)}
	styled, policy := Styled("<style></style>\n<script>" + script + "</script>\n</head>\n<body>\n")
	r.Put(head, policy, title)
	r.w.WriteString(styled)
	r.Put("<h1>%s</h1>\n", title)
	return r
}

// Text is HTML that shows a text. Characters that a terminal or a browser would obey are spelled out: pages hold names from models.
func Text(text string) string { return html.EscapeString(files.Harmless(text)) }

// Put writes HTML with values in it. Numbers are written as they are. All other values are text, of whatever type, and become HTML.
func (r *Report) Put(format string, values ...any) {
	for i, v := range values {
		switch v.(type) {
		case int, float64:
		default:
			values[i] = Text(fmt.Sprint(v))
		}
	}
	fmt.Fprintf(r.w, format, values...)
}

// HTML writes HTML as it is.
func (r *Report) HTML(text string) { r.w.WriteString(text) }

// Facts writes numbers with their names, which alternate with them.
func (r *Report) Facts(nameAndText ...string) {
	r.Put("<div class=\"facts\">")
	for i := 0; i < len(nameAndText); i += 2 {
		r.Put("<div><small>%s</small>%s</div>", nameAndText[i], nameAndText[i+1])
	}
	r.Put("</div>\n")
}

// Table writes a table; the first column is text, and the others are numbers.
func (r *Report) Table(heads []string, rows [][]string) {
	cells := func(tag string, row []string) {
		r.Put("<tr>")
		for i, cell := range row {
			class := ""
			if i > 0 {
				class = "number"
			}
			r.Put("<"+tag+" class=\"%s\">%s</"+tag+">", class, cell)
		}
		r.Put("</tr>\n")
	}
	r.Put("<div class=\"panel scroll\"><table><thead>")
	cells("th", heads)
	r.Put("</thead><tbody>\n")
	for _, row := range rows {
		cells("td", row)
	}
	r.Put("</tbody></table></div>\n")
}

// Close ends the page. It fails with the error of the writer.
func (r *Report) Close() error {
	r.Put("</body>\n</html>\n")
	return r.w.Flush()
}

// Bytes writes a size for people.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
