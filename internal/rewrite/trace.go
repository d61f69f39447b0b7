package rewrite

import (
	"context"
	"io"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/rlxc/rlxc/internal/page"
)

// A Trace is the text of graphs before the first pass and after each.
type Trace struct{ graphs [][]stage }

// A stage is a graph after a pass. about is the sentence of the pass; it is empty before the first pass.
type stage struct {
	pass, about, text string
}

type traceKey struct{}

// WithTrace returns a context in which Run traces the graph, and those of subgraphs, and where the trace is.
func WithTrace(ctx context.Context) (context.Context, *Trace) {
	t := &Trace{}
	return context.WithValue(ctx, traceKey{}, t), t
}

// WriteHTML writes a page with each graph before the first pass, the changes of each pass, and the final graph. Clicking a value
// highlights it. It fails with the error of w.
func (t *Trace) WriteHTML(w io.Writer, title string) error {
	r := page.NewReport(w, title)
	r.Put("<p class=\"soft\">What each pass changed, from the top to the bottom: lines that it removed on the left, lines that it " +
		"added on the right. Click a value, such as %%12, to light it up everywhere.</p>\n")
	for _, stages := range t.graphs {
		name, _, _ := strings.Cut(stages[0].text, " (")
		r.Put("<h2 class=\"code\">%s</h2>\n<details class=\"panel\"><summary><b>%s</b> <small>%d lines</small></summary>\n<pre>", name,
			stages[0].pass, countLines(stages[0].text))
		graphText(r, stages[0].text)
		r.Put("</pre></details>\n")
		var idle []stage // passes that changed nothing
		for i, s := range stages[1:] {
			if before := stages[i]; before.text != s.text {
				unchanged(r, idle)
				idle = nil
				changed(r, before, s)
			} else {
				idle = append(idle, s)
			}
		}
		unchanged(r, idle)
	}
	return r.Close()
}

func unchanged(r *page.Report, passes []stage) {
	if len(passes) == 0 {
		return
	}
	r.Put("<p class=\"soft\">Nothing changed:</p>\n<ul class=\"soft\">\n")
	for _, s := range passes {
		r.Put("<li><b>%s</b> %s</li>\n", s.pass, s.about)
	}
	r.Put("</ul>\n")
}

func countLines(text string) int { return strings.Count(text, "\n") }

// mostLines are those of the graphs that are there as a whole after each pass.
const mostLines = 5000

// sides are the CSS classes of a diff's lines, by the first character.
var sides = map[byte]string{' ': "both", '-': "less", '+': "more", '@': "both"}

// changed writes the lines that a pass has changed, with some lines around them, and the graph after the pass.
func changed(r *page.Report, before, after stage) {
	text := string(diff.Diff("", []byte(before.text), "", []byte(after.text)))
	list := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")[3:] // the first are names
	r.Put("<details class=\"panel\"><summary><b>%s</b> <small>%d lines changed; %d before, %d after</small><br>\n"+
		"<small>It %s.</small></summary>\n<div class=\"diff\">",
		after.pass, len(list)-strings.Count(text, "\n ")-strings.Count(text, "\n@"), countLines(before.text), countLines(after.text),
		after.about)
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n][0] == list[0][0] {
			n++
		}
		r.Put("<pre class=\"%s\">", sides[list[0][0]])
		for _, line := range list[:n] {
			if line[0] == '@' { // the numbers of the lines that follow
				line = " ⋯\n"
			}
			graphText(r, line[1:])
		}
		r.Put("</pre>")
		list = list[n:]
	}
	r.Put("</div>\n")
	if countLines(after.text) <= mostLines {
		r.Put("<details><summary class=\"soft\">All of the graph after it</summary><pre>")
		graphText(r, after.text)
		r.Put("</pre></details>\n")
	}
	r.Put("</details>\n")
}

var valueRef = regexp.MustCompile(`%\d+`)

// graphText writes the text of a graph, with its values marked.
func graphText(r *page.Report, text string) {
	r.HTML(valueRef.ReplaceAllStringFunc(page.Text(text), func(ref string) string {
		return `<b data-value="` + ref[1:] + `">` + ref + `</b>`
	}))
}
