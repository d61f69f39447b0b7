package rewrite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlxc/rlxc/ir"
)

// A dumper traces a graph: for the Trace of the context if there is one, and into a folder, if that is named, as NN-pass.ir after each
// pass that changed it, and rewrite.html.
type dumper struct {
	trace  *Trace
	folder string
	stages []stage
}

func newDumper(ctx context.Context, folder string, g *ir.Graph) *dumper {
	d := &dumper{folder: folder}
	d.trace, _ = ctx.Value(traceKey{}).(*Trace)
	if d.trace != nil || folder != "" {
		d.stages = []stage{{pass: "before the first pass", text: g.String()}}
	}
	return d
}

// pass records the graph after pass p, which is number i of the list.
func (d *dumper) pass(i int, p *pass, g *ir.Graph) error {
	if d.stages == nil {
		return nil
	}
	before, text := d.stages[len(d.stages)-1].text, g.String()
	d.stages = append(d.stages, stage{p.name, p.about, text})
	if d.folder == "" || text == before {
		return nil
	}
	return d.write(fmt.Sprintf("%02d-%s.ir", i+1, p.name), text)
}

func (d *dumper) close() error {
	if d.trace != nil {
		d.trace.graphs = append(d.trace.graphs, d.stages)
	}
	if d.folder == "" {
		return nil
	}
	var out strings.Builder
	if err := (&Trace{[][]stage{d.stages}}).WriteHTML(&out, "Passes"); err != nil {
		return err
	}
	return d.write("rewrite.html", out.String())
}

// DumpOptions writes the options of a compilation to the folder that EnvDump names, if it is set.
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
		err = rewriteFile(filepath.Join(d.folder, name), text)
	}
	if err != nil {
		return fmt.Errorf("the compilation is not dumped: %w: name a folder in %s", err, EnvDump)
	}
	return nil
}

// rewriteFile writes a file that is new: a link of that name, which leads anywhere, is not followed.
func rewriteFile(path, text string) error {
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
