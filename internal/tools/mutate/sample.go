//go:build unix

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// A Mutant is one change at one point of the code.
type Mutant struct {
	Number   int
	Package  string
	Dir      string // of the package
	File     string
	Line     int
	Old, New string

	start, end int // what New replaces, in bytes of the file
	scope      scope
}

// A scope is what is duplicated for a mutant: the body of a function, or the value of a variable of the package.
type scope struct {
	start, end int
	kind       scopeKind
}

type scopeKind int

const (
	valueScope scopeKind = iota
	resultScope
	noResultScope
)

// String describes the mutant in one line.
func (m *Mutant) String() string {
	short := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return fmt.Sprintf("%s:%d: %s -> %s", m.File, m.Line, short(m.Old), short(m.New))
}

// others are the operators that replace an operator: comparisons move their bound or are reversed.
var others = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LSS: {"<=", ">="}, token.LEQ: {"<", ">"}, token.GTR: {">=", "<="}, token.GEQ: {">", "<"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"+"}, token.QUO: {"*"}, token.REM: {"/"}, token.SHL: {">>"}, token.SHR: {"<<"},
	token.AND: {"|"}, token.OR: {"&"}, token.XOR: {"&"},
	token.ADD_ASSIGN: {"-="}, token.SUB_ASSIGN: {"+="}, token.MUL_ASSIGN: {"+="}, token.OR_ASSIGN: {"&="},
	token.INC: {"--"}, token.DEC: {"++"},
}

// words are names that replace a name.
var words = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min", "Min": "Max", "Max": "Min"}

// mutants lists the changes of a file: operators become others, conditions lose a side or never hold, numbers grow by one, truths
// are negated, assignments, calls, continues, cases and fields of literals go away, errors are not returned.
func mutants(path, dir, file, text string) ([]*Mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(pos token.Pos) int { return set.Position(pos).Offset }
	source := func(n ast.Node) string { return text[offset(n.Pos()):offset(n.End())] }
	var found []*Mutant
	var in *scope
	replace := func(pos, end token.Pos, to string) {
		if in != nil {
			found = append(found, &Mutant{Package: path, Dir: dir, File: file, Line: set.Position(pos).Line,
				Old: text[offset(pos):offset(end)], New: to, start: offset(pos), end: offset(end), scope: *in})
		}
	}
	body := func(b *ast.BlockStmt, results *ast.FieldList) *scope {
		s := &scope{start: offset(b.Lbrace) + 1, end: offset(b.Rbrace), kind: noResultScope}
		if results != nil {
			s.kind = resultScope
		}
		return s
	}
	var visit func(n ast.Node) bool
	all := func(n ast.Node) {
		if n != nil {
			ast.Inspect(n, visit)
		}
	}
	visit = func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			if x.Body != nil {
				in = body(x.Body, x.Type.Results)
				all(x.Body)
				in = nil
			}
			return false
		case *ast.FuncLit:
			if in == nil || in.kind == valueScope {
				outer := in
				in = body(x.Body, x.Type.Results)
				all(x.Body)
				in = outer
			} else {
				all(x.Body)
			}
			return false
		case *ast.GenDecl:
			if x.Tok != token.VAR {
				return false
			}
		case *ast.ValueSpec:
			for _, v := range x.Values {
				switch {
				case in != nil:
					all(v)
				case len(x.Names) == len(x.Values):
					in = &scope{start: offset(v.Pos()), end: offset(v.End())}
					all(v)
					in = nil
				}
			}
			return false
		case *ast.ForStmt: // with another head most loops would only not end
			all(x.Body)
			return false
		case *ast.ArrayType, *ast.LabeledStmt:
			if l, ok := x.(*ast.LabeledStmt); ok {
				all(l.Stmt)
			}
			return false
		case *ast.IndexExpr, *ast.SelectorExpr, *ast.StarExpr:
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				replace(x.Pos(), x.End(), source(x.X))
				replace(x.Pos(), x.End(), source(x.Y))
			}
			for _, op := range others[x.Op] {
				replace(x.OpPos, x.OpPos+token.Pos(len(x.Op.String())), op)
			}
		case *ast.UnaryExpr:
			if x.Op == token.NOT {
				replace(x.Pos(), x.End(), source(x.X))
			}
		case *ast.IfStmt:
			replace(x.Cond.Pos(), x.Cond.End(), "false && ("+source(x.Cond)+")")
		case *ast.BasicLit:
			switch x.Kind {
			case token.INT:
				if n, err := strconv.ParseInt(x.Value, 0, 62); err == nil {
					replace(x.Pos(), x.End(), strconv.FormatInt(n+1, 10))
				}
			case token.STRING:
				shaders(text[offset(x.Pos()):offset(x.End())], func(start, end int, to string) {
					replace(x.Pos()+token.Pos(start), x.Pos()+token.Pos(end), to)
				})
			}
		case *ast.Ident:
			if to := words[x.Name]; to != "" {
				replace(x.Pos(), x.End(), to)
			}
		case *ast.IncDecStmt:
			replace(x.TokPos, x.TokPos+2, others[x.Tok][0])
		case *ast.AssignStmt:
			for _, op := range others[x.Tok] {
				replace(x.TokPos, x.TokPos+2, op)
			}
			if x.Tok == token.ASSIGN {
				replace(x.Pos(), x.End(), "{}")
			}
		case *ast.ExprStmt, *ast.DeferStmt:
			replace(x.Pos(), x.End(), "{}")
		case *ast.BranchStmt:
			if x.Tok == token.CONTINUE || x.Tok == token.BREAK {
				replace(x.Pos(), x.End(), "{}")
			}
			return false
		case *ast.ReturnStmt:
			if len(x.Results) == 0 {
				replace(x.Pos(), x.End(), "{}")
			} else if id, ok := x.Results[len(x.Results)-1].(*ast.Ident); ok && id.Name == "err" {
				replace(id.Pos(), id.End(), "nil")
			}
		case *ast.CaseClause:
			if len(x.List) > 1 {
				replace(x.List[0].Pos(), x.List[1].Pos(), "")
				replace(x.List[len(x.List)-2].End(), x.List[len(x.List)-1].End(), "")
			}
		case *ast.CompositeLit:
			if x.Type == nil && len(x.Elts) == 0 {
				return true
			}
			for i, e := range x.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if _, named := kv.Key.(*ast.Ident); named && len(x.Elts) > 1 {
						if i == 0 {
							replace(e.Pos(), x.Elts[1].Pos(), "")
						} else {
							replace(x.Elts[i-1].End(), e.End(), "")
						}
					}
				}
			}
		}
		return true
	}
	ast.Inspect(tree, visit)
	return found, nil
}

