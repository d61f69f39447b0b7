package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Mutant is the code with one condition changed.
type Mutant struct {
	File     string
	Line     int
	Old, New string

	condition int // the number of the condition's first mutant
}

// String describes the mutant in one line.
func (m Mutant) String() string {
	short := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return fmt.Sprintf("%s:%d: %s -> %s", m.File, m.Line, short(m.Old), short(m.New))
}

// neighbours are the comparisons that replace a comparison: they move the bound, or equality to its other side.
var neighbours = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
}

// A mutable is a package, or files of one, with all its mutants in one text: number k of them is the code where selected is k.
type mutable struct {
	dir, name string
	mutants   []Mutant
	files     map[string]string // the text by path
}

// selector declares the variable that selects a mutant, which EnvMutant sets; for traced it adds to the file of EnvTrace the first
// mutant of every condition that a run comes to.
const selector = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var selectedMutant, _ = strconv.Atoi(os.Getenv(%q))

var reachedMutants sync.Map

func reachMutant(k int) {
	if _, known := reachedMutants.LoadOrStore(k, true); known {
		return
	}
	if f, err := os.OpenFile(os.Getenv(%q), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err == nil {
		fmt.Fprintln(f, k)
		f.Close()
	}
}
`

// EnvTrace names a file for the conditions that a run reaches.
const EnvTrace = "MUTATE_TRACE"

// traced selects no mutant but records which conditions a run reaches.
const traced = -1

// EnvMutant selects a mutant of the package under test; 0 is the code as it is.
const EnvMutant = "MUTATE_SELECTED"

// mutablePackage reads a package.
func mutablePackage(dir string) (*mutable, error) {
	p := &mutable{dir: dir, files: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		generated := strings.HasPrefix(string(text), "// Code generated") || strings.HasPrefix(string(text), "//go:build")
		if generated || strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".pb.go") {
			continue
		}
		if err := p.add(filepath.ToSlash(file), string(text)); err != nil {
			return nil, err
		}
	}
	p.files[filepath.Join(dir, "mutate_selected.go")] = fmt.Sprintf(selector, p.name, EnvMutant, EnvTrace)
	return p, nil
}

// folder is the package of an argument, which is itself or a pattern of its files.
func folder(place string) string {
	if strings.HasSuffix(place, ".go") {
		return filepath.Dir(place)
	}
	return filepath.Clean(place)
}

// of lists the mutants, by their indices, that an argument names.
func (p *mutable) of(place string) (mutants []int) {
	place = filepath.ToSlash(filepath.Clean(place))
	for k, m := range p.mutants {
		if ok, err := path.Match(place, m.File); !strings.HasSuffix(place, ".go") || ok && err == nil {
			mutants = append(mutants, k)
		}
	}
	return mutants
}

// add takes a file's conditions: every comparison becomes its neighbours, every conjunction and disjunction loses a side, every
// negation goes away, and every condition of an if that is no comparison itself is taken to hold never.
func (p *mutable) add(file, text string) error {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p.name = tree.Name.Name
	offset := func(pos token.Pos) int { return set.Position(pos).Offset }
	source := func(n ast.Node) string { return text[offset(n.Pos()):offset(n.End())] }
	type change struct {
		start, end int
		cases      []string // of a switch over selectedMutant
	}
	var changes []change
	add := func(n ast.Node, to ...string) {
		c := change{start: offset(n.Pos()), end: offset(n.End())}
		first := len(p.mutants) + 1
		c.cases = append(c.cases, fmt.Sprintf("case %d: reachMutant(%d)\n", traced, first))
		for _, t := range to {
			p.mutants = append(p.mutants, Mutant{file, set.Position(n.Pos()).Line, source(n), t, first})
			c.cases = append(c.cases, fmt.Sprintf("case %d: return %s\n", len(p.mutants), t))
		}
		changes = append(changes, c)
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.GenDecl:
			return x.Tok != token.CONST
		case *ast.ForStmt: // with another condition most loops would only not end
			ast.Inspect(x.Body, visit)
			return false
		case *ast.BinaryExpr:
			switch {
			case x.Op == token.LAND || x.Op == token.LOR:
				add(x, source(x.X), source(x.Y))
			case neighbours[x.Op] != nil:
				var to []string
				for _, op := range neighbours[x.Op] {
					to = append(to, source(x.X)+" "+op+" "+source(x.Y))
				}
				add(x, to...)
			}
		case *ast.UnaryExpr:
			if x.Op == token.NOT {
				add(x, source(x.X))
			}
		case *ast.IfStmt:
			switch x.Cond.(type) {
			case *ast.BinaryExpr, *ast.UnaryExpr:
			default:
				add(x.Cond, "false && "+source(x.Cond))
			}
		}
		return true
	}
	ast.Inspect(tree, visit)
	// The innermost first, so that an outer condition takes in those that it is made of.
	slices.SortStableFunc(changes, func(a, b change) int { return (a.end - a.start) - (b.end - b.start) })
	type edit struct{ at, grown int }
	var done []edit
	shift := func(at int, inclusive bool) int {
		s := at
		for _, e := range done {
			if e.at < at || inclusive && e.at == at {
				s += e.grown
			}
		}
		return s
	}
	for _, c := range changes {
		start, end := shift(c.start, false), shift(c.end, true)
		head := "func() bool { switch selectedMutant {\n" + strings.Join(c.cases, "") + "}\nreturn "
		// Go keeps the lines of what follows in place by itself: nobody reads them.
		text = text[:start] + head + text[start:end] + " }()" + text[end:]
		done = append(done, edit{c.start, len(head)}, edit{c.end, len(" }()")})
	}
	p.files[file] = text
	return nil
}
