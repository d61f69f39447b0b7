// Command mutate changes one condition of the code at a time and runs the tests that reach it. A change that no test notices is a
// condition that no test proves. It prints the changes that survive, and a table by package.
//
//	go run ./internal/mutate -each 32 -seed 1 -log mutants.txt rewrite proof planner 'ir/op_*.go'
//
// An argument is a package or a pattern of files of one package.
//
// All mutants of a package are compiled into its test binaries at once, by go test -overlay: nothing is written into the tree. A
// mutant is then a run of these binaries with EnvMutant set. Each test is first run alone to see which conditions it reaches; of a
// mutant only those tests run, the nearest package's first, those that killed most first, and the slow ones last.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// nearest lists the packages whose tests run for a package, nearest first. A package that is not listed has only its own tests.
var nearest = map[string][]stage{
	"internal/rewrite": {{"internal/rewrite", "", "WorkIsLinear|Dump"}, {".", "Unpad", ""}},
	"lower": {{"lower", "", ""}, {"internal/conformance", "Nodes|Machine", ""}, {"internal/wholemodels", models, ""},
		{".", models, ""}},
	"ir": {{"ir", "", ""}, {"internal/rewrite", "", "WorkIsLinear|Dump"}, {"lower", "", ""}, {"internal/legalize", "", ""},
		{"internal/conformance", "Nodes|Machine", ""}},
	"internal/legalize": {{"internal/legalize", "", ""}, {"internal/rewrite", "Devices", ""}, {"internal/wholemodels", models, ""},
		{".", models, ""}},
	"liveness":       {{"liveness", "", "WorkIsLinear"}, {"internal/rewrite", "Devices", ""}},
	"internal/proof": {{"internal/proof", "", ""}, {"liveness", "", "WorkIsLinear"}},
	"backend/cpu": {{"backend/cpu", "", ""}, {"internal/rewrite", "Devices", ""}, {"internal/wholemodels", models, ""},
		{".", models, ""}, {"internal/conformance", "Nodes", ""}},
	"backend/wgpu":      {{"backend/wgpu", "", "Packages|Large|Sentences|Fixtures|Sessions|Exports"}},
	"internal/artifact": {{"internal/artifact", "", ""}, {".", "Saved|Damaged|Replaced", ""}},
	"quantize":          {{"quantize", "", ""}, {"internal/wholemodels", "TestQuantize", ""}},
	"internal/engine":   {{"internal/engine", "", ""}, {".", "", "Resident|SharedPages"}, {"internal/conformance", "Nodes", ""}},
}

// models are the tests of the API and of whole models.
const models = "Exports|Contrib|Session|Poison|LateReads|FixedDims"

func main() {
	each := flag.Int("each", 32, "mutants to try of each argument")
	seed := flag.Uint64("seed", 1, "of the choice of mutants")
	log := flag.String("log", "mutants.txt", "a file that outcomes are added to; mutants that it has are not tried again")
	limit := flag.Duration("limit", time.Hour, "stop trying after so long; the next call goes on")
	flag.Parse()
	if err := run(flag.Args(), *each, *seed, *log, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(places []string, each int, seed uint64, log string, limit time.Duration) error {
	if len(places) == 0 {
		return errors.New("name packages or files, such as rewrite or backend/cpu/rows.go")
	}
	known, err := readLog(log)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer out.Close()
	end := time.Now().Add(limit)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PACKAGE\tMUTANTS\tTRIED\tKILLED\tSURVIVED")
	var survivors []string
	total, tried := 0, 0
	for _, place := range places {
		p, err := mutablePackage(folder(place))
		if err != nil {
			return err
		}
		mutants := p.of(place)
		if len(mutants) == 0 {
			return fmt.Errorf("%s has no conditions: name a package's folder or one of its files", place)
		}
		sample := rand.New(rand.NewPCG(seed, 0)).Perm(len(mutants))[:min(each, len(mutants))]
		for i, k := range sample {
			sample[i] = mutants[k]
		}
		left := slices.DeleteFunc(slices.Clone(sample), func(k int) bool { return known[p.mutants[k].String()] != "" })
		if len(left) > 0 && time.Now().Before(end) {
			err = p.try(left, end, func(m Mutant, by string) error {
				if by == "" {
					by = survived
				}
				known[m.String()] = by
				_, err := fmt.Fprintf(out, "%s\t%s\n", m, by)
				return err
			})
			if err != nil {
				return err
			}
		}
		n, alive := 0, 0
		for _, k := range sample {
			switch by := known[p.mutants[k].String()]; {
			case by == survived:
				alive++
				survivors = append(survivors, p.mutants[k].String())
				fallthrough
			case by != "":
				n++
			}
		}
		total, tried = total+len(mutants), tried+n
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", place, len(mutants), n, n-alive, alive)
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\n", total, tried, tried-len(survivors), len(survivors))
	w.Flush()
	for _, m := range survivors {
		fmt.Println(m)
	}
	return nil
}

// survived is what a log has in place of the test that killed a mutant.
const survived = "survived"

// readLog reads the outcomes by mutant: lines of a mutant, a tab and what killed it.
func readLog(file string) (map[string]string, error) {
	known := map[string]string{}
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if mutant, by, ok := strings.Cut(s.Text(), "\t"); ok {
			known[mutant] = by
		}
	}
	return known, s.Err()
}