// shaders calls f for the operators of shader source in a string.
func shaders(text string, f func(start, end int, to string)) {
	if !strings.HasPrefix(text, "`") || !strings.ContainsAny(text, ";{") {
		return
	}
	for _, change := range [][2]string{{" + ", " - "}, {" - ", " + "}, {" * ", " + "}, {" / ", " * "}, {" % ", " / "}, {" < ", " <= "}} {
		old, to := change[0], change[1]
		for at := 0; ; {
			i := strings.Index(text[at:], old)
			if i < 0 {
				break
			}
			f(at+i, at+i+len(old), to)
			at += i + len(old)
		}
	}
}

// selector declares what selects a mutant. Scripts run commands with a separate environment, so these ask their parent.
const selector = `package %s

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	mutateAtomic "sync/atomic" // backend/wgpu has an atomic of its own
)

var mutateEnv = func() (env [2]string) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/environ")
	for _, all := range [][]string{strings.Split(string(text), "\x00"), os.Environ()} {
		for _, e := range all {
			for i, name := range []string{"MUTATE_SELECTED=", "MUTATE_TRACE="} {
				if v, ok := strings.CutPrefix(e, name); ok {
					env[i] = v
				}
			}
		}
	}
	return env
}()

var mutateSelected, _ = strconv.Atoi(mutateEnv[0])

var mutateReached [1 << 14]mutateAtomic.Bool

func mutateReach(ks ...int) { // which allocates nothing the second time: some tests count that
	if mutateReached[ks[0]].Swap(true) {
		return
	}
	if f, err := os.OpenFile(mutateEnv[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666); err == nil {
		fmt.Fprintln(f, strings.Trim(fmt.Sprint(slices.Clone(ks)), "[]"))
		f.Close()
	}
}

func mutatePick[T any](k int, mutant, value T) T {
	if mutateSelected == -1 {
		mutateReach(k)
	}
	if mutateSelected == k {
		return mutant
	}
	return value
}

var _ = mutatePick[int]
`
