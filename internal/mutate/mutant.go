package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Mutant is the code with one condition changed.
type Mutant struct {
	File       string
	Line       int
	Start, End int // in bytes: what is replaced
	Old, New   string
}

// String is one line for people.
func (m Mutant) String() string {
	short := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return fmt.Sprintf("%s:%d: %s -> %s", m.File, m.Line, short(m.Old), short(m.New))
}

// apply gives the text of the file with the change.
func (m Mutant) apply() ([]byte, error) {
	text, err := os.ReadFile(m.File)
	if err != nil {
		return nil, err
	}
	if m.End > len(text) || string(text[m.Start:m.End]) != m.Old {
		return nil, fmt.Errorf("%s has changed since the mutant was made", m.File)
	}
	return slices.Concat(text[:m.Start], []byte(m.New), text[m.End:]), nil
}

// neighbours are comparisons put for others: what is a bound, and on which side of it equality lies.
var neighbours = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
}

// mutantsOf lists the changes of a package's conditions, or of a file's.
func mutantsOf(path string) (all []Mutant, err error) {
	files := []string{path}
	if !strings.HasSuffix(path, ".go") {
		if files, err = filepath.Glob(filepath.Join(path, "*.go")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".pb.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(string(text), "// Code generated") || strings.HasPrefix(string(text), "//go:build") {
			continue
		}
		ms, err := mutate(file, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, ms...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no conditions: name a package's folder or a file", path)
	}
	return all, nil
}

// mutate lists the changes of one file: every comparison becomes its neighbours, every conjunction and disjunction loses a side,
// every negation goes away, and every condition of an if that is no comparison itself is taken to hold never.
func mutate(file, text string) (all []Mutant, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	source := func(n ast.Node) string { return text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset] }
	add := func(n ast.Node, to string) {
		at := set.Position(n.Pos())
		all = append(all, Mutant{file, at.Line, at.Offset, set.Position(n.End()).Offset, source(n), to})
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.ForStmt: // with another condition most loops would only not end
			ast.Inspect(x.Body, visit)
			return false
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				add(x, source(x.X))
				add(x, source(x.Y))
			}
			for _, op := range neighbours[x.Op] {
				add(x, source(x.X)+" "+op+" "+source(x.Y))
			}
		case *ast.UnaryExpr:
			if x.Op == token.NOT {
				add(x, source(x.X))
			}
		case *ast.IfStmt:
			if _, compares := x.Cond.(*ast.BinaryExpr); !compares {
				add(x.Cond, "false && "+source(x.Cond))
			}
		}
		return true
	}
	ast.Inspect(tree, visit)
	return all, nil
}
