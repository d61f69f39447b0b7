package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rlxc/rlxc"
	"github.com/rlxc/rlxc/hub"
	"github.com/rlxc/rlxc/internal/artifact"
	"github.com/rlxc/rlxc/models"
	"github.com/rlxc/rlxc/onnx"
	"github.com/rlxc/rlxc/pipeline"
	"github.com/rlxc/rlxc/tokenizer"
)

// modelFile is the name of the model in a folder.
const modelFile = "model.onnx"

// A source is where a model comes from: a file, or the folder of a built-in one.
type source struct {
	name   string // name in errors and reports
	path   string // path of the file; empty for a built-in model
	folder fs.FS  // folder with the model, and with the files beside it
	file   string // path of the model in folder

	independent bool // see rlxc.WithIndependentSizes
	// overridable chooses among the inputs with a default those that runs give a value: see rlxc.WithOverridable. nil chooses none.
	overridable func(defaults []string) ([]string, error)
}

// find resolves the M of a command line: a file, a folder that holds model.onnx, or a built-in name; an existing path wins.
func find(m string) (*source, error) {
	info, err := os.Stat(m)
	switch {
	case err == nil && info.IsDir():
		file := filepath.Join(m, modelFile)
		if _, err := os.Stat(file); err != nil {
			if file, err = pipeline.ModelFile(m, ""); err != nil {
				return nil, fmt.Errorf("folder %s has no %s", m, modelFile)
			}
		}
		return fileSource(file), nil
	case err == nil:
		return fileSource(m), nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if _, ok := models.Lookup(m); !ok {
		if ext := filepath.Ext(m); strings.Contains(m, "/") && hub.ValidID(m) && ext != ".onnx" && ext != ".rlxc" {
			return nil, fmt.Errorf("%s: no such file; for a model of the hub, name the folder that \"rlxc pull %s\" prints", m, m)
		}
		return nil, fmt.Errorf("%s: no such file or built-in model%s (rlxc models lists the built-in ones)", m,
			didYouMean(m, "", models.Names()))
	}
	folder, err := models.FS(m)
	if err != nil {
		return nil, err
	}
	return &source{name: m, folder: folder, file: modelFile}, nil
}

// find is find for commands with --independent-sizes.
func (o *modelFlags) find(m string) (*source, error) {
	s, err := find(m)
	if err == nil {
		s.independent = o.independent
	}
	return s, err
}

func fileSource(file string) *source {
	return &source{name: file, path: file, folder: os.DirFS(filepath.Dir(file)), file: filepath.Base(file)}
}

// openText opens a model for texts.
func openText(ctx context.Context, what string, o pipeline.Options) (*pipeline.Model, error) {
	if err := withTokenizer(what); err != nil {
		return nil, err
	}
	m, err := pipeline.Open(ctx, what, o)
	return m, nameTokenizer(err)
}

// nameTokenizer adds the flag to the error of a model without a tokenizer beside it.
func nameTokenizer(err error) error {
	if errors.Is(err, tokenizer.ErrNoFile) {
		return fmt.Errorf("%w: name the tokenizer's file or folder with --tokenizer", err)
	}
	return err
}

// withTokenizer is an error for a built-in model, which has none.
func withTokenizer(what string) error {
	_, builtIn := models.Lookup(what)
	if _, err := os.Stat(what); builtIn && err != nil {
		return fmt.Errorf("%s is a built-in model, which has no tokenizer: name a folder that has one, or an id of the hub", what)
	}
	return nil
}

// open reads the model and lowers it.
func (s *source) open() (*rlxc.Model, error) {
	boundHeap(0)
	var opts []rlxc.Option
	if s.independent {
		opts = append(opts, rlxc.WithIndependentSizes())
	}
	m, err := s.openWith(opts...)
	if err != nil || s.overridable == nil {
		return m, err
	}
	names, err := s.overridable(namesOf(m.Overridable()))
	if err == nil && len(names) == 0 {
		return m, nil
	}
	m.Close()
	if err != nil {
		return nil, err
	}
	return s.openWith(append(opts, rlxc.WithOverridable(names...))...)
}

func (s *source) openWith(opts ...rlxc.Option) (*rlxc.Model, error) {
	if s.path != "" {
		return rlxc.Open(s.path, opts...)
	}
	data, err := fs.ReadFile(s.folder, s.file)
	if err != nil {
		return nil, err
	}
	return rlxc.Read(bytes.NewReader(data), int64(len(data)), s.name, opts...)
}

// amongDefaults chooses the inputs with a default that names returns, which is not called if there are none.
func amongDefaults(names func() ([]string, error)) func([]string) ([]string, error) {
	return func(defaults []string) ([]string, error) {
		if len(defaults) == 0 {
			return nil, nil
		}
		list, err := names()
		return slices.DeleteFunc(defaults, func(name string) bool { return !slices.Contains(list, name) }), err
	}
}

// compiled reports whether the model is a compiled file.
func (s *source) compiled() bool {
	if info, err := fs.Stat(s.folder, s.file); err != nil || !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return false // who opens it says why
	}
	f, err := s.folder.Open(s.file)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 8)
	n, _ := io.ReadFull(f, start)
	return artifact.IsArtifact(start[:n])
}

// openFile reads the model without lowering it.
func (s *source) openFile() (*onnx.Model, error) {
	if s.path != "" {
		return onnx.Open(s.path)
	}
	data, err := fs.ReadFile(s.folder, s.file)
	if err != nil {
		return nil, err
	}
	return onnx.Read(bytes.NewReader(data), int64(len(data)), s.name)
}

// completeModel completes M with the built-in names and leaves files to the shell.
func completeModel(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return models.Names(), cobra.ShellCompDirectiveDefault
}

// noArgs checks that a command line names nothing.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// oneModel checks that a command line names one model.
func oneModel(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one model, got %d arguments", len(args))
	}
	return nil
}
