package rewrite

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rlxc/rlxc/ir"
)

// A dumper writes the IR after each pass that changed it as NN-pass.ir, and all of them beside one another in rewrite.html,
// where a value lights up in every column. Without a folder it does nothing.
type dumper struct {
	folder string
	last   string
	page   strings.Builder
}

//go:embed dump.html
var pageHead string

func newDumper(folder string, g *ir.Graph) *dumper {
	d := &dumper{folder: folder}
	if folder != "" {
		d.last = g.String()
		d.page.WriteString(pageHead)
		d.column("lowered")
	}
	return d
}

// pass records the graph after pass number i of the list.
func (d *dumper) pass(i int, name string, g *ir.Graph) error {
	if d.folder == "" {
		return nil
	}
	text := g.String()
	if text == d.last {
		return nil
	}
	d.last = text
	d.column(name)
	return d.write(fmt.Sprintf("%02d-%s.ir", i+1, name), text)
}

func (d *dumper) close() error {
	if d.folder == "" {
		return nil
	}
	return d.write("rewrite.html", d.page.String()+"</div></body></html>\n")
}

// DumpOptions writes what a program is compiled with into the folder of EnvDump, if there is one.
func DumpOptions(o Options) error {
	d := dumper{folder: os.Getenv(EnvDump)}
	if d.folder == "" {
		return nil
	}
	text, err := json.MarshalIndent(o, "", "  ")
	return cmp.Or(err, d.write("options.json", string(text)+"\n"))
}

func (d *dumper) write(name, text string) error {
	err := os.MkdirAll(d.folder, 0o777)
	if err == nil {
		err = writeAnew(filepath.Join(d.folder, name), text)
	}
	if err != nil {
		return fmt.Errorf("the compilation is not dumped: %w: name a folder in %s", err, EnvDump)
	}
	return nil
}

// writeAnew writes a file that is new: a link of that name, which leads anywhere, is not followed.
func writeAnew(path, text string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

var valueRef = regexp.MustCompile(`%\d+`)

func (d *dumper) column(name string) {
	lines := strings.Split(strings.TrimSuffix(d.last, "\n"), "\n")
	fmt.Fprintf(&d.page, "<section><h2>%s <small>%d lines</small></h2><pre>", html.EscapeString(name), len(lines))
	for _, line := range lines {
		text := valueRef.ReplaceAllStringFunc(html.EscapeString(line), func(ref string) string {
			return fmt.Sprintf(`<b class="v%s">%s</b>`, ref[1:], ref)
		})
		fmt.Fprintf(&d.page, "<div>%s</div>", text)
	}
	d.page.WriteString("</pre></section>\n")
}
